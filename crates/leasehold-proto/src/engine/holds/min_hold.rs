//! Minimum holds: released holds that the server keeps until their minimum hold time is over.
//!
//! Invariant: a minimum hold belongs to no owner. No guard has it, no owner re-enters it, and its lease is extended at
//! most to its end. The release that ends it is sent when the time is over and not before. A primitive that can shorten a
//! lease does so, and then the lock opens in time without its client.

use std::time::Duration;

use crate::backoff;
use crate::engine::base::certain::{Certain, HELD, IN_PHASE};
use crate::engine::base::context::Purpose;
use crate::engine::base::keys::Number;
use crate::engine::effect::Effect;
use crate::engine::holds::Holds;
use crate::engine::holds::calls::HoldCall;
use crate::engine::holds::hold::{Cause, MinHold, Phase, ServerHold};
use crate::engine::holds::renewal::read_renewed;
use crate::engine::{Outcome, ReleaseFailure};
use crate::lease::{LEASE_MAX, Lease};
use crate::moment::Moment;
use crate::outcome::{FreeWithin, StoreError, Verb};
use crate::recipe::{CallArgs, Renewal};
use crate::reply::Reply;

impl ServerHold {
    const fn min_hold(&self) -> Option<&MinHold> {
        match &self.phase {
            Phase::MinHold(min_hold) => Some(min_hold),
            _ => None,
        }
    }
}

impl Holds {
    /// Begins the minimum hold of a hold that no guard has any more.
    pub(in crate::engine) fn begin_min_hold(&mut self, now: Moment, number: Number, until: Moment) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        // The time is capped at the longest lease, because a longer minimum hold would never be certain, and would be
        // extended without end.
        let min_hold = hold.as_min_hold(until.min(now + LEASE_MAX));
        let queue = hold.queue();
        hold.phase = Phase::MinHold(Box::new(min_hold));
        self.advance_min_hold(now, number);
        self.cx.raise(Effect::Freed(queue));
    }

    /// Ends a minimum hold, extends its lease, or only sets its timer, as the current time requires.
    pub(in crate::engine) fn advance_min_hold(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let Some(&MinHold { until, is_short, .. }) = hold.min_hold().certain(IN_PHASE) else { return };
        if now >= until {
            return self.end_min_hold(now, number);
        }
        if is_short && hold.expires_at >= until {
            // The server keeps it to its end without another call.
            hold.again_at = until;
            self.arm(number);
            return self.report_min_hold(number, &Ok(true));
        }
        if hold.call.is_some() {
            hold.again_at = until;
            return self.arm(number);
        }
        // A lease has no fractions of a millisecond, so the time is rounded up.
        let lease = Lease::clamped(until.since(now) + Duration::from_millis(1));
        hold.longest = hold.longest.max(lease);
        let units = hold.units;
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let subject = self.cx.subject_of(hold);
        let args = CallArgs::new(&subject, self.cx.wire(number), lease).count(0).units(units);
        let set_lease = if is_short { None } else { subject.recipe.expire };
        let call = subject.confirmed(set_lease.unwrap_or(subject.recipe.renew)(&args), hold.replicas);
        let call = self.cx.send(call, Purpose::Hold(HoldCall::Change(number)));
        if let Some(hold) = self.index.get_mut(number) {
            (hold.call, hold.again_at) = (Some(call), until);
            if let Phase::MinHold(min_hold) = &mut hold.phase {
                min_hold.sent = Some((now, lease));
            }
        }
        self.arm(number);
    }

    /// Handles the answer to the extension of a minimum hold.
    pub(in crate::engine) fn min_hold_extended(
        &mut self,
        now: Moment,
        number: Number,
        result: Result<Reply, StoreError>,
    ) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let Phase::MinHold(min_hold) = &mut hold.phase else { return };
        let Some((sent_at, lease)) = min_hold.sent.take() else {
            debug_assert!(false, "a call of a minimum hold extends it");
            return;
        };
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        match read_renewed(&self.cx.subject_of(hold), result) {
            Ok(Renewal::Renewed) => {
                if let Some(hold) = self.index.get_mut(number) {
                    hold.expires_at = sent_at + lease.duration();
                    hold.failures = 0;
                    if let Phase::MinHold(min_hold) = &mut hold.phase {
                        min_hold.is_short = true;
                    }
                }
                self.advance_min_hold(now, number);
            }
            // The hold was taken away on the server, so there is nothing left to keep.
            Ok(Renewal::Gone | Renewal::TakenOver) => {
                self.report_min_hold(number, &Ok(false));
                self.leave_to_lease(number);
            }
            Err(error) => self.min_hold_not_extended(now, number, error),
        }
        if self.cx.closed {
            self.close_min_hold(now, number);
        }
    }

    /// Handles an extension that failed. Reports the failure to the waiting releases and retries later.
    fn min_hold_not_extended(&mut self, now: Moment, number: Number, error: StoreError) {
        let seed = self.cx.seed(number);
        let failure = self.min_hold_failure(now, number, error);
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let until = hold.min_hold().map_or(now, |min_hold| min_hold.until);
        hold.again_at = (now + backoff::after_failures(hold.failures.into(), seed)).min(until);
        hold.failures = hold.failures.saturating_add(1);
        self.report_min_hold(number, &Err(failure));
    }

    fn min_hold_failure(&self, now: Moment, number: Number, error: StoreError) -> ReleaseFailure {
        ReleaseFailure { free_within: FreeWithin::until(self.gone_by(now, number, false), now), error }
    }

    /// Ends a minimum hold whose time is over, by a release like that of any other hold.
    fn end_min_hold(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        if hold.min_hold().is_some_and(|min_hold| min_hold.detached) {
            self.report_min_hold(number, &Ok(true));
            return self.leave_to_lease(number);
        }
        let on_its_way = hold.stop();
        let gone_by = self.gone_by(now, number, on_its_way);
        self.begin_release(now, number, gone_by, Cause::Release);
    }

    /// Ends a minimum hold of a closed client. A close makes at most one attempt for each. A minimum hold that is
    /// certain, or has had its attempt, is left to its lease.
    pub(in crate::engine) fn close_min_hold(&mut self, now: Moment, number: Number) {
        let idle = |hold: &&ServerHold| hold.min_hold().is_some() && hold.call.is_none();
        let Some(hold) = self.index.get(number).filter(idle) else { return };
        let error = self.cx.subject_of(hold).timed_out(Verb::Renew);
        let failure = self.min_hold_failure(now, number, error);
        self.report_min_hold(number, &Err(failure));
        self.leave_to_lease(number);
    }

    fn report_min_hold(&mut self, number: Number, outcome: &Result<bool, ReleaseFailure>) {
        let reports = self.index.get_mut(number).map(|hold| hold.reports.take());
        self.cx.report(reports.into_iter().flatten(), &Outcome::Released(outcome.clone()));
    }
}
