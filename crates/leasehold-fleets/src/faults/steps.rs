//! Steps that the faults of several topologies share.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use leasehold_testkit::fleets::source_of_node;
use leasehold_testkit::servers::RedisServer;

use crate::clock::now;
use crate::network::{Lost, Partition};

/// The time at which a server served all names again, and its plain port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) at: u64,
    pub(super) port: u16,
}

impl Served {
    /// Returns the present time for a node that serves.
    pub(super) fn now(node: &RedisServer) -> Self {
        Self { at: now(), port: node.port() }
    }
}

/// Lets a part of a fault last for a random time.
pub(super) fn last(random: &mut fastrand::Rng, ms: std::ops::Range<u64>) {
    thread::sleep(Duration::from_millis(random.u64(ms)));
}

/// Chooses one of these nodes.
pub(super) fn one_of(nodes: &[usize], random: &mut fastrand::Rng) -> Result<usize> {
    nodes.get(random.usize(..nodes.len().max(1))).copied().context("the fleet has no such node")
}

/// Sends a command to a node of the kit's own.
pub(super) fn order(node: &RedisServer, command: &[&str]) -> Result<String> {
    Ok(node.command(command)?.text().to_owned())
}

/// Freezes replicas and then cuts the master's links to all replicas. A replica whose own side is cut connects again in
/// less than the time that a signal takes, and then receives all grants from the buffers of the kernel.
pub(super) fn cut_off<'a>(
    master: &RedisServer,
    replicas: impl Iterator<Item = &'a RedisServer>,
) -> Result<()> {
    replicas.for_each(RedisServer::freeze);
    master.command(&["CLIENT", "KILL", "TYPE", "replica"])?;
    Ok(())
}

/// Loses packets between a master and all other servers, but not those of clients, until another master serves and for a
/// random time after that.
pub(super) fn partitioned(
    nodes: &[RedisServer],
    master: usize,
    lost: Lost,
    random: &mut fastrand::Rng,
    another_serves: impl FnOnce() -> Result<Served>,
) -> Result<Option<Served>> {
    let partition = Partition::begin(&nodes[master], source_of_node(master), lost)?;
    let served = another_serves()?;
    last(random, 0..1000);
    partition.end()?;
    Ok(Some(served))
}

/// Closes all connections of clients at nodes.
pub(super) fn reset_connections<'a>(nodes: impl Iterator<Item = &'a RedisServer>) -> Result<()> {
    for node in nodes {
        for kind in ["normal", "pubsub"] {
            node.command(&["CLIENT", "KILL", "TYPE", kind])?;
        }
    }
    Ok(())
}
