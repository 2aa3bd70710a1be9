//! The environment of an interop test: a server, Redisson and Rust clients on it, and names unique to the test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold::client::ShardedPubsub;
use leasehold_testkit::fleets::{Cluster, Sentinels};
use leasehold_testkit::servers::{Monitor, RedisServer};

use crate::java::{Answer, Failure, Java};
use crate::support::{SOON, connect_with, eventually, ms};

/// The polling interval of a Rust waiter in these tests, so long that no test passes because of a poll.
pub(crate) const POLL_INTERVAL: Duration = ms(20_000);
/// The longest time of a hand-over by a wake-up, far less than a lease and the polling interval, and enough for a
/// machine under load.
pub(crate) const PROMPTLY: Duration = ms(5_000);

/// The longest time of a failover, for machines under load.
const FAILOVER_WITHIN: Duration = ms(15_000);

/// Expands each test into two, one for each kind of server: `plain::name` and `cluster::name`.
///
/// The tests are functions that take a [`Harness`]. The compiler warns about a function that is not in the list, because
/// nothing calls it.
macro_rules! on_each_server {
    ($($name:ident,)+) => {
        mod plain {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::harness::Harness::plain($crate::java::Java::shared())).await;
            })+
        }
        mod cluster {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::harness::Harness::cluster($crate::java::Java::shared())).await;
            })+
        }
    };
}
pub(crate) use on_each_server;

/// Expands each test into one on a cluster of three masters, `masters::name`. The test runs once for each master, and
/// all of its names are in slots of that master.
macro_rules! on_each_master {
    ($($name:ident,)+) => {
        mod masters {
            $(#[tokio::test] async fn $name() {
                for master in 0..$crate::harness::MASTERS {
                    super::$name($crate::harness::Harness::master(master)).await;
                }
            })+
        }
    };
}
pub(crate) use on_each_master;

/// The number of masters of the shared cluster.
pub(crate) const MASTERS: usize = 3;

/// A server, with the Java process that tests share.
pub(crate) struct Harness {
    java: Arc<Java>,
    server: Server,
}

enum Server {
    Plain(RedisServer),
    Cluster(&'static RedisServer, ShardedPubsub),
    /// The master of this index in a cluster, with all masters for clients.
    Master(Arc<Cluster>, usize, ShardedPubsub),
    /// The master behind sentinels.
    Sentinels(Box<Sentinels>),
}

impl Harness {
    /// A bench on a server of its own.
    pub(crate) fn plain(java: Arc<Java>) -> Self {
        Self { java, server: Server::Plain(RedisServer::start()) }
    }

    /// A bench on a cluster, where both sides send wake-ups by sharded channels.
    pub(crate) fn cluster(java: Arc<Java>) -> Self {
        Self::cluster_with(java, ShardedPubsub::Auto)
    }

    /// A bench on a cluster, with both sides configured for this kind of channel. Tests share the cluster, because it
    /// takes seconds to start.
    pub(crate) fn cluster_with(java: Arc<Java>, sharded: ShardedPubsub) -> Self {
        static SHARED: LazyLock<RedisServer> = LazyLock::new(RedisServer::cluster);
        Self { java, server: Server::Cluster(&SHARED, sharded) }
    }

    /// A bench on one master of the cluster of three masters that tests share. Nothing changes that cluster.
    pub(crate) fn master(master: usize) -> Self {
        static SHARED: LazyLock<Arc<Cluster>> = LazyLock::new(|| Arc::new(Cluster::start(MASTERS, 0)));
        Self::master_of(&SHARED, master, ShardedPubsub::Auto)
    }

    /// A bench on one master of this cluster, with both sides configured for this kind of channel.
    pub(crate) fn master_of(cluster: &Arc<Cluster>, master: usize, sharded: ShardedPubsub) -> Self {
        Self { java: Java::shared(), server: Server::Master(Arc::clone(cluster), master, sharded) }
    }

