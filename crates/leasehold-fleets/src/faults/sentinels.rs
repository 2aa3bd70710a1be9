//! The faults of a master with replicas behind sentinels.

use anyhow::{Context, Result, bail};
use leasehold_testkit::fleets::Sentinels;

use super::steps::{Served, cut_off, last, one_of, order, partitioned, reset_connections};
use crate::fault::Fault;
use crate::fleet::{is_master, wait_until};
use crate::network::Lost;

/// Injects a fault. Returns the time at which a master served again, if it is not the time of the settled fleet.
pub(super) fn inject(
    fleet: &mut Sentinels,
    fault: Fault,
    random: &mut fastrand::Rng,
) -> Result<Option<Served>> {
    let master = fleet.master();
    match fault {
        Fault::MasterKilled => killed(fleet, master, &[]),
        Fault::MachineKilled => {
            let sentinel = random.usize(..fleet.sentinels().len());
            fleet.kill_sentinel(sentinel);
            let serves = killed(fleet, master, &[]);
            fleet.restart_sentinel(sentinel);
            serves
        }
        Fault::MasterFrozen => frozen(fleet, master, &[], random),
        Fault::LagThenKilled => {
            let replicas = lag(fleet, random)?;
            killed(fleet, master, &replicas)
        }
        Fault::LagThenFrozen => {
            let replicas = lag(fleet, random)?;
            frozen(fleet, master, &replicas, random)
        }
        Fault::OneLagsThenKilled => one_lags(fleet, master, random),
        Fault::MasterDeaf => cut(fleet, master, Lost::ToNode, random),
        Fault::MasterMute => cut(fleet, master, Lost::FromNode, random),
        Fault::FailoverByHand => {
            let master = fleet.failover();
            Ok(Some(Served::now(&fleet.nodes()[master])))
        }
        Fault::PromotedByHand => {
            fleet.promote(one_of(&fleet.replicas(), random)?);
            // The sentinels ask for the roles every 300 ms.
            last(random, 400..1200);
            Ok(None)
        }
        Fault::RestartedEmpty => {
            fleet.restart_empty(master);
            Ok(Some(Served::now(&fleet.nodes()[master])))
        }
        _ => gentle(fleet, fault, random),
    }
}

/// Injects a fault after which the master is the same.
fn gentle(fleet: &mut Sentinels, fault: Fault, random: &mut fastrand::Rng) -> Result<Option<Served>> {
    match fault {
        Fault::ReplicaKilled => {
            let replica = one_of(&fleet.replicas(), random)?;
            fleet.kill(replica);
            last(random, 100..900);
            fleet.restart(replica);
        }
        Fault::ReplicasFrozen => {
            let replicas = fleet.replicas();
            replicas.iter().for_each(|&replica| fleet.freeze(replica));
            last(random, 200..800);
            replicas.iter().for_each(|&replica| fleet.resume(replica));
        }
        Fault::SentinelsKilled => {
            for sentinel in 0..fleet.sentinels().len() {
                fleet.kill_sentinel(sentinel);
                last(random, 100..400);
                fleet.restart_sentinel(sentinel);
            }
        }
        Fault::ConnectionsReset => {
            reset_connections(fleet.nodes().iter().chain(fleet.sentinels()))?;
        }
        Fault::RollingRestart => {
            for replica in fleet.replicas() {
                fleet.restart(replica);
                fleet.wait_until_settled();
            }
            let master = fleet.master();
            fleet.failover();
            fleet.restart(master);
        }
        other => bail!("a fleet behind sentinels cannot have the fault {other:?}"),
    }
    Ok(None)
}

/// Cuts all replicas off while the master serves on, and returns them.
fn lag(fleet: &Sentinels, random: &mut fastrand::Rng) -> Result<Vec<usize>> {
    let replicas = fleet.replicas();
    cut_off(&fleet.nodes()[fleet.master()], replicas.iter().map(|&replica| &fleet.nodes()[replica]))?;
    last(random, 400..1000);
    Ok(replicas)
}

/// Kills the master, resumes replicas, and restarts the master after the failover.
fn killed(fleet: &mut Sentinels, master: usize, replicas: &[usize]) -> Result<Option<Served>> {
    fleet.kill(master);
    replicas.iter().for_each(|&replica| fleet.resume(replica));
    let serves = another_serves(fleet, master)?;
    fleet.restart(master);
    Ok(Some(serves))
}

/// Freezes the master, resumes replicas, and resumes the master some time after the failover.
fn frozen(
    fleet: &Sentinels,
    master: usize,
    replicas: &[usize],
    random: &mut fastrand::Rng,
) -> Result<Option<Served>> {
    fleet.freeze(master);
    replicas.iter().for_each(|&replica| fleet.resume(replica));
    let serves = another_serves(fleet, master)?;
    last(random, 0..300);
    fleet.resume(master);
    Ok(Some(serves))
}

/// Cuts the replica off that the sentinels prefer, and kills the master. The other replica has all grants.
fn one_lags(fleet: &mut Sentinels, master: usize, random: &mut fastrand::Rng) -> Result<Option<Served>> {
    let replica = one_of(&fleet.replicas(), random)?;
    order(&fleet.nodes()[replica], &["CONFIG", "SET", "replica-priority", "1"])?;
    wait_until("the sentinels to prefer a replica", || prefers(fleet, replica))?;
    cut_off(&fleet.nodes()[master], std::iter::once(&fleet.nodes()[replica]))?;
    last(random, 300..800);
    let serves = killed(fleet, master, &[replica])?;
    order(&fleet.nodes()[replica], &["CONFIG", "SET", "replica-priority", "100"])?;
    Ok(serves)
}

fn prefers(fleet: &Sentinels, replica: usize) -> bool {
    let port = fleet.nodes()[replica].announced_port().to_string();
    fleet.sentinels().iter().all(|sentinel| {
        sentinel.command(&["SENTINEL", "REPLICAS", fleet.service()]).is_ok_and(|replicas| {
            let is_it = |one: &&leasehold_testkit::servers::Reply| one.field("port") == port;
            replicas.list().iter().find(is_it).is_some_and(|one| one.field("slave-priority") == "1")
        })
    })
}

/// Loses packets between the master and all other servers until another master serves, and some time longer.
fn cut(fleet: &Sentinels, master: usize, lost: Lost, random: &mut fastrand::Rng) -> Result<Option<Served>> {
    partitioned(fleet.nodes(), master, lost, random, || another_serves(fleet, master))
}

/// Waits until the sentinels name another master and it says that it is one.
fn another_serves(fleet: &Sentinels, master: usize) -> Result<Served> {
    let mut served = None;
    wait_until("another master", || {
        let other = fleet.agreed_master().filter(|&other| other != master);
        served = other.map(|other| &fleet.nodes()[other]).filter(|node| is_master(node)).map(Served::now);
        served.is_some()
    })?;
    served.context("no master was named")
}
