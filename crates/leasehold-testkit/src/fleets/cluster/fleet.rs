//! The nodes of a cluster, and the faults of one node.
//!
//! Invariant: nodes keep their index and their port for the life of the cluster, whatever their role. A removed node
//! keeps its index too, and is never up again.

use std::time::Duration;

use super::super::node::{self, REACTS_WITHIN, Role, order};
use super::super::sources;
use super::super::user::{User, login_arguments, login_of_url};
use super::view::{SLOTS, View};
use crate::servers::{Encryption, RedisServer};
use crate::wait::{eventually, holds_within};

/// The time limit for a node to accept an order that needs the others' news.
const NEWS_WITHIN: Duration = Duration::from_secs(20);

/// The settings of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterOptions {
    /// The number of masters, which share the slots evenly. Fewer than three cannot fail over.
    pub masters: usize,
    /// The number of replicas of each master.
    pub replicas: usize,
    /// The silence in milliseconds after which a node is taken for dead.
    pub node_timeout_ms: u32,
    /// The password of the default user.
    pub password: Option<String>,
    /// The login of the clients under test.
    pub user: Option<User>,
    /// The certificates of all nodes. The connections between them are then encrypted too.
    pub encryption: Option<Encryption>,
    /// Each node connects to the others from an [address of its own](crate::fleets::source_of_node). Needs Redis 7.
    pub own_sources: bool,
    /// Further arguments of every node, such as `["--cluster-require-full-coverage", "no"]`.
    pub arguments: Vec<String>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            masters: 3,
            replicas: 1,
            node_timeout_ms: 1000,
            password: None,
            user: None,
            encryption: None,
            own_sources: false,
            arguments: Vec::new(),
        }
    }
}

/// A cluster. All nodes end when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    pub(super) options: ClusterOptions,
    pub(super) nodes: Vec<RedisServer>,
    pub(super) ids: Vec<String>,
    pub(super) removed: Vec<bool>,
}

node::node_faults!(Cluster);

impl Cluster {
    /// Starts a cluster and waits until it is settled. The masters come first, then the first replica of each, and so
    /// on.
    ///
    /// # Panics
    /// Panics if a server does not start, or the cluster does not settle.
    #[must_use]
    #[track_caller]
    pub fn start(masters: usize, replicas: usize) -> Self {
        Self::with(ClusterOptions { masters, replicas, ..ClusterOptions::default() })
    }

