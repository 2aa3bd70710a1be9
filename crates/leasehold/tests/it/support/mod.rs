//! Helpers of this crate's tests: waiting without sleeps, reading the server's state, and futures that are dropped
//! halfway.
//!
//! Invariant: no helper reads the server through the library. Every conclusion of a test comes from the server itself.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: real servers are waited for in real time")]

pub(crate) mod fixture;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

pub(crate) use fixture::{Fixture, Monitor, TestServer, on_both};
use leasehold::error::{StoreErrorKind, Verb};
use leasehold::{Client, ClientBuilder, ConnectError};
use leasehold_proto::{Call, recipe};
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;

/// The limit of a wait for a condition that should be true at once, far more than it takes, for machines under load.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Longer than any test.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);
/// The pause between two checks.
const POLL_EVERY: Duration = Duration::from_millis(4);

/// Milliseconds, the unit of most durations here.
pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Checks a condition repeatedly until it is true, and lets other tasks run in between.
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

/// Starts a lease of this length on the server. The future completes when the server has ended it.
///
/// Every earlier key with a lease of at most this length and without a renewal has then expired too, by the server's
/// own clock, on any machine.
pub(crate) fn a_lease_passes<'a>(
    server: &'a impl TestServer,
    lease: Duration,
) -> impl Future<Output = ()> + 'a {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let key = format!("a-lease-that-passes:{}", LAST.fetch_add(1, Ordering::Relaxed));
    assert_eq!(server.cli(&["SET", &key, "1", "PX", &lease.as_millis().to_string()]), "OK");
    async move { eventually("a lease to end", || server.cli(&["EXISTS", &key]) == "0").await }
}

/// The pace of a loop that polls or causes faults. The result does not depend on the length of a step.
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

/// A client with the default settings that operators do not see, so every key and command is that of a lock.
pub(crate) async fn connect(server: &impl TestServer) -> Client {
    Client::builder().visible(false).connect(&server.url()).await.unwrap()
}

/// A client that reaches its server through a proxy, with this timeout.
pub(crate) async fn connect_through(proxy: &Proxy, timeout: Duration) -> Client {
    connect_with(Client::builder().timeout(timeout), &proxy.url()).await
}

/// Connects with custom settings, often a short timeout that is meant for the test itself. A machine under load may
/// take longer than that to connect, so the function retries a connect that timed out. Operators do not see the client.
pub(crate) async fn connect_with(builder: ClientBuilder, url: &str) -> Client {
    let builder = builder.visible(false);
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

/// A client whose waiters retry only after a wake-up, or when they must: to keep their place, or when a lease ends.
pub(crate) async fn connect_without_polling(server: &impl TestServer) -> Client {
    connect_with(Client::builder().poll_interval(NEVER), &server.url()).await
}

/// A server and a proxy in front of it.
pub(crate) fn server_and_proxy() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    (server, proxy)
}

/// A server, a proxy in front of it, and a client that reaches the server through it, with this timeout.
pub(crate) async fn proxied(timeout: Duration) -> (RedisServer, Proxy, Client) {
    let (server, proxy) = server_and_proxy();
    let client = connect_through(&proxy, timeout).await;
    (server, proxy, client)
}

/// Asserts that an outcome is an error of this kind.
macro_rules! assert_failed {
    ($outcome:expr, $kind:pat) => {{
        let outcome = &$outcome;
        assert!(matches!(outcome, Err(error) if matches!(&error.kind, $kind)), "{outcome:?}");
    }};
}
pub(crate) use assert_failed;

/// The hash of a lock: its holders and their hold counts.
pub(crate) fn fields(server: &impl TestServer, name: &str) -> BTreeMap<String, String> {
    let printed = server.cli(&["HGETALL", name]);
    let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    let pairs = lines.chunks(2);
    pairs.map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
}

/// The hold count of a lock with one holder.
#[track_caller]
pub(crate) fn count(server: &impl TestServer, name: &str) -> u32 {
    let fields = fields(server, name);
    assert_eq!(fields.len(), 1, "{name} has one field while held: {fields:?}");
    fields.values().next().unwrap().parse().unwrap()
}

