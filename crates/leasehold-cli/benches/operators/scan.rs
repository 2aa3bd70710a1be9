//! A scan of a million keys, and the latency of a lock beside it.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

use crate::usage::timed;

const KEYS: usize = 1_000_000;
const ALONE: Duration = Duration::from_secs(10);

/// Compares the pairs of one task with and without a scan.
pub(crate) fn run(runtime: &Runtime) {
    let server = RedisServer::start();
    fill(&server);
    assert_eq!(server.cli(&["HSET", "job", "11111111-2222-4333-8444-555555555555:57", "1"]), "1");
    assert_eq!(server.cli(&["PEXPIRE", "job", "3600000"]), "1");
    let client = runtime.block_on(Client::connect(&server.url())).unwrap();
    let pairs = |ends: Arc<AtomicBool>| {
        let lock = client.lock("order:42");
        runtime.spawn(async move {
            let mut times = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let began = Instant::now();
                lock.lock().await.unwrap().release().await.unwrap();
                times.push(began.elapsed());
            }
            times.sort_unstable();
            times
        })
    };
    let ends = Arc::new(AtomicBool::new(false));
    let alone = pairs(Arc::clone(&ends));
    std::thread::sleep(ALONE);
    ends.store(true, Ordering::Relaxed);
    let alone = runtime.block_on(alone).unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let beside = pairs(Arc::clone(&ends));
    let (took, _, text) = timed(&server, &["list", "--scan", "--pace", "5%", "--json"]);
    ends.store(true, Ordering::Relaxed);
    let beside = runtime.block_on(beside).unwrap();
    let listing: serde_json::Value = serde_json::from_str(&text).unwrap();
    let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
    println!(
        "  {KEYS} keys in {took:.1?}: share {:.3}, {} objects; pairs p99 {:.2?} alone, {:.2?} beside it",
        listing["sources"]["scan"]["share"].as_f64().unwrap_or_default(),
        listing["objects"].as_array().map_or(0, Vec::len),
        p99(&alone),
        p99(&beside)
    );
}

/// Writes a million hashes that are no locks.
fn fill(server: &RedisServer) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let mut replies = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || std::io::copy(&mut replies, &mut std::io::sink()));
    for begin in (0..KEYS).step_by(10_000) {
        let commands: String = (begin..begin + 10_000)
            .map(|number| format!("HSET session:{number} user {number} ip 10.0.0.1\r\n"))
            .collect();
        stream.write_all(commands.as_bytes()).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    reading.join().unwrap().unwrap();
}
