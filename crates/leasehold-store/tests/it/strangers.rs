//! Peers that need not be a Redis. The store reports that in time, and reveals no password.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{LIMIT, SET, call, error_chain};
use leasehold_proto::{Applied, Channel, StoreErrorKind as Kind};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::wait::eventually;

const TIMEOUT: Duration = Duration::from_millis(300);

/// Serves one client by `answer` and returns the URL for it.
fn serve_bytes(answer: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("a listener has an address");
    thread::spawn(move || answer(listener.accept().expect("the store connects").0));
    format!("redis://app:hunter2@{address}/1")
}

/// Starts a stranger that reads a little, sends these bytes whatever it read, and then does nothing more.
fn reply_with(bytes: impl Into<Vec<u8>>) -> String {
    let bytes = bytes.into();
    serve_bytes(move |mut client| {
        let _ = client.read(&mut [0; 1 << 14]);
        let _ = client.write_all(&bytes);
        wait_for_the_end(&mut client);
    })
}

fn wait_for_the_end(client: &mut TcpStream) {
    let mut heard = [0; 512];
    while client.read(&mut heard).is_ok_and(|count| count > 0) {}
}

#[expect(clippy::disallowed_methods, reason = "measures what the store promises about time")]
async fn kind_of(url: &str) -> Kind {
    let started = Instant::now();
    let options = ConnectOptions::default().timeout(TIMEOUT);
    let url = url.parse().expect("the URL is valid");
    let error = Redis::connect(&url, options).await.expect_err("it is no Redis");
    assert!(started.elapsed() < TIMEOUT + Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(error.applied, Applied::No);
    assert!(!error_chain(&error).contains("hunter2"), "{}", error_chain(&error));
    error.kind
}

#[tokio::test]
async fn a_silent_peer_times_out() {
    assert_eq!(kind_of(&serve_bytes(|mut client| wait_for_the_end(&mut client))).await, Kind::Timeout);
    assert_eq!(kind_of(&reply_with("+O")).await, Kind::Timeout);
    assert_eq!(kind_of(&reply_with("+OK\r\n+OK\r\n")).await, Kind::Timeout);
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_a_lost_connection() {
    assert_eq!(kind_of(&serve_bytes(drop)).await, Kind::ConnectionLost);
    let halfway = |mut client: TcpStream| {
        let _ = client.read(&mut [0; 512]);
        let _ = client.write_all(b"+OK\r\n+O");
    };
    assert_eq!(kind_of(&serve_bytes(halfway)).await, Kind::ConnectionLost);
}

#[tokio::test]
async fn a_peer_with_another_protocol_is_malformed() {
    let nonsense: [&[u8]; 12] = [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        b"220 mail.example ESMTP\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01\x02\x00",
        b"\0\0\0\0",
        b"+hunter2\r\n",
        b"$7\r\nhunter2\r\n",
        b":hunter2\r\n",
        b":1\r\n",
        b"*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n",
        b"*-7\r\n",
        b"+OK\r\n+OK\r\n+hunter2\r\n",
    ];
    for bytes in nonsense {
        assert_eq!(kind_of(&reply_with(bytes)).await, Kind::Malformed, "{}", String::from_utf8_lossy(bytes));
    }
    let echo = |mut client: TcpStream| {
        let mut heard = [0; 512];
        while let Ok(count @ 1..) = client.read(&mut heard) {
            let _ = client.write_all(&heard[..count]);
        }
    };
    assert_eq!(kind_of(&serve_bytes(echo)).await, Kind::Malformed);
}

#[tokio::test]
async fn an_error_that_contains_the_password_is_not_quoted() {
    assert_eq!(kind_of(&reply_with("-ERR unknown command hunter2\r\n")).await, Kind::Server);
    assert_eq!(kind_of(&reply_with("+OK\r\n-hunter2\r\n")).await, Kind::Server);
    assert_eq!(kind_of(&reply_with("+OK\r\n+OK\r\n-ERR what is hunter2\r\n")).await, Kind::Server);
}

#[tokio::test]
async fn impossible_sizes_and_depths_neither_panic_nor_hang() {
    for bytes in [
        "*1\r\n".repeat(100_000),
        "%-1\r\n".into(),
        "|-1\r\n".into(),
        "*99999999999999999999\r\n".into(),
        "*9223372036854775807\r\n".into(),
        "$1000000000000\r\nabc".into(),
        "$4611686018427387904\r\n".into(),
        format!("-{}", "x".repeat(100_000)),
    ] {
        assert_eq!(kind_of(&reply_with(bytes)).await, Kind::Malformed);
    }
}

/// The work of a flooding server: the number of headers that it has sent, and of bytes after them.
#[derive(Default)]
struct Flood {
    headers: AtomicUsize,
    bytes: AtomicUsize,
}

/// Starts a server that greets as a Redis does, and then answers the first call, or the first subscription, with this
/// header and as many bytes as the store accepts.
fn start_flood(header: &'static [u8]) -> (String, Arc<Flood>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("redis://{}", listener.local_addr().expect("a listener has an address"));
    let flooded = Arc::new(Flood::default());
    let flood = Arc::clone(&flooded);
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let flood = Arc::clone(&flood);
            thread::spawn(move || {
                let _ = client.read(&mut [0; 1 << 14]);
                let _ = client.write_all(b"+PONG\r\n-ERR unknown command\r\n:0\r\n:1\r\n");
                let _ = client.read(&mut [0; 512]);
                let _ = client.write_all(header);
                flood.headers.fetch_add(1, Ordering::Relaxed);
                while client.write_all(&[b'x'; 1 << 16]).is_ok() {
                    flood.bytes.fetch_add(1 << 16, Ordering::Relaxed);
                }
            });
        }
    });
    (url, flooded)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_value_is_rejected_at_its_header() {
    const A_FEW_BUFFERS: usize = 32 << 20;
    for header in [&b"$4611686018427387904\r\n"[..], b"*4611686018427387904\r\n", b"-", b"%2\r\n"] {
        let (url, flood) = start_flood(header);
        let options = ConnectOptions::default().timeout(LIMIT);
        let store = Redis::connect(&url.parse().expect("a URL"), options).await.expect("it greets");
        let outcome = store.run(call(&SET, "k", 1), LIMIT).await;
        crate::common::assert_failed(outcome, Kind::Malformed, Applied::Unknown);
        let (heard, _news) = tokio::sync::mpsc::unbounded_channel();
        let listening = store.subscribe(Channel::new("c"), heard);
        let both = || flood.headers.load(Ordering::Relaxed) > 1;
        eventually(LIMIT, "the other connection to be answered too", both);
        drop((listening, store));
        let taken = flood.bytes.load(Ordering::Relaxed);
        assert!(taken < A_FEW_BUFFERS, "{taken} bytes were taken");
    }
}

#[tokio::test]
async fn a_server_in_protected_mode_rejects_the_client() {
    let denied = "-DENIED Redis is running in protected mode because protected mode is enabled\r\n";
    assert_eq!(kind_of(&reply_with(format!("+OK\r\n+OK\r\n{denied}"))).await, Kind::AuthenticationFailed);
}
