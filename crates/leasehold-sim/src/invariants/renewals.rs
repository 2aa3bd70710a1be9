//! G5, D1, D2, D3: only claimed holds are renewed, one renewal at a time, in time, and not after their end.
//!
//! Invariant: judged by the calls that the client gives to its store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use super::multi::Gathering;
use crate::history::{Event, What};
use crate::owner::{Wire, short};
use crate::primitive::Primitive;
use crate::recorder::view::{LiveHold, View};

/// The delay after which a failed renewal is tried again, at most half a second plus the difference of the clocks.
const AGAIN_WITHIN: Duration = Duration::from_millis(550);

/// The time after which a client finds a server that has returned, at most half a second plus the difference of the clocks.
const FOUND_WITHIN: Duration = Duration::from_millis(550);

#[derive(Default)]
pub(super) struct Renewals {
    claimed: BTreeSet<Wire>,
    gathering: Gathering,
    released: BTreeSet<Wire>,
    /// The owners with a minimum hold time, which a renewal keeps after their last guard.
    min_holds: BTreeSet<Wire>,
    /// The owners of `min_holds` whose last guard has gone.
    holding_on: BTreeSet<Wire>,
    /// The time at which the last guard of an owner went.
    ended: BTreeMap<Wire, Duration>,
    /// The acquires without an answer, by call: the process, the name and the owner.
    acquiring: BTreeMap<u64, (usize, Arc<str>, Wire)>,
    /// The renewals without an answer, by call.
    under_way: BTreeMap<u64, Wire>,
    /// The questions of holds that pass on, without an answer, by call.
    asking: BTreeMap<u64, Wire>,
    /// The holds that were renewed or asked before their claim was seen, each with the time.
    unclaimed: BTreeMap<Wire, Duration>,
    /// The re-entries without an answer, by call.
    entering: BTreeMap<u64, Wire>,
    /// The last time at which the lease of an owner was requested.
    requested: BTreeMap<Wire, Duration>,
    /// The time of a failed renewal that no other has followed.
    failed: BTreeMap<Wire, Duration>,
}

impl Invariant for Renewals {
    fn id(&self) -> &'static str {
        "G5 D1 D2 D3"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.gathering.see(event);
        match event {
            Event::Claimed { hold, wire, .. } => {
                self.claimed.insert(wire.clone());
                self.unclaimed.remove(wire);
                self.requested.entry(wire.clone()).or_insert(view.now);
                self.ended.remove(wire);
                self.min_holds.extend(view.min_hold_owner(hold));
                self.holding_on.remove(wire);
            }
            Event::Ending { hold, .. } => {
                let Some(ending) = view.holds.get(hold) else { return Ok(()) };
                let others = view.holds.iter().any(|(id, other)| id != hold && other.wire == ending.wire);
                if !others && self.min_holds.contains(&ending.wire) {
                    self.holding_on.insert(ending.wire.clone());
                } else if !others {
                    self.ended.insert(ending.wire.clone(), view.now);
                }
            }
            // A close ends all guards of its process.
            Event::Requested { process, what: What::Close, .. } => {
                let closed = view.holds.values().filter(|hold| hold.process == *process);
                let kept = closed.map(|hold| &hold.wire).filter(|wire| self.min_holds.contains(*wire));
                self.holding_on.extend(kept.cloned());
            }
            Event::Sent { verb: Verb::Release, wire, count: Some(0), .. } => {
                self.released.insert(wire.clone());
            }
            Event::Sent { process, call, verb: Verb::Acquire, name, wire, .. } => {
                self.acquiring.insert(*call, (*process, Arc::clone(name), wire.clone()));
            }
            // One that looks as a re-entry does.
            Event::Sent { verb: Verb::Renew, name, call, wire, .. }
                if Primitive::of(name) == Primitive::PlainFenced =>
            {
                self.requested.insert(wire.clone(), view.now);
                self.entering.insert(*call, wire.clone());
            }
            Event::Sent { process, call, verb: Verb::Renew, name, wire, count: Some(0), .. } => {
                // An acquire of several names may have got the hold from the last guard.
                if self.gathering.takes(*process, name) {
                    self.ended.remove(wire);
                }
                return self.sent(view, *process, *call, wire);
            }
            Event::Sent { process, call, verb: Verb::HandOff, name, wire, .. } => {
                if self.gathering.takes(*process, name) {
                    self.ended.remove(wire);
                }
                return self.asked(view, *process, *call, wire);
            }
            Event::Sent { verb: Verb::Renew, call, wire, .. } => {
                // A re-entry renews too.
                self.requested.insert(wire.clone(), view.now);
                self.entering.insert(*call, wire.clone());
            }
            Event::Returned { call, applied, .. } => self.returned(view, *call, applied.is_some()),
            _ => {}
        }
        Ok(())
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        if let Some((wire, _)) = self.unclaimed.iter().find(|(_, at)| **at < view.now) {
            return Err(format!("G5: {} is renewed or asks without a claim", short(wire)));
        }
        view.holds.values().try_for_each(|hold| {
            self.tried_again(view, hold)?;
            self.in_time(view, hold)
        })
    }
}

