//! H1: a hold that was released before its minimum hold time, and confirmed, keeps all other owners out until then.
//!
//! Invariant: judged for confirmed releases only; a process that ends without one leaves its hold to its lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::ReleaseOutcome;
use leasehold_proto::Verb;

use super::Invariant;
use super::breaches::Breaches;
use crate::fault::Kind;
use crate::history::{Ending, Event, Hold, Op, Outcome, What, Wire, short};
use crate::recorder::View;

/// The part of a minimum hold time that is guaranteed, given the different rates of the clocks.
const DRIFT: f64 = 0.98;

#[derive(Default)]
pub(super) struct Rests {
    breaches: Breaches,
    /// The time at which the acquire of an owner was first sent.
    asked: BTreeMap<Wire, Duration>,
    last_asked: Option<Op>,
    /// The releases that are not confirmed yet.
    ending: BTreeMap<Op, Rest>,
    resting: Vec<Rest>,
}

struct Rest {
    name: Arc<str>,
    wire: Wire,
    since: Duration,
    until: Duration,
}

impl Invariant for Rests {
    fn id(&self) -> &'static str {
        "H1"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        match event {
            Event::Sent { verb: Verb::Acquire, wire, .. } => {
                self.asked.entry(Arc::clone(wire)).or_insert(view.now);
            }
            Event::Asked { op, what: What::Release, .. } => self.last_asked = Some(*op),
            // This ending belongs to the release that was requested just before.
            Event::Ending { hold, how: Ending::Release } => {
                if let (Some(op), Some(rest)) = (self.last_asked.take(), self.rest_of(view, *hold)) {
                    self.ending.insert(op, rest);
                }
            }
            Event::Answered { op, outcome } => {
                let rest = self.ending.remove(op);
                let confirmed = *outcome == Outcome::Released(ReleaseOutcome::Released);
                self.resting.extend(rest.filter(|_| confirmed));
            }
            Event::Executed { verb: Verb::Acquire, name, wire, before, after, .. } => {
                self.resting.retain(|rest| rest.until > view.now);
                let granted = after.is_held_by(wire) && !before.is_held_by(wire);
                let of_name = |rest: &&Rest| rest.name == *name && rest.wire != *wire;
                return match self.resting.iter().find(of_name) {
                    Some(rest) if granted && !self.excused(view, rest) => Err(format!(
                        "{} was granted {name}, which rests as {} until {:?}",
                        short(wire),
                        short(&rest.wire),
                        rest.until
                    )),
                    _ => Ok(()),
                };
            }
            _ => {}
        }
        Ok(())
    }
}

impl Rests {
    fn rest_of(&self, view: &View, hold: Hold) -> Option<Rest> {
        let hold = view.holds.get(&hold)?;
        let since = *self.asked.get(&hold.wire)?;
        let others = view.holds.values().filter(|other| other.wire == hold.wire).count() > 1;
        let until = since + hold.terms.least?.mul_f64(DRIFT);
        let rest = Rest { name: Arc::clone(&hold.name), wire: Arc::clone(&hold.wire), since, until };
        Some(rest).filter(|_| !others)
    }

    /// A jump of the clock of the process or of the server ends the minimum hold time early.
    fn excused(&self, view: &View, rest: &Rest) -> bool {
        let jumps = |kind| matches!(kind, Kind::ClockForward);
        let mut faults = view.plan.faults.iter();
        self.breaches.any_since(&rest.name, rest.since)
            || faults.any(|fault| jumps(fault.kind) && fault.begins >= rest.since && fault.begins <= view.now)
    }
}
