//! Rests: holds that were given back before their least time was over, and that the server keeps until then.
//!
//! Invariant: a rest is nobody's hold: no guard has it, no owner re-enters it, and its lease is extended at most to its
//! end. The release that ends it is sent when the time is over and not before.
//! Called by: the server hold, when its last hold is given back; the engine's step, for answers and timers; a close, which
//! leaves what rests to its lease.

use std::time::Duration;

use super::release::{Cause, ReleaseTerms};
use super::ticket::{Outcome, ReleaseFailure};
use super::timer::Timer;
use super::{CallId, Engine, Id, Purpose, Subject};
use crate::backoff;
use crate::call::Reply;
use crate::lease::{LEASE_MAX, Lease};
use crate::moment::Moment;
use crate::outcome::{FreeWithin, StoreError, Verb};
use crate::owner::WireOwner;
use crate::recipe::{CallArgs, Renewal};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct MinHold {
    pub(super) subject: Subject,
    pub(super) units: u32,
    /// Whether it is left to its lease when it is over.
    pub(super) kept: bool,
    /// When it is over.
    pub(super) until: Moment,
    /// When the key ends by the last confirmation, by the earliest reckoning.
    pub(super) expires_at: Moment,
    /// The longest lease that any call has asked for.
    pub(super) longest: Lease,
    /// Who waits for the rest to be certain.
    pub(super) reports: Vec<Id>,
    pub(super) call: Option<CallId>,
    pub(super) failures: u32,
}

impl MinHold {
    /// Whether the server keeps it to its end by itself.
    fn is_certain(&self) -> bool {
        self.expires_at >= self.until
    }

    fn failure(&self, now: Moment, error: StoreError) -> ReleaseFailure {
        ReleaseFailure { free_within: FreeWithin::until(self.subject.gone_by(self.longest, now), now), error }
    }
}

impl Engine {
    /// Puts a wire owner to rest, which is in no server hold any more.
    pub(super) fn begin_min_hold(&mut self, now: Moment, wire: WireOwner, mut rest: MinHold) {
        // One lease is all there is: what is to rest for longer would never be certain, and be extended without end.
        rest.until = rest.until.min(now + LEASE_MAX);
        let (until, subject) = (rest.until, rest.subject.clone());
        self.min_holds.insert(wire, rest);
        self.timers.set(Timer::MinHold(wire), until);
        self.rest(now, wire);
        self.attempt_unless_held_here(now, &subject);
    }

    /// Looks what a rest needs now: its end, more of a lease, or nothing.
    pub(super) fn rest(&mut self, now: Moment, wire: WireOwner) {
        let Some(rest) = self.min_holds.get_mut(&wire) else {
            return;
        };
        if now >= rest.until {
            return self.end_min_hold(now, wire);
        }
        if rest.is_certain() {
            self.timers.set(Timer::MinHold(wire), rest.until);
            return self.complete_min_hold(wire, &Ok(true));
        }
        if rest.call.is_some() {
            return;
        }
        // A lease has no fractions of a millisecond.
        let lease = Lease::clamped(rest.until.since(now) + Duration::from_millis(1));
        rest.longest = rest.longest.max(lease);
        let args = CallArgs::new(&rest.subject, wire, lease).count(0).units(rest.units);
        let call = rest.subject.recipe.renew(&args);
        let call = self.run(call, Purpose::MinHold { wire, sent_at: now, lease });
        if let Some(rest) = self.min_holds.get_mut(&wire) {
            rest.call = Some(call);
        }
    }

    /// The answer to the extension of a rest.
    pub(super) fn min_hold_extended(
        &mut self,
        now: Moment,
        call: CallId,
        (wire, sent_at, lease): (WireOwner, Moment, Lease),
        result: Result<Reply, StoreError>,
    ) {
        let Some(rest) = self.min_holds.get_mut(&wire) else {
            return;
        };
        if rest.call.take_if(|sent| *sent == call).is_none() {
            return;
        }
        match rest.subject.read_renewed(result) {
            Ok(Renewal::Renewed) => {
                rest.expires_at = rest.expires_at.max(sent_at + lease.duration());
                rest.failures = 0;
                self.rest(now, wire);
            }
            // Somebody took it away; there is nothing left to keep.
            Ok(Renewal::Gone | Renewal::TakenOver) => {
                self.complete_min_hold(wire, &Ok(false));
                self.forget_min_hold(wire);
            }
            Err(error) => self.min_hold_not_extended(now, wire, error),
        }
        self.close_min_holds(now);
    }

    /// The lease could not be extended: whoever waits is told, and it is tried again.
    fn min_hold_not_extended(&mut self, now: Moment, wire: WireOwner, error: StoreError) {
        let Some(rest) = self.min_holds.get_mut(&wire) else {
            return;
        };
        let pause = backoff::after_failures(rest.failures, wire.seed());
        rest.failures += 1;
        let again = (now + pause).min(rest.until);
        let failure = rest.failure(now, error);
        self.timers.set(Timer::MinHold(wire), again);
        self.complete_min_hold(wire, &Err(failure));
    }

    /// The time is over: released like any other hold.
    fn end_min_hold(&mut self, now: Moment, wire: WireOwner) {
        let Some(rest) = self.forget_min_hold(wire) else {
            return;
        };
        if rest.kept {
            return rest
                .reports
                .into_iter()
                .for_each(|id| self.complete_if_wanted(id, Outcome::Released(Ok(true))));
        }
        let gone_by = rest.subject.gone_by(rest.longest, self.arrives_by(now, rest.call.is_some()));
        let terms = ReleaseTerms {
            lease: rest.longest,
            units: rest.units,
            gone_by,
            cause: Cause::Release,
            reports: rest.reports,
        };
        self.begin_release(now, wire, &rest.subject, terms);
    }

    /// After a close nothing is tried twice: what is certain, or has had its one attempt, is left to its lease.
    pub(super) fn close_min_holds(&mut self, now: Moment) {
        if self.closing.is_none() {
            return;
        }
        let done: Vec<WireOwner> =
            self.min_holds.iter().filter(|(_, rest)| rest.call.is_none()).map(|(wire, _)| *wire).collect();
        for wire in done {
            if let Some(rest) = self.forget_min_hold(wire) {
                let failure = rest.failure(now, rest.subject.timed_out(Verb::Renew));
                for id in rest.reports {
                    self.complete_if_wanted(id, Outcome::Released(Err(failure.clone())));
                }
            }
        }
    }

    fn complete_min_hold(&mut self, wire: WireOwner, outcome: &Result<bool, ReleaseFailure>) {
        let reports = self.min_holds.get_mut(&wire).map(|rest| std::mem::take(&mut rest.reports));
        for id in reports.into_iter().flatten() {
            self.complete_if_wanted(id, Outcome::Released(outcome.clone()));
        }
    }

    fn forget_min_hold(&mut self, wire: WireOwner) -> Option<MinHold> {
        self.timers.clear(Timer::MinHold(wire));
        self.min_holds.remove(&wire)
    }
}
