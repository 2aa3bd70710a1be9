//! A master with replicas behind sentinels.
//!
//! Invariant: nodes and sentinels keep their index and their port for the life of the fleet, whatever their role.

use std::time::Duration;

use super::node::{self, REACTS_WITHIN, Role, order};
use super::sources;
use super::user::{User, login_arguments, login_of_url};
use crate::servers::{Encryption, Form, RedisServer};
use crate::wait::{eventually, holds_within};

/// The name under which the sentinels know the master.
const SERVICE: &str = "leasehold";
/// The periods of a sentinel in milliseconds, which production leaves at 1 s to 10 s. Eager sentinels split their votes.
const PERIODS: [&str; 12] = [
    "SENTINEL",
    "DEBUG",
    "info-period",
    "300",
    "publish-period",
    "300",
    "ping-period",
    "250",
    "min-link-reconnect-period",
    "300",
    "slave-reconf-timeout",
    "1000",
];
/// The time limit for one sentinel's answer to a failover by hand, which waits for an earlier failover.
const FAILOVER_STARTS_WITHIN: Duration = Duration::from_secs(20);

/// The settings of a fleet behind sentinels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelOptions {
    /// The number of replicas.
    pub replicas: usize,
    /// The number of sentinels. The majority of them is the quorum.
    pub sentinels: usize,
    /// The silence in milliseconds after which a sentinel takes a node for dead.
    pub down_after_ms: u32,
    /// The limit of one failover in milliseconds.
    pub failover_timeout_ms: u32,
    /// The condition under which a master accepts writes.
    pub min_replicas: Option<MinReplicas>,
    /// The password of the data nodes' default user.
    pub password: Option<String>,
    /// The login of the clients under test.
    pub user: Option<User>,
    /// The password of the sentinels.
    pub sentinel_password: Option<String>,
    /// The certificates of nodes and sentinels. All connections between them are then encrypted too.
    pub encryption: Option<Encryption>,
    /// The certificates of the sentinels, if they have others than the nodes. They must trust the nodes.
    pub sentinel_encryption: Option<Encryption>,
    /// Each server connects to the others from an [address of its own](super::source_of_node). Needs Redis 7.
    pub own_sources: bool,
    /// Further arguments of every data node, such as `["--maxmemory", "3mb"]`.
    pub arguments: Vec<String>,
}

/// A number of replicas that must be close for the master to accept writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinReplicas {
    /// The value of `min-replicas-to-write`.
    pub to_write: u32,
    /// The value of `min-replicas-max-lag`.
    pub max_lag_s: u32,
}

impl Default for SentinelOptions {
    fn default() -> Self {
        Self {
            replicas: 2,
            sentinels: 3,
            down_after_ms: 1000,
            failover_timeout_ms: 3000,
            min_replicas: None,
            password: None,
            user: None,
            sentinel_password: None,
            encryption: None,
            sentinel_encryption: None,
            own_sources: false,
            arguments: Vec::new(),
        }
    }
}

/// A master, its replicas, and the sentinels that watch them. All of them end when it is dropped.
#[derive(Debug)]
pub struct Sentinels {
    options: SentinelOptions,
    nodes: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

node::node_faults!(Sentinels);

impl Sentinels {
    /// Starts one master (node 0), two replicas and three sentinels, and waits until they are settled.
    ///
    /// # Panics
    /// Panics if a server does not start, or the fleet does not settle.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with(SentinelOptions::default())
    }

