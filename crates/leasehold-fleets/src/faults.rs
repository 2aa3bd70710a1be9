//! The course of each fault.
//!
//! Invariant: a fault leaves the fleet whole: all nodes are up and agree.

mod cluster;
mod sentinels;
mod servers;

use std::{fmt, thread};
use std::time::Duration;

use anyhow::Result;
use leasehold_testkit::servers::RedisServer;

use crate::clock::now;
use crate::fault::Fault;
use crate::fleet::Fleet;

/// The times of a fault.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// The fault.
    pub fault: Fault,
    /// The time before the fault.
    pub began: u64,
    /// The time at which a server served all names again.
    pub serves: u64,
    /// The time at which all nodes were up and agreed.
    pub settled: u64,
}

impl fmt::Display for Course {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, began, serves, settled } = self;
        write!(formatter, "{began} {fault:?}: serves after {} us, settled after {} us", serves - began, settled - began)
    }
}

/// Injects a fault and waits until the fleet is whole again.
///
/// # Errors
/// The fleet does not become whole, or cannot have this fault.
pub fn inject(fleet: &mut Fleet, fault: Fault, random: &mut fastrand::Rng) -> Result<Course> {
    let began = now();
    let serves = match fleet {
        Fleet::Sentinels(fleet) => sentinels::inject(fleet, fault, random)?,
        Fleet::Cluster(cluster) => cluster::inject(cluster, fault, random)?,
        Fleet::Servers(servers) => servers::inject(servers, fault, random)?,
    };
    let settled = fleet.settle()?;
    Ok(Course { fault, began, serves: serves.unwrap_or(settled), settled })
}

/// Lets a part of a fault last for a random time.
fn last(random: &mut fastrand::Rng, ms: std::ops::Range<u64>) {
    thread::sleep(Duration::from_millis(random.u64(ms)));
}

/// Sends a command to a node of the kit's own.
fn order(node: &RedisServer, command: &[&str]) -> Result<String> {
    Ok(node.command(command)?.text().to_owned())
}

/// Cuts the link from a replica to its master, and freezes the replica, so that it does not connect again.
fn cut_off(replica: &RedisServer) -> Result<()> {
    replica.command(&["CLIENT", "KILL", "TYPE", "master"])?;
    replica.freeze();
    Ok(())
}

/// Closes all connections of clients at nodes.
fn reset_connections<'a>(nodes: impl Iterator<Item = &'a RedisServer>) -> Result<()> {
    for node in nodes {
        for kind in ["normal", "pubsub"] {
            node.command(&["CLIENT", "KILL", "TYPE", kind])?;
        }
    }
    Ok(())
}

fn is_master(node: &RedisServer) -> bool {
    node.command(&["INFO", "replication"]).is_ok_and(|info| info.text().contains("role:master"))
}
