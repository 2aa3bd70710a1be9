//! Where an interop test works: a server, Redisson clients and ours on it, and names that nobody else uses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use leasehold::{Client, ShardedPubsub};
use leasehold_testkit::servers::{Monitor, RedisServer};

use crate::java::{Answer, Failure, Java};
use crate::support::{connect_with, eventually, ms};

/// How often a Rust waiter of these tests asks unless it is woken: so seldom that nothing here can be explained by it.
pub(crate) const POLL_INTERVAL: Duration = ms(20_000);
/// How long a hand-over by a wake-up may take: less than a lease and the polling interval by far, and enough for a
/// machine under load.
pub(crate) const PROMPTLY: Duration = ms(5_000);

/// Makes of each test two, one for each sort of server: `plain::name` and `cluster::name`.
///
/// The tests themselves are functions that take a [`Bench`]; one that is not listed is never called, which the compiler
/// tells.
macro_rules! on_each_server {
    ($($name:ident,)+) => {
        mod plain {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::bench::Bench::plain($crate::java::Java::shared())).await;
            })+
        }
        mod cluster {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::bench::Bench::cluster($crate::java::Java::shared())).await;
            })+
        }
    };
}
pub(crate) use on_each_server;

/// A server, with the Java process that tests share.
pub(crate) struct Bench {
    java: Arc<Java>,
    server: Server,
}

enum Server {
    Plain(RedisServer),
    Cluster(&'static RedisServer, ShardedPubsub),
}

impl Bench {
    /// On a server of its own.
    pub(crate) fn plain(java: Arc<Java>) -> Self {
        Self { java, server: Server::Plain(RedisServer::start()) }
    }

    /// On a cluster, where both sides have their wake-ups travel by sharded channels.
    pub(crate) fn cluster(java: Arc<Java>) -> Self {
        Self::cluster_with(java, ShardedPubsub::Auto)
    }

    /// On a cluster, with both sides told how wake-ups are to travel. Starting one takes seconds, so tests share it.
    pub(crate) fn cluster_with(java: Arc<Java>, sharded: ShardedPubsub) -> Self {
        static SHARED: LazyLock<RedisServer> = LazyLock::new(RedisServer::cluster);
        Self { java, server: Server::Cluster(&SHARED, sharded) }
    }

    pub(crate) fn server(&self) -> &RedisServer {
        match &self.server {
            Server::Plain(server) => server,
            Server::Cluster(server, _) => server,
        }
    }

    /// How wake-ups travel on both sides.
    fn sharded(&self) -> ShardedPubsub {
        match self.server {
            Server::Plain(_) => ShardedPubsub::Off,
            Server::Cluster(_, sharded) => sharded,
        }
    }

    /// Where Rust clients connect to.
    pub(crate) fn url(&self) -> String {
        self.server().url()
    }

    /// A Redisson client with options: `watchdog=MS`, `fairwait=MS`.
    pub(crate) async fn peer(&self, options: &str) -> Peer {
        self.peer_in(&self.java, options).await
    }

    /// A Redisson client in a process of one's own.
    pub(crate) async fn peer_in(&self, java: &Arc<Java>, options: &str) -> Peer {
        let place = match &self.server {
            Server::Plain(server) => format!("url={}", server.url()),
            Server::Cluster(server, ShardedPubsub::Off) => format!("cluster={} sharded=OFF", server.url()),
            Server::Cluster(server, _) => format!("cluster={}", server.url()),
        };
        let peer = Peer { java: Arc::clone(java), client: unique("client") };
        let client = &peer.client;
        peer.java.ask(&format!("client open {client} {place} {options} thread={client}")).ok().await;
        peer
    }

    /// A Rust client that has to be woken: it asks every twenty seconds otherwise.
    pub(crate) async fn client(&self) -> Client {
        let builder = Client::builder().poll_interval(POLL_INTERVAL);
        let builder = match self.server {
            Server::Plain(_) => builder,
            Server::Cluster(_, sharded) => builder.sharded_pubsub(sharded),
        };
        connect_with(builder, &self.url()).await
    }

    /// A name that no other test has.
    pub(crate) fn name(&self, stem: &str) -> String {
        unique(stem)
    }

