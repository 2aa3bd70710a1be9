//! The faults of a cluster.

use anyhow::{Context, Result, bail};
use leasehold_testkit::fleets::Cluster;

use super::steps::{cut_off, is_master, last, one_of, reset_connections};
use crate::clock::now;
use crate::fault::Fault;
use crate::fleet::wait_until;
use crate::policy::TAG;

/// The number of moves of a slot, there and back.
const MOVES: usize = 10;

/// Injects a fault. Returns the time at which all slots were served again, if it is not that of the settled cluster.
pub(super) fn inject(cluster: &mut Cluster, fault: Fault, random: &mut fastrand::Rng) -> Result<Option<u64>> {
    let slot = cluster.slot_of_key(&format!("{{{TAG}}}"));
    let master = cluster.node_of_slot(slot);
    let replicas = cluster.replicas_of(master);
    match fault {
        Fault::MasterKilled => failover(cluster, master, false, End::Killed, random),
        Fault::LagThenKilled => failover(cluster, master, true, End::Killed, random),
        Fault::MasterFrozen => failover(cluster, master, false, End::Frozen, random),
        Fault::LagThenFrozen => failover(cluster, master, true, End::Frozen, random),
        Fault::FailoverByHand => {
            cluster.failover(one_of(&replicas, random)?, None);
            Ok(Some(now()))
        }
        Fault::FailoverForced => {
            let replica = one_of(&replicas, random)?;
            cluster.nodes()[replica].command(&["CLIENT", "KILL", "TYPE", "master"])?;
            cluster.failover(replica, Some("TAKEOVER"));
            Ok(Some(now()))
        }
        Fault::ReplicaKilled => {
            let replica = one_of(&replicas, random)?;
            cluster.kill(replica);
            last(random, 100..800);
            cluster.restart(replica);
            Ok(None)
        }
        Fault::ConnectionsReset => {
            reset_connections(cluster.nodes().iter().filter(|node| node.is_up())).map(|()| None)
        }
        Fault::SlotMoved => moved(cluster, slot, random).map(|()| None),
        Fault::NodeAddedAndRemoved => {
            let node = cluster.add_node();
            // A new node takes no keys before it knows that the cluster serves.
            cluster.wait_until_settled();
            cluster.move_slot(slot, node);
            last(random, 100..500);
            cluster.remove_node(node);
            Ok(None)
        }
        Fault::RollingRestart => rolling_restart(cluster).map(|()| None),
        other => bail!("a cluster cannot have the fault {other:?}"),
    }
}

/// The end of a master.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    Frozen,
}

/// Ends a master, waits until a replica has taken over, and brings the node back.
fn failover(
    cluster: &mut Cluster,
    master: usize,
    lag: bool,
    end: End,
    random: &mut fastrand::Rng,
) -> Result<Option<u64>> {
    let replicas = cluster.replicas_of(master);
    if lag {
        cut_all_off(cluster, master, &replicas, random)?;
    }
    match end {
        End::Killed => cluster.kill(master),
        End::Frozen => cluster.freeze(master),
    }
    if lag {
        replicas.iter().for_each(|&replica| cluster.resume(replica));
    }
    let serves = one_serves(cluster, &replicas)?;
    match end {
        End::Killed => cluster.restart(master),
        End::Frozen => {
            last(random, 0..300);
            cluster.resume(master);
        }
    }
    Ok(Some(serves))
}

fn cut_all_off(
    cluster: &Cluster,
    master: usize,
    replicas: &[usize],
    random: &mut fastrand::Rng,
) -> Result<()> {
    cut_off(&cluster.nodes()[master], replicas.iter().map(|&replica| &cluster.nodes()[replica]))?;
    last(random, 400..1000);
    Ok(())
}

/// Moves a slot with locks to another master and back, several times.
fn moved(cluster: &Cluster, slot: u16, random: &mut fastrand::Rng) -> Result<()> {
    let home = cluster.node_of_slot(slot);
    let others: Vec<_> = cluster.masters().into_iter().filter(|&master| master != home).collect();
    let away = one_of(&others, random)?;
    for round in 0..MOVES {
        cluster.move_slot(slot, if round % 2 == 0 { away } else { home });
        last(random, 5..60);
    }
    Ok(())
}

fn rolling_restart(cluster: &mut Cluster) -> Result<()> {
    for master in cluster.masters() {
        let replica = *cluster.replicas_of(master).first().context("a master has no replica")?;
        cluster.restart(replica);
        cluster.wait_until_settled();
        cluster.failover(replica, None);
        cluster.wait_until_settled();
        cluster.restart(master);
        cluster.wait_until_settled();
    }
    Ok(())
}

/// Waits until one of the replicas is a master.
fn one_serves(cluster: &Cluster, replicas: &[usize]) -> Result<u64> {
    wait_until("a replica to take over", || {
        replicas.iter().any(|&replica| is_master(&cluster.nodes()[replica]))
    })
}
