//! The topology: which server serves a name right now.
//!
//! Invariant: nothing that may have run is sent to another server. A topology moves a call only if the call was not sent,
//! or if a server has said that it did not run the call.

mod cluster;
mod lookup;
mod map;
mod sentinel;
mod slots;
#[cfg(test)]
mod tests;

use std::time::Duration;

use leasehold_proto::{Call, Channel, Moment, Scope};

use self::cluster::Cluster;
use self::sentinel::Sentinel;
use super::batch::PendingCall;
use super::ids::{CallId, NodeId, SubscriberId};
use super::io::Output;
use super::node::Parts;
use super::nodes::{Nodes, Turn};
use super::part::Part;
use super::report::Report;
use crate::redis::error::Failure;
use crate::url::Servers;

/// The servers of a client, by their parts.
#[derive(Debug)]
pub(super) enum Topology {
    /// One server that serves all names.
    One(NodeId),
    /// The master of a fleet, which sentinels name.
    Sentinel(Box<Sentinel>),
    /// The masters of a cluster, each with its slots.
    Cluster(Box<Cluster>),
}

impl Topology {
    pub(super) fn new(nodes: &mut Nodes, seed: u64) -> Self {
        match nodes.settings().url.servers.clone() {
            Servers::One(address) => Self::One(nodes.add(Part::Alone, Some(address))),
            Servers::Sentinel { sentinels, service, .. } => {
                Self::Sentinel(Box::new(Sentinel::new(nodes, service, sentinels, seed)))
            }
            Servers::Cluster { seeds } => Self::Cluster(Box::new(Cluster::new(nodes, seeds, seed))),
        }
    }

    /// Connects without a call, and reports the outcome.
    pub(super) fn open(&mut self, turn: &mut Turn<'_>) {
        match self {
            Self::Cluster(cluster) => cluster.open(turn),
            single => single.with_master(turn, |parts| {
                parts.commands.open(&mut parts.step);
            }),
        }
    }

    pub(super) fn submit(&mut self, turn: &mut Turn<'_>, id: CallId, call: Call, timeout: Duration) {
        match self {
            Self::Cluster(cluster) => cluster.submit(turn, id, call, timeout),
            single => single.with_master(turn, |parts| {
                parts.submit(id, call, timeout);
            }),
        }
    }

    pub(super) fn abandon(&mut self, turn: &mut Turn<'_>, id: CallId) {
        match self {
            Self::Cluster(cluster) => cluster.abandon(turn, id),
            single => single.with_master(turn, |parts| {
                parts.abandon(id);
            }),
        }
    }

    /// Takes a call back that waits for a server, with the reason.
    pub(super) fn withdraw(&mut self, id: CallId) -> Option<(PendingCall, Failure)> {
        match self {
            Self::Cluster(cluster) => cluster.withdraw(id),
            Self::One(_) | Self::Sentinel(_) => None,
        }
    }

    pub(super) fn subscribe(&mut self, turn: &mut Turn<'_>, id: SubscriberId, channel: Channel) {
        match self {
            Self::Cluster(cluster) => cluster.subscribe(turn, id, channel),
            single => single.with_master(turn, |parts| {
                parts.subscriptions.subscribe(&mut parts.step, id, channel);
            }),
        }
    }

    pub(super) fn unsubscribe(&mut self, turn: &mut Turn<'_>, id: SubscriberId, channel: &Channel) {
        match self {
            Self::Cluster(cluster) => cluster.unsubscribe(turn, id, channel),
            single => single.with_master(turn, |parts| {
                parts.subscriptions.unsubscribe(&mut parts.step, id, channel);
            }),
        }
    }

    /// Takes a step of the one server that serves all names.
    fn with_master(&self, turn: &mut Turn<'_>, act: impl FnOnce(&mut Parts<'_>)) {
        let master = match self {
            Self::One(node) => *node,
            Self::Sentinel(sentinel) => sentinel.master,
            Self::Cluster(_) => return,
        };
        turn.with(master, act);
    }

    /// Takes a report of a server.
    pub(super) fn reported(&mut self, turn: &mut Turn<'_>, node: NodeId, report: Report) {
        match self {
            Self::One(_) => {
                if matches!(report, Report::Opened { again: true, .. }) {
                    turn.outputs.push(Output::Replaced(Scope::All));
                }
            }
            Self::Sentinel(sentinel) => sentinel.reported(turn, node, report),
            Self::Cluster(cluster) => cluster.reported(turn, node, report),
        }
    }

    pub(super) fn tick(&mut self, turn: &mut Turn<'_>) {
        match self {
            Self::One(_) => {}
            Self::Sentinel(sentinel) => sentinel.tick(turn),
            Self::Cluster(cluster) => cluster.tick(turn),
        }
    }

    /// Ends all calls that no server has, and asks no server any more.
    pub(super) fn close(&mut self, turn: &mut Turn<'_>) {
        match self {
            Self::One(_) => {}
            Self::Sentinel(sentinel) => sentinel.close(),
            Self::Cluster(cluster) => cluster.close(turn),
        }
    }

    /// Returns the earliest time at which a tick may have something to do.
    pub(super) fn timer(&self) -> Moment {
        match self {
            Self::One(_) => Moment::NEVER,
            Self::Sentinel(sentinel) => sentinel.timer(),
            Self::Cluster(cluster) => cluster.timer(),
        }
    }
}