/// PTTL of a key in milliseconds: -2 without the key, -1 without an expiry.
pub(crate) fn pttl(server: &impl TestServer, name: &str) -> i64 {
    server.cli(&["PTTL", name]).parse().unwrap()
}

/// Returns true if the key does not exist.
pub(crate) fn is_free(server: &impl TestServer, name: &str) -> bool {
    server.cli(&["EXISTS", name]) == "0"
}

/// Runs a command on the server and ignores its answer, which must not be an error.
#[track_caller]
pub(crate) fn run_command(server: &impl TestServer, command: &[&str]) {
    let answer = server.cli(command);
    assert!(!answer.contains("ERR"), "{command:?}: {answer}");
}

/// The number of keys on the server.
pub(crate) fn keys(server: &impl TestServer) -> u64 {
    server.cli(&["DBSIZE"]).parse().unwrap()
}

/// The channel for the wake-ups of a plain name.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// The number of connections that listen for a lock's wake-ups.
pub(crate) fn listeners(server: &impl TestServer, name: &str) -> u64 {
    listening(server, &channel(name))
}

/// The number of connections that listen to a channel.
pub(crate) fn listening(server: &impl TestServer, channel: &str) -> u64 {
    server.cli(&["PUBSUB", "NUMSUB", channel]).lines().last().unwrap().parse().unwrap()
}

/// Waits until a waiter has tried, subscribed and tried again. From then on only a wake-up moves it.
pub(crate) async fn sleeps(server: &impl TestServer, channel: &str, asked_before: u64) {
    eventually("the waiter to fall asleep", || {
        listening(server, channel) == 1 && scripts_run(server) >= asked_before + 2
    })
    .await;
}

/// Runs a call as a client would, and returns the output of `redis-cli`, with nothing for nil.
pub(crate) fn run_call(server: &impl TestServer, call: &Call) -> String {
    let keys = call.key_count().to_string();
    let mut command = vec!["EVAL", call.script().source(), &keys];
    command.extend(call.keys());
    command.extend(call.args().map(|arg| std::str::from_utf8(arg).expect("text")));
    server.cli(&command)
}

/// The number of script calls that the server has received.
pub(crate) fn scripts_run(server: &impl TestServer) -> u64 {
    server.scripts_run()
}

/// Acquires a lock the way Redisson does, as another process would.
pub(crate) fn hold_as_redisson(server: &impl TestServer, name: &str, lease: Duration) {
    let owner = "6f3b2c1e-0d4a-4b7e-9c55-1a2b3c4d5e6f:42";
    run_command(server, &["HINCRBY", name, owner, "1"]);
    run_command(server, &["PEXPIRE", name, &lease.as_millis().to_string()]);
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

/// The number of times that clients sent this verb.
pub(crate) fn times_sent(monitor: &Monitor, verb: Verb) -> usize {
    sent(monitor).iter().filter(|one| **one == Ok(verb)).count()
}

/// Polls a future at each wake-up, and drops it after this number of polls.
pub(crate) async fn poll_times<F: Future>(times: usize, future: F) -> Option<F::Output> {
    poll_and_drop(times, false, future).await
}

/// Polls a future without waiting for a wake-up, and drops it after this number of polls. The drop can come at any
/// moment of its work.
pub(crate) async fn poll_without_wake_ups<F: Future>(times: usize, future: F) -> Option<F::Output> {
    poll_and_drop(times, true, future).await
}

async fn poll_and_drop<F: Future>(times: usize, without_wake_ups: bool, future: F) -> Option<F::Output> {
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
                if without_wake_ups {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    })
    .await
}

/// A bare subscriber, independent of the library.
pub(crate) enum Subscriber {
    OverTcp(OverTcp),
    InProcess(fixture::InProcess),
}

impl Subscriber {
    /// Subscribes, and returns after the server's confirmation.
    pub(crate) fn start(server: &impl TestServer, channel: &str) -> Self {
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

/// A subscribed connection.
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
