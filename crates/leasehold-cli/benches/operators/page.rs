//! The page with 10,000 objects and 50 viewers.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

use crate::usage::{clients, leasehold, processor_time};

const VIEWERS: usize = 50;
const OBJECTS: usize = 10_000;
const WINDOW: Duration = Duration::from_secs(30);

/// A dashboard with viewers that read its stream.
pub(crate) struct Viewer {
    process: Child,
    messages: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Viewer {
    pub(crate) fn start(server: &RedisServer, viewers: usize) -> Self {
        let mut command = leasehold(server, &["dashboard", "--listen", "127.0.0.1:0"]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let (origin, token) = url.trim().split_once("/#token=").unwrap();
        let host = origin.strip_prefix("http://").unwrap();
        let (messages, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        for _ in 0..viewers {
            let mut stream = TcpStream::connect(host).unwrap();
            let request = format!(
                "GET /api/1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).unwrap();
            let (messages, bytes) = (Arc::clone(&messages), Arc::clone(&bytes));
            thread::spawn(move || {
                let mut lines = BufReader::new(stream);
                let mut line = Vec::new();
                while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    messages.fetch_add(u64::from(line.starts_with(b"data: ")), Ordering::Relaxed);
                    bytes.fetch_add(line.len() as u64, Ordering::Relaxed);
                    line.clear();
                }
            });
        }
        Self { process, messages, bytes }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Measures the load of the page.
pub(crate) fn run(runtime: &Runtime) {
    let server = RedisServer::start();
    let kept = clients(runtime, &server, (1, OBJECTS));
    let waiting = runtime.block_on(Client::connect(&server.url())).unwrap();
    let waiters: Vec<_> = (0..OBJECTS)
        .map(|number| {
            let lock = waiting.lock(format!("order:0:{number}"));
            runtime.spawn(async move { drop(lock.lock().await) })
        })
        .collect();
    let listens = || {
        let channels = server.cli(&["PUBSUB", "CHANNELS", "redisson_lock__channel:*"]);
        channels.lines().count() >= OBJECTS
    };
    leasehold_testkit::wait::eventually(Duration::from_secs(60), "the waiters", listens);
    let viewer = Viewer::start(&server, VIEWERS);
    let told = || viewer.messages.load(Ordering::Relaxed) >= 2 * VIEWERS as u64;
    leasehold_testkit::wait::eventually(Duration::from_secs(60), "the first messages", told);
    let (began, messages, bytes) =
        (Instant::now(), viewer.messages.load(Ordering::Relaxed), viewer.bytes.load(Ordering::Relaxed));
    let before = [viewer.process.id(), server.pid()].map(processor_time);
    thread::sleep(WINDOW);
    let after = [viewer.process.id(), server.pid()].map(processor_time);
    let took = began.elapsed().as_secs_f64();
    let share = |at: usize| (after[at] - before[at]).as_secs_f64() / took * 100.0;
    let messages = (viewer.messages.load(Ordering::Relaxed) - messages) as f64 / VIEWERS as f64;
    let bytes = (viewer.bytes.load(Ordering::Relaxed) - bytes) as f64 / VIEWERS as f64;
    println!(
        "  {OBJECTS} objects, {VIEWERS} viewers: {:.1} % of a core for the page, {:.1} % for the server; a message every \
         {:.1} s, {:.0} bytes a second and viewer",
        share(0),
        share(1),
        took / messages.max(1.0),
        bytes / took
    );
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    drop(kept);
}