    /// A bench behind sentinels of its own.
    pub(crate) fn sentinels() -> Self {
        Self { java: Java::shared(), server: Server::Sentinels(Box::new(Sentinels::start())) }
    }

    /// The server that has the names of this bench.
    pub(crate) fn server(&self) -> &RedisServer {
        match &self.server {
            Server::Plain(server) => server,
            Server::Cluster(server, _) => server,
            Server::Master(cluster, master, _) => &cluster.nodes()[*master],
            Server::Sentinels(fleet) => &fleet.nodes()[fleet.master()],
        }
    }

    /// The servers behind sentinels.
    ///
    /// # Panics
    /// Panics on another kind of server.
    pub(crate) fn fleet(&mut self) -> &mut Sentinels {
        match &mut self.server {
            Server::Sentinels(fleet) => fleet,
            _ => panic!("there are no sentinels"),
        }
    }

    /// The kind of channel that carries wake-ups on both sides.
    fn sharded(&self) -> ShardedPubsub {
        match self.server {
            Server::Plain(_) | Server::Sentinels(_) => ShardedPubsub::Off,
            Server::Cluster(_, sharded) | Server::Master(_, _, sharded) => sharded,
        }
    }

    /// The URL for Rust clients.
    pub(crate) fn url(&self) -> String {
        match &self.server {
            Server::Master(cluster, ..) => cluster.url(),
            Server::Sentinels(fleet) => fleet.url(),
            Server::Plain(_) | Server::Cluster(..) => self.server().url(),
        }
    }

    /// The options that tell a Redisson client where its server is.
    fn place(&self) -> String {
        let channels = if self.sharded() == ShardedPubsub::Off { "sharded=OFF" } else { "" };
        match &self.server {
            Server::Plain(server) => format!("url={}", server.url()),
            Server::Cluster(server, _) => format!("cluster={} {channels}", server.url()),
            Server::Master(cluster, ..) => format!("cluster={} {channels}", urls(cluster.nodes())),
            Server::Sentinels(fleet) => {
                format!("sentinels={} service={}", urls(fleet.sentinels()), fleet.service())
            }
        }
    }

    /// A Redisson client with options: `watchdog=MS`, `fairwait=MS`.
    pub(crate) async fn peer(&self, options: &str) -> Peer {
        self.peer_in(&self.java, options).await
    }

    /// A Redisson client in this Java process.
    pub(crate) async fn peer_in(&self, java: &Arc<Java>, options: &str) -> Peer {
        let place = self.place();
        let peer = Peer { java: Arc::clone(java), client: unique("client") };
        let client = &peer.client;
        peer.java.ask(&format!("client open {client} {place} {options} thread={client}")).ok().await;
        peer
    }

    /// A Rust client that depends on wake-ups, because it polls only every twenty seconds.
    pub(crate) async fn client(&self) -> Client {
        let builder = Client::builder().poll_interval(POLL_INTERVAL);
        let builder = match self.server {
            Server::Plain(_) => builder,
            Server::Cluster(_, sharded) | Server::Master(_, _, sharded) => builder.sharded_pubsub(sharded),
            // A call goes on during a failover, which takes about three seconds.
            Server::Sentinels(_) => builder.timeout(FAILOVER_WITHIN),
        };
        connect_with(builder, &self.url()).await
    }

    /// A name unique to this test, on the server of this bench.
    pub(crate) fn name(&self, stem: &str) -> String {
        loop {
            let name = unique(stem);
            match &self.server {
                Server::Master(cluster, master, _)
                    if cluster.node_of_slot(cluster.slot_of_key(&name)) != *master => {}
                _ => return name,
            }
        }
    }

    /// The number of connections that listen to this channel.
    pub(crate) fn listeners(&self, channel: &str) -> u64 {
        let ask = if self.sharded() == ShardedPubsub::Off { "NUMSUB" } else { "SHARDNUMSUB" };
        self.server().cli(&["PUBSUB", ask, channel]).lines().last().unwrap().parse().unwrap()
    }

