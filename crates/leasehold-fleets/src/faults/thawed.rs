//! The fault in which an old master runs acquires that it received before its replica took over.
//!
//! Invariant: the master resumes within the timeout of the calls, so that their grants count.
//!
//! # How it works
//! A worker asks for locks when the master is frozen, so its calls wait in the kernel. The replica is promoted by hand,
//! because a failover takes longer than the timeout. A new client of another worker takes the same locks there. Then the
//! old master resumes, and grants what it finds in its sockets before it learns that it is no master any more.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use leasehold_testkit::fleets::Cluster;

use super::steps::{Served, last, one_of};
use crate::clock::now;
use crate::fault::Topology;
use crate::fleet::wait_until;
use crate::logs::Log;
use crate::policy::{Policy, TAG};
use crate::rush::{Order, locks_of_policy};
use crate::workers::Workers;

/// The time in milliseconds for which the master is frozen. A client asks for the map after 300 ms without a reply, and
/// no replica takes over sooner by itself. The rest of the timeout is left to the master to answer.
const FROZEN_MS: std::ops::Range<u64> = 500..800;

/// The new master, and the acquires that were on their way to the old one.
pub(super) struct Thawed {
    pub(super) served: Served,
    pub(super) in_flight: usize,
}

/// Injects the fault into the master of most names.
pub(super) fn inject(
    cluster: &Cluster,
    workers: &mut Workers,
    topology: Topology,
    random: &mut fastrand::Rng,
) -> Result<Thawed> {
    let master = cluster.node_of_slot(cluster.slot_of_key(&format!("{{{TAG}}}")));
    let replica = one_of(&cluster.replicas_of(master), random)?;
    let (early, late) = workers.two(random)?;
    let (round, policies) = (now(), topology.policies());
    workers.order(early, Order::Ready(round))?;
    reached(workers, early, |log| log.granted_of_round(round, policies) == policies.len())?;
    cluster.freeze(master);
    let frozen = now();
    workers.order(early, Order::Ask(round))?;
    let asked = policies.len() * locks_of_policy();
    reached(workers, early, |log| log.asked_of_round(round) == asked)?;
    // A worker writes an attempt just before it sends it.
    last(random, 20..60);
    cluster.failover(replica, Some("TAKEOVER"));
    let served = Served::now(&cluster.nodes()[replica]);
    workers.order(late, Order::Rival(round))?;
    // A policy with replicas waits for the old master, which is the only one.
    let free: Vec<Policy> = policies.iter().copied().filter(|policy| policy.confirm(1).is_none()).collect();
    let until = frozen + random.u64(FROZEN_MS) * 1000;
    let rivals = free.len() * locks_of_policy();
    reached(workers, late, |log| log.granted_of_round(round, &free) == rivals || now() > until)?;
    thread::sleep(Duration::from_micros(until.saturating_sub(now())));
    let in_flight = workers.log(early)?.asked_of_round(round);
    cluster.resume(master);
    Ok(Thawed { served, in_flight })
}

fn reached(workers: &mut Workers, worker: usize, is_so: impl Fn(&Log) -> bool) -> Result<()> {
    let mut failure = Ok(());
    wait_until("a worker to follow an order", || match workers.log(worker) {
        Ok(log) => is_so(log),
        Err(error) => {
            failure = Err(error);
            true
        }
    })?;
    failure
}
