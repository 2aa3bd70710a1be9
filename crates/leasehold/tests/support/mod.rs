//! What the tests of this crate share: waiting without sleeps, looks at the server, and futures that are dropped half-way.
//!
//! Invariant: nothing here looks at the server through the library; what a test concludes, the server has said.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: real servers are waited for in real time")]

pub(crate) mod place;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use leasehold::{Client, ClientBuilder, ConnectError, StoreErrorKind, Verb};
use leasehold_proto::recipe;
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;
pub(crate) use place::{Monitor, Place, Told, on_both};

/// How long to wait for what should be there at once; far more than it takes, for machines under load.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// How often to look.
const POLL_EVERY: Duration = Duration::from_millis(4);

/// Milliseconds, which most durations here are in.
pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Looks at a condition again and again until it is true, and lets other tasks run in between.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let started = Instant::now();
        let mut ticks = tokio::time::interval(POLL_EVERY);
        loop {
            let over = started.elapsed() >= SOON;
            if condition() {
                return;
            }
            assert!(!over, "{caller}: waited {SOON:?} in vain for {what}");
            ticks.tick().await;
        }
    }
}

/// A lease of this length, begun on the server by this call; the future completes when the server has ended it.
///
/// What was set before for as long, and was not renewed, has ended then too: by the server's own clock, and however late
/// the machine is.
pub(crate) fn a_lease_passes<'a>(server: &'a impl Told, lease: Duration) -> impl Future<Output = ()> + 'a {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let key = format!("a-lease-that-passes:{}", LAST.fetch_add(1, Ordering::Relaxed));
    assert_eq!(server.cli(&["SET", &key, "1", "PX", &lease.as_millis().to_string()]), "OK");
    async move { eventually("a lease to end", || server.cli(&["EXISTS", &key]) == "0").await }
}

/// The pace of a loop that looks again and again, or that makes trouble; how long a step takes decides nothing.
pub(crate) fn pace(step: Duration) -> tokio::time::Interval {
    let mut pace = tokio::time::interval(step);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    pace
}

/// The output of a future that should be ready soon.
#[track_caller]
pub(crate) fn soon<F: Future>(what: &str, future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let Ok(output) = tokio::time::timeout(SOON, future).await else {
            panic!("{caller}: waited {SOON:?} in vain for {what}")
        };
        output
    }
}

/// A client with the default settings.
pub(crate) async fn connect(server: &impl Told) -> Client {
    Client::connect(&server.url()).await.unwrap()
}

/// A client that talks to its server through a proxy, and waits no longer than `timeout` for an answer.
pub(crate) async fn connect_through(proxy: &Proxy, timeout: Duration) -> Client {
    connect_with(Client::builder().timeout(timeout), &proxy.url()).await
}

/// A client with settings of its own, among them a timeout that is often short and meant for what comes after: a
/// machine under load may take longer than that to connect, which is then not what the test is about.
pub(crate) async fn connect_with(builder: ClientBuilder, url: &str) -> Client {
    let connecting = async {
        loop {
            match builder.clone().connect(url).await {
                Err(ConnectError::Store { source, .. }) if source.kind == StoreErrorKind::Timeout => {}
                outcome => return outcome.unwrap(),
            }
        }
    };
    soon("the client to connect", connecting).await
}

/// A server and a proxy in front of it.
pub(crate) fn server_and_proxy() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    (server, proxy)
}

/// The hash of a lock: who holds it, how often.
pub(crate) fn fields(server: &impl Told, name: &str) -> BTreeMap<String, String> {
    let printed = server.cli(&["HGETALL", name]);
    let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    let pairs = lines.chunks(2);
    pairs.map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
}

/// The hold count of a lock that is held by one owner.
#[track_caller]
pub(crate) fn count(server: &impl Told, name: &str) -> u32 {
    let fields = fields(server, name);
    assert_eq!(fields.len(), 1, "{name} has one field while held: {fields:?}");
    fields.values().next().unwrap().parse().unwrap()
}

/// PTTL of a key in milliseconds: -2 when there is none, -1 when it never expires.
pub(crate) fn pttl(server: &impl Told, name: &str) -> i64 {
    server.cli(&["PTTL", name]).parse().unwrap()
}

/// Whether there is no such key.
pub(crate) fn is_free(server: &impl Told, name: &str) -> bool {
    server.cli(&["EXISTS", name]) == "0"
}

