//! H1: a hold that was released before its minimum hold time, and confirmed, keeps all other owners out until then.
//!
//! Invariant: judged for confirmed releases only. A process that ends without a release leaves its hold to its lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::ReleaseOutcome;
use leasehold_proto::Verb;

use super::breaches::Breaches;
use super::invariant::Invariant;
use crate::fault::Kind;
use crate::history::{Ending, Event, Hold, Op, Outcome, What};
use crate::owner::{Wire, short};
use crate::recorder::view::View;

/// The part of a minimum hold time that is guaranteed, given the different rates of the clocks.
const DRIFT: f64 = 0.98;

#[derive(Default)]
pub(super) struct MinHolds {
    breaches: Breaches,
    /// The time at which the acquire of an owner was first sent.
    requested_at: BTreeMap<Wire, Duration>,
    last_requested: Option<Op>,
    /// The releases that are not confirmed yet.
    ending: BTreeMap<Op, MinHold>,
    holding_on: Vec<MinHold>,
}

struct MinHold {
    name: Arc<str>,
    wire: Wire,
    since: Duration,
    until: Duration,
}

impl Invariant for MinHolds {
    fn id(&self) -> &'static str {
        "H1"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        match event {
            Event::Sent { verb: Verb::Acquire, wire, .. } => {
                self.requested_at.entry(Arc::clone(wire)).or_insert(view.now);
            }
            Event::Requested { op, what: What::Release, .. } => self.last_requested = Some(*op),
            // This ending belongs to the release that was requested just before.
            Event::Ending { hold, how: Ending::Release } => {
                if let (Some(op), Some(min_hold)) =
                    (self.last_requested.take(), self.min_hold_of(view, *hold))
                {
                    self.ending.insert(op, min_hold);
                }
            }
            Event::Completed { op, outcome } => {
                let min_hold = self.ending.remove(op);
                let confirmed = *outcome == Outcome::Released(ReleaseOutcome::Released);
                self.holding_on.extend(min_hold.filter(|_| confirmed));
            }
            Event::Executed { verb: Verb::Acquire, name, wire, before, after, .. } => {
                self.holding_on.retain(|min_hold| min_hold.until > view.now);
                let granted = after.is_held_by(wire) && !before.is_held_by(wire);
                let of_name = |min_hold: &&MinHold| min_hold.name == *name && min_hold.wire != *wire;
                return match self.holding_on.iter().find(of_name) {
                    Some(min_hold) if granted && !self.excused(view, min_hold) => Err(format!(
                        "{} was granted {name}, which rests as {} until {:?}",
                        short(wire),
                        short(&min_hold.wire),
                        min_hold.until
                    )),
                    _ => Ok(()),
                };
            }
            _ => {}
        }
        Ok(())
    }
}

impl MinHolds {
    fn min_hold_of(&self, view: &View, hold: Hold) -> Option<MinHold> {
        let hold = view.holds.get(&hold)?;
        let since = *self.requested_at.get(&hold.wire)?;
        let others = view.holds.values().filter(|other| other.wire == hold.wire).count() > 1;
        let until = since + hold.terms.min_hold?.mul_f64(DRIFT);
        let min_hold = MinHold { name: Arc::clone(&hold.name), wire: Arc::clone(&hold.wire), since, until };
        Some(min_hold).filter(|_| !others)
    }

    /// Returns true if a clock jump or a breach explains the early end.
    fn excused(&self, view: &View, min_hold: &MinHold) -> bool {
        let jumps = |kind| matches!(kind, Kind::ClockForward);
        let mut faults = view.plan.faults.iter();
        self.breaches.any_or_apart_since(&min_hold.name, min_hold.since)
            || faults
                .any(|fault| jumps(fault.kind) && fault.begins >= min_hold.since && fault.begins <= view.now)
    }
}
