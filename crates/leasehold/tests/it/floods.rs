//! Floods of messages by a stranger who may publish.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::Client;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);
/// Long enough for a machine that does much else.
const LEASE: Duration = Duration::from_millis(2_400);
/// The messages of one write.
const BURST: usize = 4_000;

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
    let channel = "redisson_lock__channel:{flooded}";
    eventually(LIMIT, "the waiter listens", || server.cli(&["PUBSUB", "NUMSUB", channel]).ends_with('1'));
    let (ends, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flooding = thread::spawn({
        let (port, ends, sent) = (server.port(), Arc::clone(&ends), Arc::clone(&sent));
        move || flood(port, channel, &ends, &sent)
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