/// Has the server do something; what it answers does not matter as long as it is no error.
#[track_caller]
pub(crate) fn tell(server: &impl Told, command: &[&str]) {
    let answer = server.cli(command);
    assert!(!answer.contains("ERR"), "{command:?}: {answer}");
}

/// How many keys the server has.
pub(crate) fn keys(server: &impl Told) -> u64 {
    server.cli(&["DBSIZE"]).parse().unwrap()
}

/// Where a plain name's wake-ups travel.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// How many connections listen for a lock's wake-ups.
pub(crate) fn listeners(server: &impl Told, name: &str) -> u64 {
    let printed = server.cli(&["PUBSUB", "NUMSUB", &channel(name)]);
    printed.lines().last().unwrap().parse().unwrap()
}

/// How many scripts the server was asked to run.
pub(crate) fn scripts_run(server: &impl Told) -> u64 {
    server.scripts_run()
}

/// Takes a lock the way Redisson does, from another process's point of view.
pub(crate) fn hold_by_hand(server: &impl Told, name: &str, lease: Duration) {
    let owner = "6f3b2c1e-0d4a-4b7e-9c55-1a2b3c4d5e6f:42";
    tell(server, &["HINCRBY", name, owner, "1"]);
    tell(server, &["PEXPIRE", name, &lease.as_millis().to_string()]);
}

/// The verbs of the scripts that clients sent, in order, and every other command as it is.
pub(crate) fn sent(monitor: &Monitor) -> Vec<Result<Verb, Vec<String>>> {
    let is_script = |word: &str, script: &str| word == script || word.eq_ignore_ascii_case(script);
    let verb_of = |words: &[String]| {
        let text = words.get(1)?;
        let known =
            |script: &&leasehold_proto::Script| is_script(text, script.sha1()) || text == script.source();
        recipe::scripts().find(known).map(|script| script.verb)
    };
    let commands = monitor.commands();
    commands
        .into_iter()
        .map(|words| match words[0].to_ascii_lowercase().as_str() {
            "eval" | "evalsha" => verb_of(&words).ok_or(words),
            _ => Err(words),
        })
        .collect()
}

/// How often this verb was sent.
pub(crate) fn times_sent(monitor: &Monitor, verb: Verb) -> usize {
    sent(monitor).iter().filter(|one| **one == Ok(verb)).count()
}

/// Polls a future whenever it is woken, and drops it after so many polls.
pub(crate) async fn poll_times<F: Future>(times: usize, future: F) -> Option<F::Output> {
    poll_and_drop(times, false, future).await
}

/// Polls a future without waiting until it is woken, and drops it after so many polls: whatever happens meanwhile, it
/// is dropped at some moment of it.
pub(crate) async fn poll_hastily<F: Future>(times: usize, future: F) -> Option<F::Output> {
    poll_and_drop(times, true, future).await
}

async fn poll_and_drop<F: Future>(times: usize, hastily: bool, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|cx| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == times => Poll::Ready(None),
            Poll::Pending => {
                if hastily {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    })
    .await
}

/// A bare subscriber, which knows nothing of the library.
pub(crate) enum Subscriber {
    OverTcp(OverTcp),
    InProcess(place::InProcess),
}

impl Subscriber {
    /// Subscribes, and returns when the server has confirmed.
    pub(crate) fn start(server: &impl Told, channel: &str) -> Self {
        server.listen(channel)
    }

    pub(crate) fn over_tcp(server: &RedisServer, channel: &str) -> Self {
        Self::OverTcp(OverTcp::start(server, channel))
    }

    /// The next message.
    pub(crate) fn message(&mut self) -> String {
        match self {
            Self::OverTcp(subscriber) => subscriber.message(),
            Self::InProcess(subscriber) => subscriber.message(),
        }
    }
}

/// A connection that listens.
pub(crate) struct OverTcp(BufReader<TcpStream>);

impl OverTcp {
    fn start(server: &RedisServer, channel: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut subscriber = Self(BufReader::new(stream));
        let command = format!("SUBSCRIBE {channel}\r\n");
        subscriber.0.get_mut().write_all(command.as_bytes()).unwrap();
        assert_eq!(subscriber.line(), "*3");
        assert_eq!([subscriber.text(), subscriber.text()], ["subscribe", channel]);
        subscriber.line();
        subscriber
    }

    fn message(&mut self) -> String {
        assert_eq!(self.line(), "*3");
        assert_eq!(self.text(), "message");
        self.text();
        self.text()
    }

    fn text(&mut self) -> String {
        self.line();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