    /// Starts a fleet with these settings.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with(options: SentinelOptions) -> Self {
        let start = |index| node::start(&options.node_arguments(index), options.encryption.as_ref());
        let nodes: Vec<_> = (0..=options.replicas).map(start).collect();
        let master = nodes[0].announced_port().to_string();
        for replica in &nodes[1..] {
            order(replica, &["REPLICAOF", "127.0.0.1", &master]);
            order(replica, &["CONFIG", "REWRITE"]);
        }
        // A sentinel that starts before the replicas learns of them with its next INFO only.
        eventually(
            REACTS_WITHIN,
            "the replicas to follow their master",
            || matches!(node::role(&nodes[0]), Role::Master(online) if online.len() == options.replicas),
        );
        let encryption = options.sentinel_encryption.as_ref().or(options.encryption.as_ref());
        let start = |index| {
            let arguments = options.sentinel_arguments(index, &master);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            node::start_in(Form::SentinelFile, &arguments, encryption)
        };
        let sentinels: Vec<_> = (0..options.sentinels).map(start).collect();
        let fleet = Self { options, nodes, sentinels };
        (0..fleet.sentinels.len()).for_each(|index| fleet.hurry(index));
        eventually(REACTS_WITHIN, "the sentinels to know each other", || fleet.is_complete());
        fleet.wait_until_settled();
        fleet
    }

    /// Returns the address for clients: `redis+sentinel://[user:password@]host:port,.../leasehold`, over TLS
    /// `rediss+sentinel://`.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.announced_port())).collect();
        let login = login_of_url(self.options.password.as_deref(), self.options.user.as_ref());
        let query = match &self.options.sentinel_password {
            Some(password) => format!("?sentinel_password={password}"),
            None => String::new(),
        };
        let scheme = node::scheme("sentinel", self.options.encryption.as_ref());
        format!("{scheme}{login}{}/{SERVICE}{query}", hosts.join(","))
    }

    /// Returns the name of the master in the address.
    #[must_use]
    pub fn service(&self) -> &'static str {
        SERVICE
    }

    /// Returns the data nodes, whatever their role.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns the sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Returns the index of the master on which the sentinels that are up agree, if they do. It may be dead.
    #[must_use]
    pub fn agreed_master(&self) -> Option<usize> {
        let mut named = self.sentinels.iter().filter(|sentinel| sentinel.is_up()).map(|sentinel| {
            let reply = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).ok()?;
            let port = reply.list().get(1)?.number()?;
            self.nodes.iter().position(|node| i64::from(node.announced_port()) == port)
        });
        let first = named.next()??;
        named.all(|other| other == Some(first)).then_some(first)
    }

    /// Returns the index of the master, as the sentinels say it. Waits until they agree.
    ///
    /// # Panics
    /// Panics if they do not agree within a minute, or no sentinel is up.
    #[must_use]
    #[track_caller]
    pub fn master(&self) -> usize {
        let mut master = None;
        eventually(REACTS_WITHIN, "the sentinels to agree on a master", || {
            master = self.agreed_master();
            master.is_some()
        });
        master.expect("the wait ended with a master")
    }

    /// Returns the indices of the nodes that are up and are not the master.
    ///
    /// # Panics
    /// As [`master`](Self::master).
    #[must_use]
    #[track_caller]
    pub fn replicas(&self) -> Vec<usize> {
        let master = self.master();
        (0..self.nodes.len()).filter(|&index| index != master && self.nodes[index].is_up()).collect()
    }

    /// Makes a node a master by hand, behind the sentinels' back. They make it a replica again.
    #[track_caller]
    pub fn promote(&self, node: usize) {
        order(&self.nodes[node], &["REPLICAOF", "NO", "ONE"]);
    }

    /// Kills a sentinel.
    pub fn kill_sentinel(&mut self, sentinel: usize) {
        self.sentinels[sentinel].kill();
    }

    /// Freezes a sentinel.
    #[track_caller]
    pub fn freeze_sentinel(&self, sentinel: usize) {
        self.sentinels[sentinel].freeze();
    }

    /// Restarts a sentinel with what it learned.
    #[track_caller]
    pub fn restart_sentinel(&mut self, sentinel: usize) {
        self.sentinels[sentinel].restart();
        self.hurry(sentinel);
    }

    /// Lets a sentinel promote a replica of a healthy master, waits until all sentinels name the new one, and returns
    /// its index.
    ///
    /// # Panics
    /// Panics if the sentinels refuse or do not finish.
    #[track_caller]
    pub fn failover(&self) -> usize {
        let before = self.master();
        let sentinel = self.sentinels.iter().find(|one| one.is_up()).expect("a sentinel is up");
        let mut refusal = String::new();
        let started = holds_within(FAILOVER_STARTS_WITHIN, || {
            let answer = sentinel.command(&["SENTINEL", "FAILOVER", SERVICE]);
            answer.map_err(|error| refusal = error.to_string()).is_ok()
        });
        assert!(started, "the sentinel refuses a failover: {refusal}");
        let mut after = before;
        eventually(REACTS_WITHIN, "another master", || {
            after = self.agreed_master().unwrap_or(before);
            after != before
        });
        after
    }

    /// Waits until all servers that are up agree: one master, replicas that follow it, sentinels without a doubt.
    ///
    /// # Panics
    /// Panics if that takes more than a minute.
    #[track_caller]
    pub fn wait_until_settled(&self) {
        let settled = holds_within(REACTS_WITHIN, || self.is_settled());
        assert!(settled, "the fleet does not settle: {}", self.describe());
    }

    /// Returns true if all servers that are up agree.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let Some(master) = self.agreed_master() else { return false };
        let Role::Master(online) = node::role(&self.nodes[master]) else { return false };
        let port = self.nodes[master].announced_port();
        let follows = |node: &RedisServer| {
            node.announced_port() == port
                || (node::role(node) == Role::Replica(port, true) && online.contains(&node.announced_port()))
        };
        self.nodes.iter().filter(|node| node.is_up()).all(follows)
            && self
                .sentinels
                .iter()
                .filter(|sentinel| sentinel.is_up())
                .all(|sentinel| self.is_sure(sentinel))
    }

    /// Returns true if the sentinel sees every node that is up without a doubt.
    fn is_sure(&self, sentinel: &RedisServer) -> bool {
        let Ok(master) = sentinel.command(&["SENTINEL", "MASTER", SERVICE]) else { return false };
        let Ok(replicas) = sentinel.command(&["SENTINEL", "REPLICAS", SERVICE]) else { return false };
        let is_up = |port: &str| {
            self.nodes.iter().any(|node| node.is_up() && node.announced_port().to_string() == port)
        };
        let sure = |replica: &crate::servers::Reply| {
            !is_up(replica.field("port"))
                || (replica.field("flags") == "slave" && replica.field("master-link-status") == "ok")
        };
        master.field("flags") == "master" && replicas.list().iter().all(sure)
    }

    /// Returns true if every sentinel knows every server.
    fn is_complete(&self) -> bool {
        self.sentinels.iter().all(|sentinel| {
            sentinel.command(&["SENTINEL", "MASTER", SERVICE]).is_ok_and(|master| {
                master.field("num-slaves") == self.options.replicas.to_string()
                    && master.field("num-other-sentinels") == (self.options.sentinels - 1).to_string()
            })
        })
    }

    /// Shortens the periods of a sentinel, which a restart resets.
    #[track_caller]
    fn hurry(&self, sentinel: usize) {
        order(&self.sentinels[sentinel], &PERIODS);
    }

    fn describe(&self) -> String {
        let nodes =
            self.nodes.iter().map(|node| format!("{} is {:?}", node.announced_port(), node::role(node)));
        let nodes: Vec<_> = nodes.collect();
        format!("the sentinels name {:?} of {}", self.agreed_master(), nodes.join(", "))
    }
}