    /// Observes the waiters of this name from now on.
    pub(crate) fn watch(&self, name: &str, wait: Wait) -> Watch {
        // A client stays on a channel for a short time after its last waiter. A waiter that comes then does not subscribe,
        // and the monitor would not see it. Waiters that stay are no reason to wait longer.
        if let Wait::Listening(channel) = &wait {
            let began = Instant::now();
            while self.listeners(channel) > 0 && began.elapsed() < ms(1_000) {
                std::thread::yield_now();
            }
        }
        let subscribe = if self.sharded() == ShardedPubsub::Off { "subscribe" } else { "ssubscribe" };
        Watch { monitor: Monitor::start(self.server()), subscribe, name: name.to_owned(), wait }
    }
}

/// The addresses of these servers, as Redisson expects them.
fn urls(servers: &[RedisServer]) -> String {
    servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",")
}

fn unique(stem: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("{stem}-{}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// A Redisson client, closed when dropped.
pub(crate) struct Peer {
    java: Arc<Java>,
    client: String,
}

/// A thread of the Java process. Redisson records the thread as the holder of every lock that it acquires through its
/// client.
pub(crate) struct Thread {
    java: Arc<Java>,
    client: String,
    name: String,
}

impl Peer {
    /// The thread of this name, which belongs to this client alone.
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
    /// Sends a command, which runs after the earlier commands of this thread.
    pub(crate) fn ask(&self, command: &str) -> Answer {
        self.java.ask(&format!("{command} client={} thread={}", self.client, self.name))
    }

    /// The answer to a command that must not throw.
    #[track_caller]
    pub(crate) fn ok(&self, command: &str) -> impl Future<Output = String> {
        self.ask(command).ok()
    }

    /// The exception of a command that must throw.
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

    /// Waits until the thread is parked where a message wakes it. A message for all waiters, as those of a read-write
    /// lock are, misses a thread of Redisson that has made its last attempt and is not parked yet.
    pub(crate) async fn parked(&self) {
        let began = Instant::now();
        // Another thread answers, because this one waits.
        let ask = format!("client parked {}", self.name);
        while self.java.ask(&ask).ok().await != "true" {
            assert!(began.elapsed() < SOON, "{} is not parked", self.name);
        }
    }

    /// The field of this thread's holds in the hash of a lock.
    pub(crate) async fn wire_owner(&self) -> String {
        self.ok(&format!("client owner {}", self.client)).await
    }
}

/// The way in which a client waits for a name.
pub(crate) enum Wait {
    /// Listening to a channel whose name begins with this text.
    Listening(String),
    /// Polling repeatedly.
    Polling,
}

/// Observes a client that begins to wait.
pub(crate) struct Watch {
    monitor: Monitor,
    /// The command that subscribes clients of either side on this server.
    subscribe: &'static str,
    name: String,
    wait: Wait,
}

impl Watch {
    /// Waits until a client waits. The client has subscribed and tried once more since, so only a wake-up, the end of
    /// the hold or a poll makes it try again.
    pub(crate) async fn wait_for_waiter(&self) {
        eventually("a waiter", || self.has_waiter()).await;
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

    fn has_waiter(&self) -> bool {
        let commands = self.monitor.commands();
        let names_the_lock = |command: &Vec<String>| command[1..].contains(&self.name);
        match &self.wait {
            Wait::Polling => commands.iter().filter(|command| names_the_lock(command)).count() >= 3,
            Wait::Listening(channel) => {
                let listens = |command: &Vec<String>| {
                    command[0].eq_ignore_ascii_case(self.subscribe)
                        && command[1..].iter().any(|word| word.starts_with(channel))
                };
                let listening = commands.iter().position(listens);
                listening.is_some_and(|at| commands[at..].iter().any(names_the_lock))
            }
        }
    }
}
