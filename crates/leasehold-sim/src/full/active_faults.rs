//! The active faults and their combined effects.
//!
//! Invariant: the effects at any time follow from the faults that are active then, so two overlapping faults neither
//! undo each other nor outlast their ends.

use std::sync::Arc;

use leasehold_store::embedded::Condition;

use crate::clock::Clock;
use crate::fault::{Fault, Kind};
use crate::plan::Plan;

/// The active faults and the state of the world that they have changed.
pub(super) struct ActiveFaults {
    plan: Arc<Plan>,
    pub(super) clocks: Vec<Clock>,
    pub(super) active: Vec<usize>,
    pub(super) server_is_up: bool,
    pub(super) links: Vec<Link>,
    /// True if the process is up.
    pub(super) up: Vec<bool>,
    /// True if the users of the process are held up.
    pub(super) held_up: Vec<bool>,
}

/// The state of the link between a process and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    Healthy,
    RequestsLost,
    RepliesLost,
    /// All messages are late and arrive when the fault ends.
    Held,
    /// All messages are lost.
    Cut,
}

impl ActiveFaults {
    pub(super) fn new(plan: &Arc<Plan>, clocks: Vec<Clock>) -> Self {
        let hosts = plan.processes + plan.foreigners;
        Self {
            plan: Arc::clone(plan),
            clocks,
            active: Vec::new(),
            server_is_up: true,
            links: vec![Link::Healthy; hosts],
            up: vec![true; hosts],
            held_up: vec![false; hosts],
        }
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.active.iter().map(|index| &self.plan.faults[*index])
    }

    /// Returns true if a fault that matches is active on a process.
    pub(super) fn hits(&self, process: usize, which: impl Fn(&Fault) -> bool) -> bool {
        self.faults().any(|fault| fault.process == process && which(fault))
    }

    pub(super) fn link_of(&self, process: usize) -> Link {
        let links = self.faults().filter(|fault| fault.process == process).map(|fault| match fault.kind {
            Kind::Partition if loses(fault) => Link::Cut,
            Kind::Partition => Link::Held,
            Kind::RequestsStall if loses(fault) => Link::RequestsLost,
            Kind::RepliesStall if loses(fault) => Link::RepliesLost,
            _ => Link::Healthy,
        });
        links.max().unwrap_or(Link::Healthy)
    }

    pub(super) fn condition(&self) -> Option<Condition> {
        self.faults().find_map(|fault| match fault.kind {
            Kind::OutOfMemory => Some(Condition::OutOfMemory),
            Kind::ReadOnly => Some(Condition::ReadOnly),
            Kind::Busy => Some(Condition::Busy),
            _ => None,
        })
    }
}

/// Returns true if the messages that a fault stops are lost with their connection, or `false` if they are only late.
pub(super) const fn loses(fault: &Fault) -> bool {
    fault.chance & 1 == 1
}

pub(super) const fn takes_the_server_down(kind: Kind) -> bool {
    matches!(kind, Kind::Restart | Kind::RestartEmpty | Kind::Failover)
}