impl SentinelOptions {
    fn node_arguments(&self, index: usize) -> Vec<String> {
        let mut words = login_arguments(self.password.as_deref(), self.user.as_ref());
        if let Some(least) = self.min_replicas {
            words.extend(["--min-replicas-to-write".to_owned(), least.to_write.to_string()]);
            words.extend(["--min-replicas-max-lag".to_owned(), least.max_lag_s.to_string()]);
        }
        if self.own_sources {
            words.extend(sources::node_arguments(index));
        }
        words.extend(self.arguments.iter().cloned());
        words
    }

    fn sentinel_arguments(&self, index: usize, master: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |line: &[&str]| words.extend(line.iter().map(|&word| word.to_owned()));
        let quorum = (self.sentinels / 2 + 1).to_string();
        add(&["--sentinel", "monitor", SERVICE, "127.0.0.1", master, &quorum]);
        add(&["--sentinel", "down-after-milliseconds", SERVICE, &self.down_after_ms.to_string()]);
        add(&["--sentinel", "failover-timeout", SERVICE, &self.failover_timeout_ms.to_string()]);
        add(&["--sentinel", "parallel-syncs", SERVICE, &self.replicas.max(1).to_string()]);
        if let Some(password) = &self.password {
            add(&["--sentinel", "auth-pass", SERVICE, password]);
        }
        if let Some(password) = &self.sentinel_password {
            add(&["--requirepass", password]);
        }
        if self.own_sources {
            words.extend(sources::sentinel_arguments(index));
        }
        words
    }
}
