//! Minimum holds: released holds that the server keeps until their minimum hold time is over.
//!
//! Invariant: a minimum hold belongs to no owner. No guard has it, no owner re-enters it, and its lease is extended at
//! most to its end. The release that ends it is sent when the time is over and not before.

use std::time::Duration;

use super::release::ReleaseTerms;
use super::state::{Cause, MinHold, Purpose};
use super::timer::Timer;
use super::{CallId, Engine, Outcome, ReleaseFailure};
use crate::backoff;
use crate::call::Reply;
use crate::lease::{LEASE_MAX, Lease};
use crate::moment::Moment;
use crate::outcome::{FreeWithin, StoreError, Verb};
use crate::owner::WireOwner;
use crate::recipe::{CallArgs, Renewal};

impl MinHold {
    /// Returns true if the server keeps the minimum hold to its end without another call.
    fn is_certain(&self) -> bool {
        self.expires_at >= self.until
    }

    fn failure(&self, now: Moment, error: StoreError) -> ReleaseFailure {
        ReleaseFailure { free_within: FreeWithin::until(self.subject.gone_by(self.longest, now), now), error }
    }
}

impl Engine {
    /// Begins the minimum hold of a wire owner that is in no server hold any more.
    pub(super) fn begin_min_hold(&mut self, now: Moment, wire: WireOwner, mut min_hold: MinHold) {
        // The time is capped at the longest lease, because a longer minimum hold would never be certain, and would be
        // extended without end.
        min_hold.until = min_hold.until.min(now + LEASE_MAX);
        let (until, subject) = (min_hold.until, min_hold.subject.clone());
        self.min_holds.insert(wire, min_hold);
        self.timers.set(Timer::MinHold(wire), until);
        self.advance_min_hold(now, wire);
        self.attempt_unless_held_here(now, &subject);
    }

    /// Ends a minimum hold, extends its lease, or only sets its timer, as the current time requires.
    pub(super) fn advance_min_hold(&mut self, now: Moment, wire: WireOwner) {
        let Some(min_hold) = self.min_holds.get_mut(&wire) else {
            return;
        };
        if now >= min_hold.until {
            return self.end_min_hold(now, wire);
        }
        if min_hold.is_certain() {
            self.timers.set(Timer::MinHold(wire), min_hold.until);
            return self.complete_min_hold(wire, &Ok(true));
        }
        if min_hold.call.is_some() {
            return;
        }
        // A lease has no fractions of a millisecond, so the time is rounded up.
        let lease = Lease::clamped(min_hold.until.since(now) + Duration::from_millis(1));
        min_hold.longest = min_hold.longest.max(lease);
        let args = CallArgs::new(&min_hold.subject, wire, lease).count(0).units(min_hold.units);
        let call = (min_hold.subject.recipe.renew)(&args);
        let call = self.run(call, Purpose::MinHold { wire, sent_at: now, lease });
        if let Some(min_hold) = self.min_holds.get_mut(&wire) {
            min_hold.call = Some(call);
        }
    }

    /// Handles the answer to the extension of a minimum hold.
    pub(super) fn min_hold_extended(
        &mut self,
        now: Moment,
        call: CallId,
        (wire, sent_at, lease): (WireOwner, Moment, Lease),
        result: Result<Reply, StoreError>,
    ) {
        let Some(min_hold) = self.min_holds.get_mut(&wire) else {
            return;
        };
        if min_hold.call.take_if(|sent| *sent == call).is_none() {
            return;
        }
        match min_hold.subject.read_renewed(result) {
            Ok(Renewal::Renewed) => {
                min_hold.expires_at = min_hold.expires_at.max(sent_at + lease.duration());
                min_hold.failures = 0;
                self.advance_min_hold(now, wire);
            }
            // The hold was taken away on the server, so there is nothing left to keep.
            Ok(Renewal::Gone | Renewal::TakenOver) => {
                self.complete_min_hold(wire, &Ok(false));
                self.forget_min_hold(wire);
            }
            Err(error) => self.min_hold_not_extended(now, wire, error),
        }
        self.close_min_holds(now);
    }

    /// Handles an extension that failed. Reports the failure to the waiting releases and retries later.
    fn min_hold_not_extended(&mut self, now: Moment, wire: WireOwner, error: StoreError) {
        let Some(min_hold) = self.min_holds.get_mut(&wire) else {
            return;
        };
        let pause = backoff::after_failures(min_hold.failures, wire.seed());
        min_hold.failures += 1;
        let again = (now + pause).min(min_hold.until);
        let failure = min_hold.failure(now, error);
        self.timers.set(Timer::MinHold(wire), again);
        self.complete_min_hold(wire, &Err(failure));
    }

    /// Ends a minimum hold whose time is over, by a release like that of any other hold.
    fn end_min_hold(&mut self, now: Moment, wire: WireOwner) {
        let Some(min_hold) = self.forget_min_hold(wire) else {
            return;
        };
        if min_hold.detached {
            return min_hold
                .reports
                .into_iter()
                .for_each(|id| self.complete_if_wanted(id, Outcome::Released(Ok(true))));
        }
        let gone_by =
            min_hold.subject.gone_by(min_hold.longest, self.arrives_by(now, min_hold.call.is_some()));
        let terms = ReleaseTerms {
            lease: min_hold.longest,
            units: min_hold.units,
            gone_by,
            cause: Cause::Release,
            reports: min_hold.reports,
        };
        self.begin_release(now, wire, &min_hold.subject, terms);
    }

    /// Ends the minimum holds of a closed client. A close makes at most one attempt for each. A minimum hold that is
    /// certain, or has had its attempt, is left to its lease.
    pub(super) fn close_min_holds(&mut self, now: Moment) {
        if self.closing.is_none() {
            return;
        }
        let done: Vec<WireOwner> = self
            .min_holds
            .iter()
            .filter(|(_, min_hold)| min_hold.call.is_none())
            .map(|(wire, _)| *wire)
            .collect();
        for wire in done {
            if let Some(min_hold) = self.forget_min_hold(wire) {
                let failure = min_hold.failure(now, min_hold.subject.timed_out(Verb::Renew));
                for id in min_hold.reports {
                    self.complete_if_wanted(id, Outcome::Released(Err(failure.clone())));
                }
            }
        }
    }

    fn complete_min_hold(&mut self, wire: WireOwner, outcome: &Result<bool, ReleaseFailure>) {
        let reports = self.min_holds.get_mut(&wire).map(|min_hold| std::mem::take(&mut min_hold.reports));
        for id in reports.into_iter().flatten() {
            self.complete_if_wanted(id, Outcome::Released(outcome.clone()));
        }
    }

    fn forget_min_hold(&mut self, wire: WireOwner) -> Option<MinHold> {
        self.timers.clear(Timer::MinHold(wire));
        self.min_holds.remove(&wire)
    }
}