impl Renewals {
    /// Notes the end of a call, which was answered or has failed.
    fn returned(&mut self, view: &View, call: u64, has_failed: bool) {
        // An acquire of several names claims each as soon as it is granted, by whichever attempt.
        if let Some((process, name, wire)) = self.acquiring.remove(&call)
            && self.gathering.takes(process, &name)
        {
            self.claimed.insert(wire);
        }
        if let Some(wire) = self.under_way.remove(&call).filter(|_| has_failed) {
            self.failed.insert(wire, view.now);
        }
        for calls in [&mut self.asking, &mut self.entering] {
            if let Some(wire) = calls.remove(&call).filter(|_| !has_failed) {
                self.failed.remove(&wire);
            }
        }
    }

    fn asked(&mut self, view: &View, process: usize, call: u64, wire: &Wire) -> Result<(), String> {
        self.expect_claim(view, wire);
        self.check_end(view, process, wire)?;
        if self.asking.values().any(|other| other == wire) {
            return Err(format!("D2: {} asks twice at once", short(wire)));
        }
        self.asking.insert(call, wire.clone());
        self.requested.insert(wire.clone(), view.now);
        Ok(())
    }

    /// Notes a call for a hold without a claim. The step that takes the claim may send a question, or the check of a
    /// replaced server, and the user has its guard right after.
    fn expect_claim(&mut self, view: &View, wire: &Wire) {
        if !self.claimed.contains(wire) {
            self.unclaimed.insert(wire.clone(), view.now);
        }
    }

    /// D3: a hold that has no guard any more is not renewed.
    fn check_end(&self, view: &View, process: usize, wire: &Wire) -> Result<(), String> {
        if self.released.contains(wire) {
            return Err(format!("D3: {} is renewed after its release was sent", short(wire)));
        }
        // A decision of the same moment may still be carried out, even after a pause of the process.
        let late =
            self.ended.get(wire).is_some_and(|ended| view.now - *ended > view.paused_since(process, *ended));
        if late {
            return Err(format!("D3: {} is renewed although its last guard has gone", short(wire)));
        }
        Ok(())
    }

    fn sent(&mut self, view: &View, process: usize, call: u64, wire: &Wire) -> Result<(), String> {
        self.expect_claim(view, wire);
        self.check_end(view, process, wire)?;
        // The watchdog's renewals have ended with the last guard. Later renewals keep the minimum hold time.
        if !self.holding_on.contains(wire) && self.under_way.values().any(|other| other == wire) {
            return Err(format!("D2: {} is renewed twice at once", short(wire)));
        }
        self.under_way.insert(call, wire.clone());
        self.failed.remove(wire);
        self.requested.insert(wire.clone(), view.now);
        Ok(())
    }

    /// Rule 7: a failed renewal is tried again within the lease.
    fn tried_again(&self, view: &View, hold: &LiveHold) -> Result<(), String> {
        let Some(failed_at) = self.failed.get(&hold.wire) else { return Ok(()) };
        let waited = (view.now - *failed_at).saturating_sub(view.paused_since(hold.process, *failed_at));
        if !hold.terms.watched || waited <= AGAIN_WITHIN || !view.seems_valid(hold) {
            return Ok(());
        }
        Err(format!("D1: a renewal of {} failed {waited:?} ago, and none followed", short(&hold.wire)))
    }

    /// D1: while no fault disturbs, a third of the lease passes at most between two renewals.
    fn in_time(&self, view: &View, hold: &LiveHold) -> Result<(), String> {
        let third = hold.terms.lease / 3;
        let slack = third / 50 + view.plan.latency_max * 4;
        let quiet = (third * 4).max(FOUND_WITHIN);
        if !hold.terms.watched || !view.is_quiet_for(quiet) || view.now - hold.since < third * 2 {
            return Ok(());
        }
        let paused = view.paused_since(hold.process, hold.since);
        let since = self.requested.get(&hold.wire).map_or(hold.since, |asked| *asked);
        if !paused.is_zero() || view.now.saturating_sub(since) <= third + slack || !view.seems_valid(hold) {
            return Ok(());
        }
        // A renewal that was sent while the network was slow keeps the next one back until it is answered or fails.
        let under_way = self.under_way.values().any(|wire| *wire == hold.wire);
        if under_way || self.failed.contains_key(&hold.wire) {
            return Ok(());
        }
        Err(format!("D1: {} was not renewed for {:?}", short(&hold.wire), view.now - since))
    }
}