    /// How many connections listen to this channel.
    pub(crate) fn listeners(&self, channel: &str) -> u64 {
        let ask = if self.sharded() == ShardedPubsub::Off { "NUMSUB" } else { "SHARDNUMSUB" };
        self.server().cli(&["PUBSUB", ask, channel]).lines().last().unwrap().parse().unwrap()
    }

    /// Sees who begins to wait from now on.
    pub(crate) fn watch(&self, name: &str, wait: Wait) -> Watch {
        let subscribe = if self.sharded() == ShardedPubsub::Off { "subscribe" } else { "ssubscribe" };
        Watch { monitor: Monitor::start(self.server()), subscribe, name: name.to_owned(), wait }
    }
}

fn unique(stem: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("{stem}-{}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// A Redisson client; closed when dropped.
pub(crate) struct Peer {
    java: Arc<Java>,
    client: String,
}

/// A thread of the Java process, which is who holds what it takes through its client.
pub(crate) struct Thread {
    java: Arc<Java>,
    client: String,
    name: String,
}

impl Peer {
    /// The thread of this name, of this client alone.
    pub(crate) fn thread(&self, name: &str) -> Thread {
        let name = format!("{}-{name}", self.client);
        Thread { java: Arc::clone(&self.java), client: self.client.clone(), name }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let client = &self.client;
        drop(self.java.ask(&format!("client close {client} thread={client}")));
    }
}

impl Thread {
    /// Sends a command, which is done after the earlier ones of this thread.
    pub(crate) fn ask(&self, command: &str) -> Answer {
        self.java.ask(&format!("{command} client={} thread={}", self.client, self.name))
    }

    /// The answer to a command that throws nothing.
    #[track_caller]
    pub(crate) fn ok(&self, command: &str) -> impl Future<Output = String> {
        self.ask(command).ok()
    }

    /// What a command throws.
    #[track_caller]
    pub(crate) fn thrown(&self, command: &str) -> impl Future<Output = Failure> {
        self.ask(command).thrown()
    }

    /// The answer as a number.
    #[track_caller]
    pub(crate) fn number(&self, command: &str) -> impl Future<Output = i64> {
        let answer = self.ask(command).ok();
        async move { answer.await.parse().unwrap() }
    }

    /// What the hash of a lock has for a hold of this thread.
    pub(crate) async fn wire_owner(&self) -> String {
        self.ok(&format!("client owner {}", self.client)).await
    }
}

/// How somebody waits for a name.
pub(crate) enum Wait {
    /// Listening to a channel whose name begins so.
    Listening(String),
    /// Asking again and again.
    Asking,
}

/// Looks on while somebody begins to wait.
pub(crate) struct Watch {
    monitor: Monitor,
    /// The word by which clients of either side listen on this server.
    subscribe: &'static str,
    name: String,
    wait: Wait,
}

impl Watch {
    /// Waits until somebody waits: has begun to listen and asked once more since, so that only a wake-up, the end of
    /// the hold or a poll can have it ask again.
    pub(crate) async fn until_somebody_waits(&self) {
        eventually("somebody to wait", || self.somebody_waits()).await;
    }

    /// The messages that scripts have published on this channel so far.
    pub(crate) fn messages(&self, channel: &str) -> Vec<String> {
        let message = |line: &String| {
            let (_, call) = line.split_once(" lua] \"")?;
            match call.trim_end_matches('"').split("\" \"").collect::<Vec<_>>()[..] {
                [verb, to, message] if verb.to_ascii_uppercase().ends_with("PUBLISH") && to == channel => {
                    Some(message.to_owned())
                }
                _ => None,
            }
        };
        self.monitor.lines().iter().filter_map(message).collect()
    }

    fn somebody_waits(&self) -> bool {
        let commands = self.monitor.commands();
        let asks = |command: &Vec<String>| command[1..].contains(&self.name);
        match &self.wait {
            Wait::Asking => commands.iter().filter(|command| asks(command)).count() >= 3,
            Wait::Listening(channel) => {
                let listens = |command: &Vec<String>| {
                    command[0].eq_ignore_ascii_case(self.subscribe)
                        && command[1..].iter().any(|word| word.starts_with(channel))
                };
                let listening = commands.iter().position(listens);
                listening.is_some_and(|at| commands[at..].iter().any(asks))
            }
        }
    }
}