    /// Starts a cluster with these settings.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with(options: ClusterOptions) -> Self {
        let count = options.masters * (options.replicas + 1);
        let mut cluster = Self { options, nodes: Vec::new(), ids: Vec::new(), removed: Vec::new() };
        (0..count).for_each(|_| cluster.launch());
        let masters = cluster.options.masters;
        for index in 0..masters {
            let first = usize::from(SLOTS) * index / masters;
            let last = usize::from(SLOTS) * (index + 1) / masters - 1;
            let node = &cluster.nodes[index];
            order(node, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            order(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        (1..count).for_each(|index| cluster.introduce(index));
        eventually(REACTS_WITHIN, "the nodes to know each other", || cluster.is_acquainted());
        (masters..count).for_each(|index| cluster.follow(index, index % masters));
        cluster.wait_until_settled();
        cluster
    }

    /// Returns the address for clients: `redis+cluster://[user:password@]host:port,...`, over TLS `rediss+cluster://`.
    #[must_use]
    pub fn url(&self) -> String {
        let members = (0..self.nodes.len()).filter(|&index| !self.removed[index]);
        let host = |index: usize| format!("127.0.0.1:{}", self.nodes[index].announced_port());
        let hosts: Vec<_> = members.map(host).collect();
        let login = login_of_url(self.options.password.as_deref(), self.options.user.as_ref());
        let scheme = node::scheme("cluster", self.options.encryption.as_ref());
        format!("{scheme}{login}{}", hosts.join(","))
    }

    /// Returns all nodes, whatever their role, and removed ones too.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns the index of the master of a slot, as the nodes that are up agree on it. Waits until they do.
    ///
    /// # Panics
    /// Panics if they do not agree within a minute.
    #[must_use]
    #[track_caller]
    pub fn node_of_slot(&self, slot: u16) -> usize {
        let mut owner = None;
        eventually(REACTS_WITHIN, "the nodes to agree on the master of a slot", || {
            let views = self.views();
            let mut owners = views.iter().map(|view| view.owner(slot));
            let first = owners.next().flatten().filter(|&first| owners.all(|other| other == Some(first)));
            owner = first.and_then(|id| self.index_of(id));
            owner.is_some()
        });
        owner.expect("the wait ended with an owner")
    }

    /// Returns the slot of a key.
    ///
    /// # Panics
    /// Panics if no node is up.
    #[must_use]
    #[track_caller]
    pub fn slot_of_key(&self, key: &str) -> u16 {
        let reply = self.any_up().command(&["CLUSTER", "KEYSLOT", key]).expect("a node answers");
        reply.number().and_then(|slot| u16::try_from(slot).ok()).expect("a slot is a small number")
    }

    /// Returns the indices of the nodes that are up and say that they are masters with slots.
    #[must_use]
    pub fn masters(&self) -> Vec<usize> {
        let masters = self.up().filter(|&index| self.view_of(index).is_some_and(|view| view.serves()));
        masters.collect()
    }

    /// Returns the indices of the nodes that are up and replicate the node.
    #[must_use]
    pub fn replicas_of(&self, master: usize) -> Vec<usize> {
        let port = self.nodes[master].announced_port();
        let follows =
            |&index: &usize| matches!(node::role(&self.nodes[index]), Role::Replica(of, _) if of == port);
        self.up().filter(follows).collect()
    }

    /// Makes a replica the master of its slots, by CLUSTER FAILOVER with an option such as `FORCE`, or with none, and
    /// waits until it is a master.
    ///
    /// # Panics
    /// Panics if the replica refuses, or is no master within a minute.
    #[track_caller]
    pub fn failover(&self, replica: usize, option: Option<&str>) {
        let command: Vec<&str> = ["CLUSTER", "FAILOVER"].into_iter().chain(option).collect();
        let mut orders = 0_u32;
        eventually(REACTS_WITHIN, "the replica to be the master", || {
            // A replica gives an attempt up that finds no majority in time, so the order is repeated now and then.
            if orders.is_multiple_of(1000) {
                order(&self.nodes[replica], &command);
            }
            orders += 1;
            matches!(node::role(&self.nodes[replica]), Role::Master(_))
        });
    }

    /// Adds an empty master and returns its index.
    ///
    /// # Panics
    /// Panics if the node does not start, or the others do not learn of it.
    #[track_caller]
    pub fn add_node(&mut self) -> usize {
        self.launch();
        let index = self.nodes.len() - 1;
        self.introduce(index);
        eventually(REACTS_WITHIN, "the nodes to know the new one", || self.is_acquainted());
        index
    }

    /// Adds a replica of a master and returns its index.
    ///
    /// # Panics
    /// As [`add_node`](Self::add_node).
    #[track_caller]
    pub fn add_replica(&mut self, master: usize) -> usize {
        let index = self.add_node();
        self.follow(index, master);
        index
    }

    /// Waits until all nodes that are up agree: every slot has one master that is up, and replicas follow.
    ///
    /// # Panics
    /// Panics if that takes more than a minute.
    #[track_caller]
    pub fn wait_until_settled(&self) {
        let settled = holds_within(REACTS_WITHIN, || self.is_settled());
        assert!(settled, "the cluster does not settle: {}", self.describe());
    }

    /// Returns true if all nodes that are up agree.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let views = self.views();
        let Some(first) = views.first() else { return false };
        let agree =
            views.len() == self.up().count() && views.iter().all(|view| view.slots() == first.slots());
        let whole = first.slots().iter().all(|owner| {
            owner.as_deref().and_then(|id| self.index_of(id)).is_some_and(|index| self.nodes[index].is_up())
        });
        let healthy = views.iter().all(|view| self.up().all(|index| view.trusts(&self.ids[index])));
        let follows =
            |index: usize| !matches!(node::role(&self.nodes[index]), Role::Replica(_, false) | Role::Unknown);
        let serves = |index: usize| {
            let info = self.nodes[index].command(&["CLUSTER", "INFO"]);
            info.is_ok_and(|info| info.text().lines().any(|line| line.trim() == "cluster_state:ok"))
        };
        agree && whole && healthy && self.up().all(|index| follows(index) && serves(index))
    }

    /// Returns the indices of the members that are up.
    pub(super) fn up(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|&index| !self.removed[index] && self.nodes[index].is_up())
    }

