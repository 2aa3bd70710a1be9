//! E, G6: an acquire that ends without a guard says truly what it has left behind.
//!
//! Invariant: judged for acquires that were the only one of their process and name in their time, since then the
//! questions of that time are theirs.
//! Called by: the recorder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::Invariant;
use super::breaches::Breaches;
use crate::fault::Kind;
use crate::history::{By, Event, Key, Op, Outcome, Wire, short};
use crate::recorder::View;

#[derive(Default)]
pub(super) struct Errors {
    breaches: Breaches,
    asking: BTreeMap<Op, Asking>,
    keys: BTreeMap<Arc<str>, Key>,
    /// Owners that must not be on the server any more, from when on.
    settled: Vec<(Duration, Arc<str>, Wire, &'static str)>,
}

struct Asking {
    process: usize,
    name: Arc<str>,
    wires: BTreeSet<Wire>,
    alone: bool,
}

impl Invariant for Errors {
    fn id(&self) -> &'static str {
        "E G6"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        match event {
            Event::Asked { op, process, name, what, .. } if what.acquires() => self.asks(*op, *process, name),
            Event::Sent { process, verb: Verb::Acquire, name, wire, .. } => {
                let asking = self.asking.values_mut();
                for asking in asking.filter(|asking| asking.process == *process && asking.name == *name) {
                    asking.wires.insert(Arc::clone(wire));
                }
            }
            Event::Answered { op, outcome } => {
                if let Some(asking) = self.asking.remove(op).filter(|asking| asking.alone) {
                    self.answered(view, &asking, outcome);
                }
            }
            Event::Dropped { op } => {
                self.asking.remove(op);
            }
            Event::Killed { process } => self.asking.retain(|_, asking| asking.process != *process),
            Event::Executed { name, wire, by, after, .. } => {
                self.keys.insert(Arc::clone(name), after.clone());
                if matches!(by, By::Duplicate(_)) {
                    // A network that repeats a request brings back what was settled.
                    self.settled.retain(|(_, _, settled, _)| settled != wire);
                }
            }
            _ => {}
        }
        self.look(view)
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for (from, name, wire, said) in &self.settled {
            let there = self.keys.get(name).is_some_and(|key| key.is_held_by(wire) && !expired(key, view));
            if view.now > *from && there && !self.breaches.any_since(name, Duration::ZERO) {
                return Err(format!("{} stands on {name}, although its acquire ended as {said}", short(wire)));
            }
        }
        Ok(())
    }
}

impl Errors {
    fn asks(&mut self, op: Op, process: usize, name: &Arc<str>) {
        let mut alone = true;
        for other in self.asking.values_mut().filter(|other| other.process == process && other.name == *name) {
            (other.alone, alone) = (false, false);
        }
        let asking = Asking { process, name: Arc::clone(name), wires: BTreeSet::new(), alone };
        self.asking.insert(op, asking);
    }

    fn answered(&mut self, view: &View, asking: &Asking, outcome: &Outcome) {
        let (within, said) = match outcome {
            Outcome::NotApplied(_) => (Duration::ZERO, "not acquired"),
            // Its last question may be on its way; what that takes is given back, or runs out.
            Outcome::Contended => (view.plan.longest_lease().mul_f64(1.01) + view.plan.timeout, "contended"),
            // A server that stood still may run it later; then the undo follows, which is said in the docs.
            Outcome::Unknown(within, _) if !freezes(view) => (within.mul_f64(1.006), "unknown, free by now"),
            _ => return,
        };
        let from = view.now + within + Duration::from_millis(1);
        let held: BTreeSet<&Wire> = view.holds.values().map(|hold| &hold.wire).collect();
        let wires = asking.wires.iter().filter(|wire| !held.contains(wire));
        self.settled.extend(wires.map(|wire| (from, Arc::clone(&asking.name), Arc::clone(wire), said)));
    }
}

fn freezes(view: &View) -> bool {
    view.plan.faults.iter().any(|fault| matches!(fault.kind, Kind::ServerFreeze | Kind::ServerClockBack))
}

/// By the server's clock.
fn expired(key: &Key, view: &View) -> bool {
    let says = view.server_clock.says(view.now).as_millis();
    key.expires_at_ms.is_some_and(|at| u128::from(at) <= says)
}
