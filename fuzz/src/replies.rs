//! The Redis store. For any bytes from a server, every call ends in time, and no error shows the password.
//!
//! Invariant: servers are pipes whose other ends act as the bytes choose. Time passes only while no task is ready.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::reentrant::{LOCK_CALLS, REENTRANT};
use leasehold_proto::{Call, CallArgs, ClientId, Lease, Name, StoreError, WireOwner};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Dial, Redis, Socket};
use leasehold_store::url::{Address, ServerUrl};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use crate::virtual_time::finish;

const PASSWORD: &str = "qXz7hunter2";
const TIMEOUT: Duration = Duration::from_secs(2);
/// The tolerance between the timeout of a call and its end, for rounding.
const SLACK: Duration = Duration::from_millis(10);
const PIPE_BYTES: usize = 128;

/// Lines of a server: the replies of a session, and others.
const LINES: [&str; 32] = [
    "+PONG\r\n",
    "+OK\r\n",
    "$-1\r\n",
    "*-1\r\n",
    ":0\r\n",
    ":1\r\n",
    ":-1\r\n",
    ":30000\r\n",
    "*2\r\n:-2\r\n:0\r\n",
    "-NOSCRIPT No matching script.\r\n",
    "-NOAUTH Authentication required.\r\n",
    "-WRONGPASS invalid username-password pair\r\n",
    "-BUSY Redis is busy running a script.\r\n",
    "-LOADING Redis is loading the dataset in memory\r\n",
    "-WRONGTYPE Operation against a key\r\n",
    "-ERR unknown command\r\n",
    "-MOVED 1 127.0.0.1:1\r\n",
    "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
    "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
    "*2\r\n$4\r\npong\r\n$0\r\n\r\n",
    "$4294967295\r\n",
    "*2147483647\r\n",
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    "%1\r\n$5\r\nproto\r\n:3\r\n",
    "_\r\n",
    ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
    "=8\r\ntxt:some\r\n",
    "*1\r\n$-1\r\n",
    "*2\r\n:1\r\n-WRONGTYPE Operation against a key\r\n",
    "%2147483647\r\n",
];

/// One action of a server on a connection.
#[derive(Debug)]
enum Deed {
    Say(Vec<u8>),
    /// Waits until bytes arrive.
    Hear,
    /// Reads all bytes, and sends nothing any more.
    Stall,
}

/// The scripted connections of a server, in order. It refuses further connections.
#[derive(Debug)]
struct Servers(Mutex<VecDeque<Vec<Deed>>>);

impl Dial for Servers {
    fn dial<'a>(
        &'a self,
        _address: &'a Address,
        _limit: Duration,
    ) -> Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>> {
        Box::pin(async {
            let deeds = self.0.lock().ok().and_then(|mut left| left.pop_front());
            let deeds = deeds.ok_or(io::ErrorKind::ConnectionRefused)?;
            let (near, far) = duplex(PIPE_BYTES);
            tokio::spawn(act(far, deeds));
            Ok(Socket::new(near))
        })
    }

    fn seed(&self) -> u64 {
        7
    }
}

/// Runs the server's side of a connection.
async fn act(mut pipe: DuplexStream, deeds: Vec<Deed>) {
    let mut heard = [0; 512];
    for deed in deeds {
        let done = match deed {
            Deed::Say(bytes) => pipe.write_all(&bytes).await.is_ok(),
            Deed::Hear => pipe.read(&mut heard).await.is_ok_and(|bytes| bytes > 0),
            Deed::Stall => loop {
                if !pipe.read(&mut heard).await.is_ok_and(|bytes| bytes > 0) {
                    break false;
                }
            },
        };
        if !done {
            return;
        }
    }
}

/// Connects to servers that act as the bytes choose, makes calls, and subscribes.
pub fn replies(data: &[u8]) {
    let Ok(sessions) = sessions(&mut Unstructured::new(data)) else { return };
    finish("a store", async {
        let url = format!("redis://app:{PASSWORD}@server");
        let url = ServerUrl::parse(&url).expect("it is a URL");
        let options = ConnectOptions::default().timeout(TIMEOUT);
        let servers = Arc::new(Servers(Mutex::new(sessions)));
        let connecting = Redis::connect_through(&url, options, servers);
        match in_time("connecting", connecting).await {
            Ok(store) => ask(&store).await,
            Err(error) => check(&error),
        }
    });
}

async fn ask(store: &Redis) {
    let (hear, mut heard) = unbounded_channel();
    let name = Name::new("c").expect("it is a name");
    let owner = WireOwner::new(ClientId::from_random([3; 16]), 1);
    let subject = Subject::new(&name, &REENTRANT);
    let channel = subject.channels(owner).pop().expect("the lock has a channel");
    let subscription = store.subscribe(channel, hear);
    for call in calls(&name) {
        if let Err(error) = in_time("a call", store.run(call, TIMEOUT)).await {
            check(&error);
        }
    }
    let (first, second) = {
        let mut both = calls(&name).into_iter().map(|call| store.run(call, TIMEOUT));
        (both.next().expect("there are some"), both.next().expect("there are some"))
    };
    let _ = in_time("two calls", async { tokio::join!(first, second) }).await;
    // The listener has time to try again and to receive.
    let _ = tokio::time::timeout(TIMEOUT * 4, async { while heard.recv().await.is_some() {} }).await;
    drop(subscription);
}

fn calls(name: &Name) -> Vec<Call> {
    let lease = Lease::clamped(Duration::from_secs(30));
    let owner = WireOwner::new(ClientId::from_random([3; 16]), 1);
    let subject = Subject::new(name, &REENTRANT);
    let asked = |count| CallArgs::new(&subject, owner, lease).count(count);
    vec![
        (REENTRANT.acquire)(&asked(1)),
        (REENTRANT.renew)(&asked(0)),
        (LOCK_CALLS.inspect)(name, Some(owner)),
        (REENTRANT.release)(&asked(0)),
        (LOCK_CALLS.force_release)(name),
    ]
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let outcome = future.await;
    let took = started.elapsed();
    assert!(took <= TIMEOUT + SLACK, "{what} took {took:?}");
    outcome
}

/// Checks that an error does not contain the password.
fn check(error: &StoreError) {
    let mut said = format!("{error} {error:?}");
    let mut deeper = std::error::Error::source(error);
    while let Some(cause) = deeper {
        said += &format!(" {cause} {cause:?}");
        deeper = cause.source();
    }
    assert!(!said.contains(PASSWORD), "the password is told: {said}");
}

fn sessions(u: &mut Unstructured<'_>) -> Result<VecDeque<Vec<Deed>>> {
    let mut sessions = VecDeque::new();
    for _ in 0..u.int_in_range(1..=4)? {
        let mut deeds = Vec::new();
        for _ in 0..u.int_in_range(0..=12)? {
            deeds.push(match u.int_in_range(0..=7)? {
                0 | 1 => Deed::Say(u.arbitrary()?),
                2 => Deed::Stall,
                3 | 4 => Deed::Hear,
                _ => Deed::Say(u.choose(&LINES)?.as_bytes().to_vec()),
            });
        }
        sessions.push_back(deeds);
    }
    Ok(sessions)
}
