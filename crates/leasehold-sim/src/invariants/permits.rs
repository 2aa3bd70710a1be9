//! S1 to S4, P1 to P5: no permit appears from nothing or is lost, even if calls repeat, and at most the total is held at
//! once.
//!
//! Invariant: judged for each script by the available and the acquired permits before and after it, for permits granted
//! while the server keeps its data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::breaches::Breaches;
use super::invariant::Invariant;
use crate::history::{By, Event};
use crate::name_state::NameState;
use crate::owner::{Wire, short};
use crate::primitive::Primitive;
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct Permits {
    breaches: Breaches,
    /// The owners whose release the network has repeated.
    repeated: BTreeSet<Wire>,
    /// The total of permits.
    totals: BTreeMap<Arc<str>, i64>,
    /// The time of the last reduction of the total. Earlier holders then hold more than the total.
    lowered: BTreeMap<Arc<str>, Duration>,
}

impl Invariant for Permits {
    fn id(&self) -> &'static str {
        "S1 S2 S3 S4 P1 P2 P4 P5"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        match event {
            Event::Executed { verb, name, wire, by, before, after, .. }
                if Primitive::of(name).has_permits() =>
            {
                self.totals.insert(Arc::clone(name), total(after));
                if total(after) < total(before) {
                    self.lowered.insert(Arc::clone(name), view.now);
                }
                let expirable = Primitive::of(name) == Primitive::Permits;
                if after.value.is_some_and(|left| left < 0) && !expirable {
                    return Err(format!(
                        "S1: after {verb} there are less than no permits of {name}: {after}"
                    ));
                }
                if *verb == Verb::Adjust {
                    return adjusted(name, wire, before, after);
                }
                // If the server knows nothing of the acquire, the first attempt of a release goes by the word of its
                // client. A byte stream repeats nothing, and the client marks its own repetitions.
                if matches!(by, By::Duplicate(_)) && *verb == Verb::Release && !expirable {
                    self.repeated.insert(Arc::clone(wire));
                }
                let repeated = *verb == Verb::Release && self.repeated.contains(wire);
                if total(before) != total(after) && !repeated && !self.breaches.excuse(name, wire) {
                    let id = if expirable { "P1" } else { "S2" };
                    return Err(format!(
                        "{id}: {verb} of {} by {by:?} left {} of {} permits of {name}: {before}, then {after}",
                        short(wire),
                        total(after),
                        total(before)
                    ));
                }
                return ends(view, name, by, before, after);
            }
            Event::Claimed { hold, .. } => {
                let Some(name) = view.holds.get(hold).map(|hold| Arc::clone(&hold.name)) else {
                    return Ok(());
                };
                if Primitive::of(&name).has_permits() {
                    return self.enough(view, &name);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Permits {
    /// S3: the permits that users hold do not exceed the total.
    fn enough(&self, view: &View, name: &Arc<str>) -> Result<(), String> {
        let holds = view.valid_holds(name).filter(|(_, hold)| !self.breaches.excuse(name, &hold.wire));
        let held: i64 = holds.map(|(_, hold)| i64::from(hold.units)).sum();
        let total = self.totals.get(name).copied().unwrap_or_default();
        // A hold that began before the reduction counts permits that existed then, although a user who was not polled
        // claimed it later.
        let lowered = self.lowered.get(name).copied().unwrap_or_default();
        let within = |process: usize| view.plan.timeout + view.paused_since(process, lowered);
        let before = view.valid_holds(name).any(|(_, hold)| hold.since <= lowered + within(hold.process));
        let before = before && lowered > Duration::ZERO;
        if held <= total || before || self.breaches.any_since(name, Duration::ZERO) {
            return Ok(());
        }
        Err(format!("S3: {held} permits of {name} are held, of {total}"))
    }
}

/// Returns the available plus the acquired permits.
fn total(state: &NameState) -> i64 {
    state.value.unwrap_or_default() + state.taken()
}

/// S4: an operation that was answered changes nothing again, and an applied operation is remembered.
fn adjusted(name: &str, operation: &str, before: &NameState, after: &NameState) -> Result<(), String> {
    let known = |state: &NameState| state.answered.iter().any(|(known, _)| **known == *operation);
    let same = before.value == after.value && before.holders == after.holders;
    if known(before) && !same {
        return Err(format!("S4: {operation} was applied to {name} twice: {before}, then {after}"));
    }
    if !same && !known(after) {
        return Err(format!(
            "S4: {operation} was applied to {name}, and nothing remembers it: {before}, then {after}"
        ));
    }
    Ok(())
}

/// P5: a new permit ends by the server's clock, within the longest lease.
fn ends(view: &View, name: &str, by: &By, before: &NameState, after: &NameState) -> Result<(), String> {
    let longest = u64::try_from(view.plan.longest_lease().as_millis()).unwrap_or(u64::MAX);
    let now_ms = view.now_ms();
    let new = after.holders.iter().filter(|holder| !before.holders.contains(holder));
    let mut ends = new.filter_map(|holder| holder.until_ms);
    match ends.find(|until| *until > now_ms + longest || *until <= now_ms) {
        Some(until) => {
            Err(format!("P5: a permit of {name} by {by:?} is to end at {until}, and it is {now_ms}"))
        }
        None => Ok(()),
    }
}
