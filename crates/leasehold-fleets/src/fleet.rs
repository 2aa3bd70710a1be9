//! A running fleet of any topology.

use std::time::Duration;

use anyhow::{Result, ensure};
use leasehold_testkit::fleets::{Cluster, ClusterOptions, SentinelOptions, Sentinels, User};
use leasehold_testkit::servers::RedisServer;

use crate::clock::{SECOND, now};
use crate::fault::Topology;

/// The time limit for a fleet to agree after a fault.
const SETTLES_WITHIN: u64 = 60 * SECOND;
/// The pause between two looks at a fleet, which costs its servers some commands.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A fleet.
#[derive(Debug)]
pub enum Fleet {
    /// A master with replicas behind sentinels.
    Sentinels(Sentinels),
    /// A cluster.
    Cluster(Cluster),
    /// One server, or several independent ones.
    Servers(Vec<RedisServer>),
}

impl Fleet {
    /// Starts a fleet.
    #[must_use]
    pub fn start(topology: Topology) -> Self {
        match topology {
            Topology::Sentinel => {
                // The clients have a user of their own, so that a fault can cut the others off.
                let user = Some(User::unlimited("lab", "lab"));
                Self::Sentinels(Sentinels::with(SentinelOptions { user, ..SentinelOptions::default() }))
            }
            Topology::Cluster => Self::Cluster(Cluster::with(ClusterOptions {
                node_timeout_ms: 700,
                ..ClusterOptions::default()
            })),
            Topology::Independent => Self::Servers(persistent(3)),
            Topology::Single => Self::Servers(persistent(1)),
        }
    }

    /// Returns the addresses for a worker.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        match self {
            Self::Sentinels(fleet) => vec![fleet.url()],
            Self::Cluster(cluster) => vec![cluster.url()],
            Self::Servers(servers) => servers.iter().map(RedisServer::url).collect(),
        }
    }

    /// Returns the data nodes.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        match self {
            Self::Sentinels(fleet) => fleet.nodes(),
            Self::Cluster(cluster) => cluster.nodes(),
            Self::Servers(servers) => servers,
        }
    }

    /// Waits until all nodes agree, and returns the time.
    ///
    /// # Errors
    /// The fleet does not agree within a minute.
    pub fn settle(&self) -> Result<u64> {
        wait_until("the fleet to agree", || match self {
            Self::Sentinels(fleet) => fleet.is_settled(),
            Self::Cluster(cluster) => cluster.is_settled(),
            Self::Servers(servers) => servers.iter().all(|server| server.command(&["PING"]).is_ok()),
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

fn persistent(count: usize) -> Vec<RedisServer> {
    let arguments = ["--appendonly", "yes", "--appendfsync", "no"];
    (0..count).map(|_| RedisServer::with(&arguments)).collect()
}
