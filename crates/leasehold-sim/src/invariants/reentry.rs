//! R1, R2: n acquires need n releases, and the last release frees the lock, or hands it to a waiter of the same client.
//!
//! Invariant: judged by releases that were confirmed as made while the lock was held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold::ReleaseOutcome;
use leasehold_proto::Verb;

use super::breaches::Breaches;
use super::invariant::Invariant;
use super::requests::Requests;
use crate::history::{By, Ending, Event, Hold, Op, Outcome, What};
use crate::name_state::NameState;
use crate::owner::{Wire, short};
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct Reentry {
    states: BTreeMap<Arc<str>, Arc<NameState>>,
    /// The owners whose last guard is being released, by the hold.
    last: BTreeMap<Hold, (Arc<str>, Wire, Duration)>,
    requests: Requests,
    /// The releases that report their outcome.
    reports: BTreeMap<Op, Hold>,
    /// The owners with a detached hold or a minimum hold time, whose last release leaves the lock to its lease.
    kept: BTreeSet<Wire>,
    repeated: BTreeSet<Wire>,
    breaches: Breaches,
}

impl Invariant for Reentry {
    fn id(&self) -> &'static str {
        "R1 R2"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        Breaches::forget_changed(&mut self.states, event, view);
        self.requests.see(event, view);
        match event {
            Event::Executed { name, wire, verb, by, before, after, .. } => {
                self.states.insert(Arc::clone(name), Arc::clone(after));
                if matches!(by, By::Duplicate(_)) {
                    self.repeated.insert(Arc::clone(wire));
                }
                let freed = before.is_held_by(wire) && !after.is_held_by(wire);
                if *verb == Verb::Release && freed && !self.repeated.contains(wire) {
                    return freed_early(view, name, wire);
                }
            }
            Event::Requested { op, what: What::Release, .. } => {
                self.reports.insert(*op, Hold(0));
            }
            Event::Claimed { hold, .. } => self.kept.extend(view.min_hold_owner(hold)),
            Event::Ending { hold, how: Ending::Detach } => {
                self.kept.extend(view.holds.get(hold).map(|hold| hold.wire.clone()));
            }
            Event::Ending { hold, how: Ending::Release } => {
                let Some(ending) = view.holds.get(hold) else { return Ok(()) };
                let others = view.holds.iter().any(|(id, other)| id != hold && other.wire == ending.wire);
                let hands_over = self.requests.of(ending.process, &ending.name).next().is_some();
                if !others && !hands_over {
                    self.last.insert(*hold, (Arc::clone(&ending.name), Arc::clone(&ending.wire), view.now));
                }
                // This ending belongs to the release that was requested just before.
                if let Some(mut report) = self.reports.last_entry().filter(|report| *report.get() == Hold(0))
                {
                    *report.get_mut() = *hold;
                }
            }
            Event::Completed { op, outcome } => {
                let Some(hold) = self.reports.remove(op) else { return Ok(()) };
                let Some((name, wire, since)) = self.last.remove(&hold) else { return Ok(()) };
                // A stale replica that took over meanwhile has restored the hold.
                let freed = *outcome == Outcome::Released(ReleaseOutcome::Released)
                    && !self.breaches.any_or_apart_since(&name, since);
                let there = self.states.get(&name).is_some_and(|state| state.is_held_by(&wire));
                if freed && there && !self.repeated.contains(&wire) && !self.kept.contains(&wire) {
                    return Err(format!(
                        "{} has released {name} for the last time and still has it",
                        short(&wire)
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Checks that a release does not free a lock that other guards of the same owner hold.
fn freed_early(view: &View, name: &str, wire: &str) -> Result<(), String> {
    match view.valid_holds(name).find(|(_, hold)| *hold.wire == *wire) {
        None => Ok(()),
        Some((hold, _)) => Err(format!("a release has freed {name}, which hold {} still holds", hold.0)),
    }
}
