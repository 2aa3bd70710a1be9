//! Floods of messages by a stranger who may publish.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use leasehold::{Address, Client, Dial, Socket};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const LIMIT: Duration = Duration::from_secs(20);
/// Long enough for a machine that does much else.
const LEASE: Duration = Duration::from_millis(2_400);
/// The messages of one write.
const BURST: usize = 4_000;
/// The channel of the flood.
const CHANNEL: &str = "redisson_lock__channel:{flooded}";

/// Publishes on a channel as fast as the server takes it. Counts the messages.
fn flood(port: u16, channel: &str, ends: &AtomicBool, sent: &AtomicU64) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let burst = format!("PUBLISH {channel} 0\r\n").repeat(BURST);
    let mut replies = stream.try_clone().unwrap();
    let reading = thread::spawn(move || while matches!(replies.read(&mut [0; 1 << 16]), Ok(1..)) {});
    while !ends.load(Ordering::Relaxed) {
        stream.write_all(burst.as_bytes()).unwrap();
        sent.fetch_add(BURST as u64, Ordering::Relaxed);
    }
    stream.shutdown(std::net::Shutdown::Both).unwrap();
    reading.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_on_one_channel_loses_no_lock_of_another_name_and_no_waiter() {
    let server = RedisServer::start();
    let client = Client::builder().watchdog(LEASE).connect(&server.url()).await.unwrap();
    let holder = Client::connect(&server.url()).await.unwrap();
    let kept = client.lock("kept").lock().await.unwrap();
    let flooded = holder.lock("flooded").lock().await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.lock("flooded").lock().await.map(drop) }
    });
    eventually(LIMIT, "the waiter listens", || server.cli(&["PUBSUB", "NUMSUB", CHANNEL]).ends_with('1'));
    let (ends, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flooding = thread::spawn({
        let (port, ends, sent) = (server.port(), Arc::clone(&ends), Arc::clone(&sent));
        move || flood(port, CHANNEL, &ends, &sent)
    });
    // Several leases, each of which a client that is busy with messages could miss.
    let lost = tokio::time::timeout(LEASE * 4, kept.lost()).await;
    ends.store(true, Ordering::Relaxed);
    flooding.join().unwrap();
    assert!(lost.is_err(), "lost after {} messages: {lost:?}", sent.load(Ordering::Relaxed));
    assert!(kept.is_held() && server.cli(&["EXISTS", "kept"]) == "1");
    flooded.release().await.unwrap();
    tokio::time::timeout(LIMIT, waiting).await.expect("the waiter is served").unwrap().unwrap();
}

/// Connections to a server. While a flood comes, the one that carries the subscriptions always has one more message, as it
/// does in a client that is slower than its server.
#[derive(Debug)]
struct Flooding {
    port: u16,
    comes: Arc<AtomicBool>,
}

impl Dial for Flooding {
    fn dial<'a>(
        &'a self,
        _: &'a Address,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>> {
        Box::pin(async {
            let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await?;
            let comes = Arc::clone(&self.comes);
            Ok(Socket::new(Flooded { stream, comes, is_subscriber: false }))
        })
    }
}

struct Flooded {
    stream: tokio::net::TcpStream,
    comes: Arc<AtomicBool>,
    is_subscriber: bool,
}

impl AsyncRead for Flooded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_subscriber || !self.comes.load(Ordering::Relaxed) {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let message = format!(">3\r\n$7\r\nmessage\r\n${}\r\n{CHANNEL}\r\n$1\r\n0\r\n", CHANNEL.len());
        buffer.put_slice(message.repeat(buffer.remaining() / message.len()).as_bytes());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Flooded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_subscriber |= bytes.windows(CHANNEL.len()).any(|part| part == CHANNEL.as_bytes())
            && bytes.windows(9).any(|part| part == b"SUBSCRIBE");
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_without_end_do_not_keep_a_client_from_its_renewals() {
    let server = RedisServer::start();
    let comes = Arc::new(AtomicBool::new(false));
    let flooding = Flooding { port: server.port(), comes: Arc::clone(&comes) };
    let client = Client::builder().dialer(flooding).watchdog(LEASE).connect(&server.url()).await.unwrap();
    let kept = client.lock("kept").lock().await.unwrap();
    let _ = server.cli(&["HSET", "flooded", "another", "1"]);
    let _ = server.cli(&["PEXPIRE", "flooded", "60000"]);
    let waiting = tokio::spawn(async move { client.lock("flooded").lock().await.map(drop) });
    eventually(LIMIT, "the waiter listens", || server.cli(&["PUBSUB", "NUMSUB", CHANNEL]).ends_with('1'));
    comes.store(true, Ordering::Relaxed);
    let lost = tokio::time::timeout(LEASE * 2, kept.lost()).await;
    assert!(lost.is_err() && kept.is_held(), "{lost:?}");
    comes.store(false, Ordering::Relaxed);
    let _ = server.cli(&["DEL", "flooded"]);
    let _ = server.cli(&["PUBLISH", CHANNEL, "0"]);
    tokio::time::timeout(LIMIT, waiting).await.expect("the waiter is served").unwrap().unwrap();
}
