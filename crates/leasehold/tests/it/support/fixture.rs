//! The place of a test, a real server or the in-process server. Each test does and concludes the same in both.
//!
//! Invariant: a place is a URL for clients and a way to send commands to the server. Nothing here goes through the
//! library.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use leasehold_proto::Channel;
use leasehold_store::embedded::{Embedded, Frame, Server};
use leasehold_store::{Heard, Runtime, Store, Subscription, TokioRuntime};
use leasehold_testkit::servers::{self, RedisServer};
use leasehold_testkit::wait;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{SOON, Subscriber};

type Log = Arc<Mutex<Vec<Vec<String>>>>;

/// Expands each test into two, one for each place: `redis::name` and `embedded::name`.
///
/// The tests are functions that take a [`Fixture`]. The compiler warns about a function that is not in the list, because
/// nothing calls it.
macro_rules! on_both {
    ($(async { $($name:ident,)+ })? $(sync { $($plain:ident,)+ })?) => {
        mod redis {
            use crate::support::fixture::Fixture;
            $($(#[tokio::test] async fn $name() { super::$name(Fixture::redis()).await; })+)?
            $($(#[test] fn $plain() { super::$plain(Fixture::redis()); })+)?
        }
        mod embedded {
            use crate::support::fixture::Fixture;
            $($(#[tokio::test] async fn $name() { super::$name(Fixture::embedded()).await; })+)?
            $($(#[test] fn $plain() { super::$plain(Fixture::embedded()); })+)?
        }
    };
}
pub(crate) use on_both;

/// A server of either kind.
pub(crate) trait TestServer {
    /// The URL for clients.
    fn url(&self) -> String;
    /// The server's answer to a command, as `redis-cli` prints it.
    fn cli(&self, command: &[&str]) -> String;
    /// Records the commands of clients from now on.
    fn watch(&self) -> Monitor;
    /// The number of script calls that the server has received.
    fn scripts_run(&self) -> u64;
    /// The number of keys that scripts have read for waiters of latches, two for each attempt, where several waiters may
    /// share a command.
    fn latch_reads(&self) -> u64;
    /// A bare subscriber, independent of the library.
    fn listen(&self, channel: &str) -> Subscriber;
}

/// A server of one of the two kinds.
pub(crate) enum Fixture {
    Redis(RedisServer),
    Embedded { name: String, store: Embedded, log: Log },
}

/// The commands that the server executed since the monitor began.
pub(crate) enum Monitor {
    Redis(servers::Monitor),
    Embedded { log: Log, from: usize },
}

impl Fixture {
    pub(crate) fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    pub(crate) fn embedded() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let name = format!("test-{}", LAST.fetch_add(1, Ordering::Relaxed));
        let log = Log::default();
        let seen = Arc::clone(&log);
        let server =
            Server::new(|| TokioRuntime.now().as_nanos() / 1_000_000).observed_by(move |words, _| {
                let words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
                seen.lock().unwrap().push(words.collect());
            });
        let store = Embedded::on(Arc::new(server));
        store.take_name(&name);
        Self::Embedded { name, store, log }
    }

    // These methods spare the tests an import of the trait.
    pub(crate) fn url(&self) -> String {
        TestServer::url(self)
    }

    pub(crate) fn cli(&self, command: &[&str]) -> String {
        TestServer::cli(self, command)
    }
}

impl TestServer for Fixture {
    fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Embedded { name, .. } => format!("memory://{name}"),
        }
    }

    fn cli(&self, command: &[&str]) -> String {
        match self {
            Self::Redis(server) => server.cli(command),
            Self::Embedded { store, .. } => printed(&store.execute(command)),
        }
    }

    fn watch(&self) -> Monitor {
        match self {
            Self::Redis(server) => server.watch(),
            Self::Embedded { log, .. } => {
                Monitor::Embedded { log: Arc::clone(log), from: log.lock().unwrap().len() }
            }
        }
    }

    fn scripts_run(&self) -> u64 {
        match self {
            Self::Redis(server) => server.scripts_run(),
            Self::Embedded { log, .. } => {
                let log = log.lock().unwrap();
                log.iter().filter(|words| words[0].eq_ignore_ascii_case("eval")).count() as u64
            }
        }
    }

    fn latch_reads(&self) -> u64 {
        match self {
            Self::Redis(server) => server.latch_reads(),
            Self::Embedded { .. } => 2 * self.scripts_run(),
        }
    }

    fn listen(&self, channel: &str) -> Subscriber {
        match self {
            Self::Redis(server) => server.listen(channel),
            Self::Embedded { store, .. } => {
                let (hear, heard) = unbounded_channel();
                let client = store.another_client();
                let listening = client.subscribe(Channel::new(channel), hear);
                Subscriber::InProcess(InProcess { heard, _listening: listening, _client: client })
            }
        }
    }
}

impl TestServer for RedisServer {
    fn url(&self) -> String {
        self.url()
    }

    fn cli(&self, command: &[&str]) -> String {
        self.cli(command)
    }

    fn watch(&self) -> Monitor {
        Monitor::Redis(servers::Monitor::start(self))
    }

    fn scripts_run(&self) -> u64 {
        let stats = self.commandstats();
        let called = |name: &str| stats.get(name).copied().unwrap_or_default();
        // The script by which a client checks its user's rights runs by EVAL_RO.
        called("eval") + called("evalsha")
    }

    fn latch_reads(&self) -> u64 {
        self.commandstats().get("get").copied().unwrap_or_default()
    }

    fn listen(&self, channel: &str) -> Subscriber {
        Subscriber::over_tcp(self, channel)
    }
}

impl Monitor {
    pub(crate) fn start(server: &impl TestServer) -> Self {
        server.watch()
    }

    pub(crate) fn commands(&self) -> Vec<Vec<String>> {
        match self {
            Self::Redis(monitor) => monitor.commands(),
            Self::Embedded { log, from } => log.lock().unwrap()[*from..].to_vec(),
        }
    }
}

/// An in-process subscriber.
pub(crate) struct InProcess {
    heard: UnboundedReceiver<Heard>,
    _listening: Subscription,
    _client: Embedded,
}

impl InProcess {
    /// The next message.
    pub(crate) fn message(&mut self) -> String {
        let mut payload = None;
        wait::eventually(SOON, "a message", || {
            while let Ok(heard) = self.heard.try_recv() {
                if let Heard::Message(_, message) = heard {
                    payload = Some(String::from_utf8_lossy(&message).into_owned());
                    return true;
                }
            }
            false
        });
        payload.unwrap()
    }
}

/// The output of `redis-cli` for this reply, when it does not write to a terminal.
fn printed(frame: &Frame) -> String {
    match frame {
        Frame::Simple(text) | Frame::Error(text) => text.clone(),
        Frame::Int(number) => number.to_string(),
        Frame::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Frame::Nil | Frame::NilArray => String::new(),
        Frame::Array(items) => items.iter().map(printed).collect::<Vec<_>>().join("\n"),
    }
}
