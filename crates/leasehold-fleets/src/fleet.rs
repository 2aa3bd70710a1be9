//! A running fleet of any topology.

use std::time::Duration;

use anyhow::{Result, ensure};
use leasehold_testkit::fleets::{Cluster, ClusterOptions, SentinelOptions, Sentinels, User};
use leasehold_testkit::servers::{Encryption, RedisServer};

use crate::clock::{SECOND, now};
use crate::fault::Topology;
use crate::security::{LOGIN, Security, user};

/// The time limit for a fleet to agree after a fault.
const SETTLES_WITHIN: u64 = 60 * SECOND;
/// The pause between two looks at a fleet, which costs its servers some commands.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A fleet and its certificates, if it has some.
#[derive(Debug)]
pub struct Fleet {
    /// The servers, which end before their certificates do.
    pub shape: Shape,
    security: Option<Security>,
}

/// The servers of a fleet.
#[derive(Debug)]
pub enum Shape {
    /// A master with replicas behind sentinels.
    Sentinels(Sentinels),
    /// A cluster.
    Cluster(Cluster),
    /// One server, or several independent ones.
    Servers(Vec<RedisServer>),
}

impl Fleet {
    /// Starts a fleet. A secured one speaks TLS, and its clients have the fewest rights.
    #[must_use]
    pub fn start(topology: Topology, is_secured: bool) -> Self {
        let security = is_secured.then(Security::new);
        let encryption = security.as_ref().map(|security| security.encryption().clone());
        let user = user(topology, is_secured);
        let shape = match topology {
            Topology::Sentinel => Shape::Sentinels(Sentinels::with(SentinelOptions {
                user: Some(user),
                encryption,
                own_sources: true,
                ..SentinelOptions::default()
            })),
            Topology::Cluster => Shape::Cluster(Cluster::with(ClusterOptions {
                node_timeout_ms: 700,
                user: Some(user),
                encryption,
                own_sources: true,
                ..ClusterOptions::default()
            })),
            Topology::Independent => Shape::Servers(persistent(3, &user, encryption.as_ref())),
            Topology::Single => Shape::Servers(persistent(1, &user, encryption.as_ref())),
        };
        Self { shape, security }
    }

    /// Returns the addresses for a worker.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        match &self.shape {
            Shape::Sentinels(fleet) => vec![fleet.url()],
            Shape::Cluster(cluster) => vec![cluster.url()],
            Shape::Servers(servers) => {
                let scheme = if self.security.is_some() { "rediss" } else { "redis" };
                let url = |server: &RedisServer| {
                    format!("{scheme}://{LOGIN}@127.0.0.1:{}", server.announced_port())
                };
                servers.iter().map(url).collect()
            }
        }
    }

    /// Returns the file of the authority that issued the certificates, if connections are encrypted.
    #[must_use]
    pub fn ca_file(&self) -> Option<&str> {
        self.security.as_ref().map(Security::ca_file)
    }

    /// Returns the data nodes.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        match &self.shape {
            Shape::Sentinels(fleet) => fleet.nodes(),
            Shape::Cluster(cluster) => cluster.nodes(),
            Shape::Servers(servers) => servers,
        }
    }

    /// Returns the plain ports of the masters.
    pub(crate) fn ports_of_masters(&self) -> Vec<u16> {
        self.masters().map(RedisServer::port).collect()
    }

    /// Returns the data nodes that are up and say that they are masters.
    pub(crate) fn masters(&self) -> impl Iterator<Item = &RedisServer> {
        self.nodes().iter().filter(|node| node.is_up() && is_master(node))
    }

    /// Waits until all nodes agree, and returns the time.
    ///
    /// # Errors
    /// The fleet does not agree within a minute.
    pub fn settle(&self) -> Result<u64> {
        wait_until("the fleet to agree", || match &self.shape {
            Shape::Sentinels(fleet) => fleet.is_settled(),
            Shape::Cluster(cluster) => cluster.is_settled(),
            Shape::Servers(servers) => servers.iter().all(|server| server.command(&["PING"]).is_ok()),
        })
    }
}

/// Waits until a condition holds, and returns the time.
///
/// # Errors
/// The condition does not hold within a minute.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) -> Result<u64> {
    let began = now();
    loop {
        if condition() {
            return Ok(now());
        }
        ensure!(now() - began < SETTLES_WITHIN, "waited for a minute in vain for {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Returns true if the node says that it is a master.
pub(crate) fn is_master(node: &RedisServer) -> bool {
    node.command(&["INFO", "replication"]).is_ok_and(|info| info.text().contains("role:master"))
}

fn persistent(count: usize, user: &User, encryption: Option<&Encryption>) -> Vec<RedisServer> {
    let user = user.arguments();
    let arguments = ["--appendonly", "yes", "--appendfsync", "no"];
    let all: Vec<&str> = arguments.into_iter().chain(user.iter().map(String::as_str)).collect();
    let start = || match encryption {
        Some(encryption) => RedisServer::encrypted(&all, encryption),
        None => RedisServer::with(&all),
    };
    (0..count).map(|_| start()).collect()
}
