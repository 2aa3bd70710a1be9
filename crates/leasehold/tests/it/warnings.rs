//! The warnings of a client, as a subscriber of the program collects them.

use std::fmt::{Debug, Write};
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::Duration;

use leasehold::{Address, Client, ClientBuilder, Confirm, Dial, OnMissing, Socket};
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use leasehold_testkit::certificates::Authority;
use leasehold_testkit::servers::RedisServer;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use leasehold_testkit::servers::TlsServer;
use tokio::net::TcpStream;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::{eventually, ms, soon};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The log pipe, which stands still for lines with this text while it is stuck.
static PIPE: (Mutex<bool>, Condvar) = (Mutex::new(true), Condvar::new());
const STUCK: &str = "wanted=78";

/// A subscriber that keeps each event as a line. Clients warn on threads of their own, so it is that of the program.
struct Lines;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold") && *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        let stands_still = line.0.contains(STUCK);
        LINES.lock().unwrap().push(line.0);
        if stands_still {
            let (is_stuck, flows) = &PIPE;
            drop(flows.wait_while(is_stuck.lock().unwrap(), |is_stuck| *is_stuck).unwrap());
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Collects the warnings from now on.
fn collect() {
    static COLLECTS: Once = Once::new();
    COLLECTS.call_once(|| tracing::subscriber::set_global_default(Lines).unwrap());
}

/// Returns the warnings that contain a text. Other tests of this program may warn too.
fn warnings(text: &str) -> Vec<String> {
    LINES.lock().unwrap().iter().filter(|line| line.contains(text)).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_replicas_are_a_warning_once_until_they_are_back() {
    collect();
    let server = RedisServer::start();
    let builder = Client::builder().replicas(Confirm::AtLeast(77)).on_missing(OnMissing::Warn);
    let client = builder.connect(&server.url()).await.unwrap();
    for _ in 0..3 {
        client.lock("job").lock().await.unwrap().release().await.unwrap();
    }
    eventually("the warning", || !warnings("wanted=77").is_empty()).await;
    let [line] = &warnings("wanted=77")[..] else { panic!("{:?}", warnings("")) };
    assert!(line.starts_with("WARN ") && line.contains("connected=0"), "{line}");
    assert!(line.contains("replicas are missing"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_stands_still_stops_no_renewal() {
    collect();
    let server = RedisServer::start();
    let builder = Client::builder().replicas(Confirm::AtLeast(78)).on_missing(OnMissing::Warn);
    let client = builder.connect(&server.url()).await.unwrap();
    let guard = soon("the lock", client.lock("job").watchdog(ms(600)).lock()).await.unwrap();
    eventually("the warning", || !warnings(STUCK).is_empty()).await;
    let renewals = || server.commandstats().get("pexpire").copied().unwrap_or_default();
    let before = renewals();
    eventually("renewals beyond the first lease", || renewals() >= before + 6).await;
    assert!(guard.is_held());
    soon("the release", guard.release()).await.unwrap();
    *PIPE.0.lock().unwrap() = false;
    PIPE.1.notify_all();
}

const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const PASSWORD: &str = "correct-horse";

/// A transport to the servers of this machine, each of which has a public address.
#[derive(Clone, Debug, Default)]
struct FromOutside {
    dials: Arc<AtomicUsize>,
}

impl Dial for FromOutside {
    fn dial<'a>(
        &'a self,
        address: &'a Address,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>> {
        let Address::Tcp { host, port } = address else { panic!("{address} has no port") };
        assert_eq!(*host, PUBLIC.to_string());
        self.dials.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            let stream = TcpStream::connect(("127.0.0.1", *port)).await?;
            Ok(Socket::new(stream).in_plain_text_to(PUBLIC.into()))
        })
    }
}

/// Waits for a warning of its own, behind which no earlier one is left.
async fn all_are_told() {
    static WANTED: AtomicU32 = AtomicU32::new(1_000);
    let wanted = WANTED.fetch_add(1, Ordering::Relaxed);
    let server = RedisServer::start();
    let builder = Client::builder().replicas(Confirm::AtLeast(wanted)).on_missing(OnMissing::Warn);
    let client = builder.connect(&server.url()).await.unwrap();
    client.lock("job").lock().await.unwrap().release().await.unwrap();
    eventually("the last warning", || !warnings(&format!("wanted={wanted}")).is_empty()).await;
}

/// Connects to a server by its public address, over one connection for calls and one for messages. Returns the warnings
/// that name it.
async fn warnings_of(builder: ClientBuilder, url: &str) -> Vec<String> {
    collect();
    let transport = FromOutside::default();
    let client = builder.dialer(transport.clone()).connect(url).await.unwrap();
    let _guard = client.lock("job").lock().await.unwrap();
    let second = client.lock("job").try_lock_for(ms(200)).await.unwrap();
    assert!(second.is_none() && transport.dials.load(Ordering::Relaxed) > 1, "{transport:?}");
    let (_, server) = url.rsplit_once(['/', '@']).unwrap();
    all_are_told().await;
    warnings(&format!("server.address={server:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_in_plain_text_to_a_public_address_is_a_warning_once() {
    let server = RedisServer::with(&["--requirepass", PASSWORD]);
    let public = server.url_with_password().replace("127.0.0.1", &PUBLIC.to_string());
    let lines = warnings_of(Client::builder(), &public).await;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("WARN ") && line.contains("the password travels in plain text"), "{line}");
    assert!(!line.contains(PASSWORD), "{line}");
    let client = Client::connect(&server.url_with_password()).await.unwrap();
    client.lock("job of its own machine").lock().await.unwrap().release().await.unwrap();
    assert_eq!(warnings(&format!("server.address=\"127.0.0.1:{}", server.port())), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_address_without_a_password_is_no_warning() {
    let server = RedisServer::start();
    let public = server.url().replace("127.0.0.1", &PUBLIC.to_string());
    assert_eq!(warnings_of(Client::builder(), &public).await, [""; 0]);
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_password_is_no_warning() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, &authority.server(&[&PUBLIC.to_string()]), false);
    assert_eq!(server.cli(&["CONFIG", "SET", "requirepass", PASSWORD]), "OK");
    let public = format!("rediss://:{PASSWORD}@{PUBLIC}:{}", server.tls_port());
    let builder = Client::builder().tls(leasehold::Tls::new().ca_file(authority.file()));
    assert_eq!(warnings_of(builder, &public).await, [""; 0]);
}