    #[track_caller]
    fn any_up(&self) -> &RedisServer {
        self.up().map(|index| &self.nodes[index]).next().expect("a node is up")
    }

    fn index_of(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|known| known == id)
    }

    pub(super) fn view_of(&self, node: usize) -> Option<View> {
        let reply = self.nodes[node].command(&["CLUSTER", "NODES"]).ok()?;
        Some(View::parse(reply.text()))
    }

    pub(super) fn views(&self) -> Vec<View> {
        self.up().filter_map(|index| self.view_of(index)).collect()
    }

    /// Starts a node that knows no other.
    #[track_caller]
    fn launch(&mut self) {
        let node =
            node::start(&self.options.node_arguments(self.nodes.len()), self.options.encryption.as_ref());
        self.ids.push(order(&node, &["CLUSTER", "MYID"]));
        self.nodes.push(node);
        self.removed.push(false);
    }

    /// Makes a node meet the first one that is up. The others learn of it by gossip.
    #[track_caller]
    fn introduce(&self, node: usize) {
        let host = self.up().find(|&index| index != node).expect("another node is up");
        let port = self.nodes[node].announced_port().to_string();
        order(&self.nodes[host], &["CLUSTER", "MEET", "127.0.0.1", &port]);
    }

    /// Returns true if every member that is up knows every other.
    fn is_acquainted(&self) -> bool {
        let views = self.views();
        views.len() == self.up().count()
            && views.iter().all(|view| self.up().all(|index| view.trusts(&self.ids[index])))
    }

    /// Makes a node a replica of a master, and waits until it follows.
    #[track_caller]
    pub(super) fn follow(&self, replica: usize, master: usize) {
        order(&self.nodes[replica], &["CLUSTER", "REPLICATE", &self.ids[master]]);
        let port = self.nodes[master].announced_port();
        eventually(NEWS_WITHIN, "the replica to follow its master", || {
            node::role(&self.nodes[replica]) == Role::Replica(port, true)
        });
    }

    fn describe(&self) -> String {
        let nodes = self.up().map(|index| {
            let reply = self.nodes[index].command(&["CLUSTER", "NODES"]);
            format!("{} says {reply:?}", self.nodes[index].port())
        });
        nodes.collect::<Vec<_>>().join("; ")
    }
}

impl ClusterOptions {
    fn node_arguments(&self, index: usize) -> Vec<String> {
        let timeout = self.node_timeout_ms.to_string();
        let settings = [
            ["--cluster-enabled", "yes"],
            ["--cluster-announce-ip", "127.0.0.1"],
            // The extension tells the removal of data to leave this file alone.
            ["--cluster-config-file", "nodes.conf"],
            ["--cluster-node-timeout", &timeout],
            // A replica may take over however long it was without its master.
            ["--cluster-replica-validity-factor", "0"],
            // A master that has given its last slot away stays a master, until the test removes it.
            ["--cluster-allow-replica-migration", "no"],
        ];
        let mut words: Vec<String> = settings.concat().into_iter().map(str::to_owned).collect();
        if self.encryption.is_some() {
            words.extend(["--tls-cluster", "yes"].map(str::to_owned));
        }
        words.extend(login_arguments(self.password.as_deref(), self.user.as_ref()));
        if self.own_sources {
            words.extend(sources::node_arguments(index));
        }
        words.extend(self.arguments.iter().cloned());
        words
    }
}
