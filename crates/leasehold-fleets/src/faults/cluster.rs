//! The faults of a cluster.

use anyhow::{Context, Result, bail};
use leasehold_testkit::fleets::Cluster;

use super::steps::{Served, cut_off, last, one_of, partitioned, reset_connections};
use crate::fault::Fault;
use crate::fleet::{is_master, wait_until};
use crate::network::Lost;
use crate::policy::TAG;
use crate::workers::Workers;

/// The number of moves of a slot, there and back.
const MOVES: usize = 50;

/// Injects a fault. Returns the time at which all slots were served again, if it is not that of the settled cluster.
pub(super) fn inject(
    cluster: &mut Cluster,
    workers: &Workers,
    fault: Fault,
    random: &mut fastrand::Rng,
) -> Result<Option<Served>> {
    let slot = cluster.slot_of_key(&format!("{{{TAG}}}"));
    let master = cluster.node_of_slot(slot);
    let replicas = cluster.replicas_of(master);
    match fault {
        Fault::MasterKilled => failover(cluster, workers, master, (false, End::Killed), random),
        Fault::LagThenKilled => failover(cluster, workers, master, (true, End::Killed), random),
        Fault::MasterFrozen => failover(cluster, workers, master, (false, End::Frozen), random),
        Fault::LagThenFrozen => failover(cluster, workers, master, (true, End::Frozen), random),
        Fault::MasterDeaf => cut(cluster, master, Lost::ToNode, random),
        Fault::MasterMute => cut(cluster, master, Lost::FromNode, random),
        Fault::FailoverByHand => {
            let replica = one_of(&replicas, random)?;
            cluster.failover(replica, None);
            Ok(Some(Served::now(&cluster.nodes()[replica])))
        }
        Fault::FailoverForced => {
            let replica = one_of(&replicas, random)?;
            cluster.nodes()[replica].command(&["CLIENT", "KILL", "TYPE", "master"])?;
            cluster.failover(replica, Some("TAKEOVER"));
            Ok(Some(Served::now(&cluster.nodes()[replica])))
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
        Fault::RestartedEmpty => {
            cluster.restart_empty(master);
            // The node takes no writes for two seconds after its start.
            wait_until("the node that restarted to serve", || cluster.is_settled())?;
            let served = Served::now(&cluster.nodes()[master]);
            // A client looks again for a hold of its own within a twelfth of a lease, so that no hold is lost in the next
            // fault because of this one.
            last(random, 500..600);
            Ok(Some(served))
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

/// Ends a master, perhaps after a lag of its replicas, waits until a replica has taken over, and brings the node back.
///
/// All clients of a cluster see the end of a master at one instant, and ask for the new one in step. So half of the
/// workers are frozen for a moment when the new master serves. They then hold locks that they have not asked about yet.
fn failover(
    cluster: &mut Cluster,
    workers: &Workers,
    master: usize,
    (lag, end): (bool, End),
    random: &mut fastrand::Rng,
) -> Result<Option<Served>> {
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
    workers.pause_half(random)?;
    match end {
        End::Killed => cluster.restart(master),
        End::Frozen => {
            last(random, 0..300);
            cluster.resume(master);
        }
    }
    Ok(Some(serves))
}

/// Loses packets between a master and all other nodes until a replica has taken over, and some time longer.
fn cut(cluster: &Cluster, master: usize, lost: Lost, random: &mut fastrand::Rng) -> Result<Option<Served>> {
    let replicas = cluster.replicas_of(master);
    partitioned(cluster.nodes(), master, lost, random, || one_serves(cluster, &replicas))
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
        // A node that a busy machine made a replica meanwhile has none.
        let Some(replica) = cluster.replicas_of(master).first().copied() else { continue };
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
fn one_serves(cluster: &Cluster, replicas: &[usize]) -> Result<Served> {
    let mut served = None;
    wait_until("a replica to take over", || {
        let nodes = replicas.iter().map(|&replica| &cluster.nodes()[replica]);
        served = nodes.filter(|node| is_master(node)).map(Served::now).next();
        served.is_some()
    })?;
    served.context("no replica took over")
}
