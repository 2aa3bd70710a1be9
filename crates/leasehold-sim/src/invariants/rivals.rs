//! L4: the queues of one client take turns. While a waiter waits for names that are free but for another queue of its own
//! client, that queue gets a bounded number of grants.
//!
//! Invariant: a grant is counted by its wire owner, since a hold that passes on within its bound is one grant. Only
//! waiters that are woken are judged, and writers only beside writers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::invariant::Invariant;
use crate::history::{Event, Hold, Op, What};
use crate::owner::Wire;
use crate::primitive::{Primitive, overlap};
use crate::recorder::view::View;

/// The most grants to other queues of the client. Each is a race that the waiter wins mostly, since the other queue
/// stands back for two round trips.
const PASSED_MAX: usize = 24;

#[derive(Default)]
pub(super) struct Rivals {
    asked: BTreeMap<Op, Asked>,
    /// The names that are held or kept, after the last call.
    taken: BTreeSet<Arc<str>>,
}

/// An acquire that has not ended.
struct Asked {
    process: usize,
    names: Arc<str>,
    reads: bool,
    /// The wire owners of the grants that passed it.
    passed: BTreeSet<Wire>,
}

impl Asked {
    fn shares_queue(&self, other: &Self) -> bool {
        self.names == other.names && self.reads == other.reads
    }

    /// Returns true if the acquire waits in one queue, and is woken.
    fn is_judged(&self) -> bool {
        let are_together = self.names.contains(' ');
        self.names.split(' ').all(|name| match Primitive::of(name) {
            Primitive::Lock | Primitive::Plain => !are_together || name.starts_with('{'),
            Primitive::Fenced | Primitive::Hybrid | Primitive::PlainFenced | Primitive::ReadWrite => {
                !are_together
            }
            _ => false,
        })
    }
}

impl Invariant for Rivals {
    fn id(&self) -> &'static str {
        "L4"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Requested { op, process, name, what: What::Lock | What::LockAll, .. } => {
                let asked =
                    Asked { process: *process, names: in_order(name), reads: false, passed: BTreeSet::new() };
                self.asked.insert(*op, asked);
            }
            Event::Reads { op } => {
                if let Some(asked) = self.asked.get_mut(op) {
                    asked.reads = true;
                }
            }
            Event::Completed { op, .. } | Event::Dropped { op } => drop(self.asked.remove(op)),
            Event::Killed { process } => self.asked.retain(|_, asked| asked.process != *process),
            Event::Executed { name, after, .. } if after.is_free() => drop(self.taken.remove(name)),
            Event::Executed { name, .. } => drop(self.taken.insert(Arc::clone(name))),
            Event::Fault { .. } => self.asked.values_mut().for_each(|asked| asked.passed.clear()),
            Event::Claimed { hold, op, wire, .. } if view.is_quiet_for(view.plan.timeout) => {
                return self.claimed(*hold, *op, wire, view);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Rivals {
    fn claimed(&mut self, hold: Hold, op: Op, wire: &Wire, view: &View) -> Result<(), String> {
        let Some(winner) = self.asked.remove(&op).filter(|winner| !winner.reads) else { return Ok(()) };
        let Some(held) = view.holds.get(&hold).map(|hold| Arc::clone(&hold.name)) else { return Ok(()) };
        let mut starved = None;
        for (waiting, asked) in &mut self.asked {
            let is_rival = asked.process == winner.process
                && asked.is_judged()
                && !asked.shares_queue(&winner)
                && overlap(&asked.names, &held);
            let mut others = asked.names.split(' ').filter(|name| **name != *held);
            if is_rival && !others.any(|name| self.taken.contains(name)) {
                asked.passed.insert(wire.clone());
                if asked.passed.len() > PASSED_MAX {
                    starved = Some(*waiting);
                }
            }
        }
        self.asked.insert(op, winner);
        starved.map_or(Ok(()), |waiting| {
            Err(format!(
                "op {} waits for {held}, and {PASSED_MAX} grants of its own client passed it",
                waiting.0
            ))
        })
    }
}

/// Returns the names of an acquire in one order, which decides its queue.
fn in_order(names: &str) -> Arc<str> {
    let mut names: Vec<&str> = names.split(' ').collect();
    names.sort_unstable();
    names.join(" ").into()
}
