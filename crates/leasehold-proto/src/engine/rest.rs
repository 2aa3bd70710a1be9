//! Rests: holds that were given back before their least time was over, and that the server keeps until then.
//!
//! Invariant: a rest is nobody's hold: no guard has it, no owner re-enters it, and its lease is extended at most to its
//! end. The release that ends it is sent when the time is over and not before.
//! Called by: the tenure, when its last hold is given back; the engine's step, for answers and timers; a close, which
//! leaves what rests to its lease.

use std::time::Duration;

use super::ticket::{ReleaseFailure, Settlement};
use super::timer::Timer;
use super::undo::{Cause, Leaving};
use super::{CallId, Engine, Id, Purpose, Subject};
use crate::backoff;
use crate::call::Reply;
use crate::lease::{LEASE_MAX, Lease};
use crate::moment::Moment;
use crate::outcome::{FreeWithin, StoreError, Verb};
use crate::owner::WireOwner;
use crate::recipe::{Ask, Renewal};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rest {
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

impl Rest {
    /// Whether the server keeps it to its end by itself.
    fn is_certain(&self) -> bool {
        self.expires_at >= self.until
    }

    fn failure(&self, now: Moment, error: StoreError) -> ReleaseFailure {
        ReleaseFailure { free_within: FreeWithin::until(self.subject.gone_by(self.longest, now), now), error }
    }
}

impl Engine {
    /// Puts a wire owner to rest, which is in no tenure any more.
    pub(super) fn begin_rest(&mut self, now: Moment, wire: WireOwner, mut rest: Rest) {
        // One lease is all there is: what is to rest for longer would never be certain, and be extended without end.
        rest.until = rest.until.min(now + LEASE_MAX);
        let (until, subject) = (rest.until, rest.subject.clone());
        self.rests.insert(wire, rest);
        self.timers.set(Timer::Rest(wire), until);
        self.rest(now, wire);
        self.ask_unless_held_here(now, &subject);
    }

    /// Looks what a rest needs now: its end, more of a lease, or nothing.
    pub(super) fn rest(&mut self, now: Moment, wire: WireOwner) {
        let Some(rest) = self.rests.get_mut(&wire) else {
            return;
        };
        if now >= rest.until {
            return self.end_rest(now, wire);
        }
        if rest.is_certain() {
            self.timers.set(Timer::Rest(wire), rest.until);
            return self.settle_rest(wire, &Ok(true));
        }
        if rest.call.is_some() {
            return;
        }
        // A lease has no fractions of a millisecond.
        let lease = Lease::clamped(rest.until.since(now) + Duration::from_millis(1));
        rest.longest = rest.longest.max(lease);
        let ask = Ask::new(&rest.subject, wire, lease).count(0).units(rest.units);
        let call = rest.subject.recipe.renew(&ask);
        let call = self.run(call, Purpose::Rest { wire, sent_at: now, lease });
        if let Some(rest) = self.rests.get_mut(&wire) {
            rest.call = Some(call);
        }
    }

    /// The answer to the extension of a rest.
    pub(super) fn rested(
        &mut self,
        now: Moment,
        call: CallId,
        (wire, sent_at, lease): (WireOwner, Moment, Lease),
        result: Result<Reply, StoreError>,
    ) {
        let Some(rest) = self.rests.get_mut(&wire) else {
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
                self.settle_rest(wire, &Ok(false));
                self.forget_rest(wire);
            }
            Err(error) => self.not_rested(now, wire, error),
        }
        self.close_rests(now);
    }

    /// The lease could not be extended: whoever waits is told, and it is tried again.
    fn not_rested(&mut self, now: Moment, wire: WireOwner, error: StoreError) {
        let Some(rest) = self.rests.get_mut(&wire) else {
            return;
        };
        let pause = backoff::after_failures(rest.failures, wire.seed());
        rest.failures += 1;
        let again = (now + pause).min(rest.until);
        let failure = rest.failure(now, error);
        self.timers.set(Timer::Rest(wire), again);
        self.settle_rest(wire, &Err(failure));
    }

    /// The time is over: released like any other hold.
    fn end_rest(&mut self, now: Moment, wire: WireOwner) {
        let Some(rest) = self.forget_rest(wire) else {
            return;
        };
        if rest.kept {
            return rest
                .reports
                .into_iter()
                .for_each(|id| self.settle_if_wanted(id, Settlement::Released(Ok(true))));
        }
        let gone_by = rest.subject.gone_by(rest.longest, self.arrives_by(now, rest.call.is_some()));
        let leaving = Leaving {
            lease: rest.longest,
            units: rest.units,
            gone_by,
            cause: Cause::Release,
            reports: rest.reports,
        };
        self.begin_parting(now, wire, &rest.subject, leaving);
    }

    /// After a close nothing is tried twice: what is certain, or has had its one attempt, is left to its lease.
    pub(super) fn close_rests(&mut self, now: Moment) {
        if self.closing.is_none() {
            return;
        }
        let done: Vec<WireOwner> =
            self.rests.iter().filter(|(_, rest)| rest.call.is_none()).map(|(wire, _)| *wire).collect();
        for wire in done {
            if let Some(rest) = self.forget_rest(wire) {
                let failure = rest.failure(now, rest.subject.timed_out(Verb::Renew));
                for id in rest.reports {
                    self.settle_if_wanted(id, Settlement::Released(Err(failure.clone())));
                }
            }
        }
    }

    fn settle_rest(&mut self, wire: WireOwner, outcome: &Result<bool, ReleaseFailure>) {
        let reports = self.rests.get_mut(&wire).map(|rest| std::mem::take(&mut rest.reports));
        for id in reports.into_iter().flatten() {
            self.settle_if_wanted(id, Settlement::Released(outcome.clone()));
        }
    }

    fn forget_rest(&mut self, wire: WireOwner) -> Option<Rest> {
        self.timers.clear(Timer::Rest(wire));
        self.rests.remove(&wire)
    }
}
