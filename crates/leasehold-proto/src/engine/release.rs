//! Releases and undos. A release removes a hold from the server and reports to its caller. An undo removes a hold that
//! no caller received.
//!
//! Invariant: a wire owner under release is never used again. It is in no server hold and nothing renews it. A release
//! is retried until it is answered, or until the key has run out by itself. The undo of an acquire with an unknown
//! outcome has no such end, because a server that was frozen for longer than the lease may still run that acquire.

use std::time::Duration;

use super::state::{Cause, Closing, Purpose, Release, Ticket};
use super::timer::Timer;
use super::{AcquireFailure, CallId, CloseReport, Engine, Id, LostReason, Outcome, ReleaseFailure, Subject};
use crate::backoff;
use crate::call::Reply;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{Applied, FreeWithin, StoreError, StoreErrorKind, Verb};
use crate::owner::WireOwner;
use crate::recipe::{CallArgs, CallContext};

/// The pause between attempts that are not expected to succeed soon.
const SLOW: Duration = Duration::from_secs(2);
/// The time for which a closed client continues to retry its releases, counted from the timeout of the close.
const AFTER_CLOSE: Duration = Duration::from_secs(30);

/// The terms of a release or undo.
pub(super) struct ReleaseTerms {
    pub(super) lease: Lease,
    pub(super) units: u32,
    /// The time by which the key is gone even if no release ever arrives.
    pub(super) gone_by: Moment,
    pub(super) cause: Cause,
    /// The tickets that wait for the outcome.
    pub(super) reports: Vec<Id>,
}

impl ReleaseTerms {
    /// Creates the terms of an undo, when no caller waits for the acquire and no call of the acquire is in flight.
    pub(super) const fn undo(lease: Lease, units: u32, gone_by: Moment, cause: Cause) -> Self {
        Self { lease, units, gone_by, cause, reports: Vec::new() }
    }
}

impl Closing {
    /// Returns true if every close has its report.
    pub(super) fn is_reported(&self) -> bool {
        self.ids.is_empty()
    }
}

impl Engine {
    /// Removes a wire owner from the server, starting now.
    pub(super) fn begin_release(
        &mut self,
        now: Moment,
        wire: WireOwner,
        subject: &Subject,
        terms: ReleaseTerms,
    ) {
        let ReleaseTerms { lease, units, gone_by, cause, reports } = terms;
        // At most one acquire under a wire owner is in flight, and none once its release begins, so no grant arrives
        // behind its undo.
        debug_assert!(!self.releases.contains_key(&wire), "{wire} is released twice");
        let release = Release {
            subject: subject.clone(),
            lease,
            units,
            gone_by,
            cause,
            call: None,
            failures: 0,
            uncertain: false,
            last_error: None,
            reports,
        };
        self.releases.insert(wire, release);
        self.timers.set(Timer::Report(wire), now + self.settings.timeout);
        self.send_release(now, wire);
    }

    /// Returns the time by which an in-flight call has arrived or never will, because its connection is closed after
    /// the timeout.
    pub(super) fn arrives_by(&self, now: Moment, on_its_way: bool) -> Moment {
        if on_its_way { now + self.settings.timeout } else { now }
    }

    /// Sends the release, unless it is in flight.
    pub(super) fn send_release(&mut self, now: Moment, wire: WireOwner) {
        let Some(release) = self.releases.get(&wire) else {
            return;
        };
        if release.call.is_some() {
            return;
        }
        if now >= release.gone_by && release.cause != Cause::UnknownAcquire {
            return self.end_release(now, wire, None);
        }
        let granted = release.cause == Cause::Release;
        let uncertain = release.uncertain || release.cause == Cause::UnknownAcquire;
        let context = CallContext { granted, uncertain, ..CallContext::default() };
        let args = CallArgs::new(&release.subject, wire, release.lease).count(0).units(release.units);
        let args = CallArgs { context, ..args };
        let call = (release.subject.recipe.release)(&args);
        let call = self.run(call, Purpose::Release(wire));
        self.timers.clear(Timer::Release(wire));
        if let Some(release) = self.releases.get_mut(&wire) {
            release.call = Some(call);
        }
    }

    /// Handles the answer to a release.
    pub(super) fn release_answered(
        &mut self,
        now: Moment,
        call: CallId,
        wire: WireOwner,
        result: Result<Reply, StoreError>,
    ) {
        let Some(release) = self.releases.get_mut(&wire) else {
            return;
        };
        if release.call.take_if(|sent| *sent == call).is_none() {
            return;
        }
        let subject = release.subject.clone();
        let answer = result.and_then(|reply| {
            (subject.recipe.read_release)(&reply).ok_or_else(|| subject.malformed(Verb::Release))
        });
        match answer {
            Ok(held) => {
                let held = held || release.uncertain;
                self.end_release(now, wire, Some(held));
            }
            // The key has another type now.
            Err(error) if error.kind == StoreErrorKind::WrongType => {
                let held = release.uncertain;
                self.end_release(now, wire, Some(held));
            }
            Err(error) => self.release_failed(now, wire, error),
        }
    }

    /// Handles a failed attempt. A failure that is not transient is reported at once, and the attempts continue.
    fn release_failed(&mut self, now: Moment, wire: WireOwner, error: StoreError) {
        let Some(release) = self.releases.get_mut(&wire) else { return };
        release.failures += 1;
        release.uncertain |= error.applied == Applied::Unknown;
        let passes = error.kind.is_transient();
        let mut pause = backoff::after_failures(release.failures - 1, wire.seed());
        if !passes || now >= release.gone_by {
            pause = pause.max(SLOW);
        }
        release.last_error = Some(error);
        self.timers.set(Timer::Release(wire), now + pause);
        if !passes {
            self.report_overdue(now, wire);
        }
    }

    /// Reports to the waiting callers what is known about the release.
    pub(super) fn report_overdue(&mut self, now: Moment, wire: WireOwner) {
        let Some(release) = self.releases.get_mut(&wire) else {
            return;
        };
        let reports = std::mem::take(&mut release.reports);
        let failure = release.failure(now);
        for id in reports {
            self.complete_if_wanted(id, Outcome::Released(Err(failure.clone())));
        }
    }

    /// Ends the release. `held` is the server's answer, or `None` when the server never gave an answer.
    fn end_release(&mut self, now: Moment, wire: WireOwner, held: Option<bool>) {
        let Some(release) = self.releases.remove(&wire) else {
            return;
        };
        self.timers.clear(Timer::Report(wire));
        self.timers.clear(Timer::Release(wire));
        let outcome = held.ok_or_else(|| release.failure(now));
        for id in release.reports {
            self.complete_if_wanted(id, Outcome::Released(outcome.clone()));
        }
        if let Some(closing) = self.closing.as_mut().filter(|_| release.cause == Cause::Release) {
            match held {
                Some(_) => closing.released += 1,
                None => closing.unconfirmed += 1,
            }
        }
        self.attempt_unless_held_here(now, &release.subject);
    }

    /// Closes the client, fails its waiters, and loses and releases its holds.
    pub(super) fn close(&mut self, now: Moment, id: Id) {
        self.tickets.insert(id, Ticket::Pending);
        self.timers.set(Timer::Close, now + self.settings.timeout);
        if let Some(closing) = &mut self.closing {
            return closing.ids.push(id);
        }
        self.closing = Some(Closing { ids: vec![id], released: 0, unconfirmed: 0, timed_out: false });
        let acquires: Vec<Id> = self
            .tickets
            .iter()
            .filter(|(_, ticket)| matches!(ticket, Ticket::Acquire(_)))
            .map(|(id, _)| *id)
            .collect();
        for acquire in acquires {
            self.fail(now, acquire, AcquireFailure::Closed);
        }
        self.end_operations();
        let server_holds: Vec<WireOwner> = self.server_holds.keys().copied().collect();
        for wire in server_holds {
            self.lose(now, wire, LostReason::Closed);
        }
        let min_holds: Vec<WireOwner> = self.min_holds.keys().copied().collect();
        for wire in min_holds {
            self.advance_min_hold(now, wire);
        }
        self.close_min_holds(now);
    }

    /// Reports the close once every call is answered and every release is over.
    pub(super) fn complete_close(&mut self) {
        if self.releases.is_empty() && self.calls.is_empty() {
            self.report_close();
        }
    }

    /// Reports to each caller of close what is known.
    fn report_close(&mut self) {
        let Some(closing) = &mut self.closing else { return };
        let ids = std::mem::take(&mut closing.ids);
        let open = self.releases.values().filter(|release| release.cause == Cause::Release).count();
        let unconfirmed = closing.unconfirmed + u64::try_from(open).unwrap_or(u64::MAX);
        let report = CloseReport { released: closing.released, unconfirmed };
        for id in ids {
            self.complete_if_wanted(id, Outcome::Closed(report.clone()));
        }
    }

    /// Reports a close that has taken a whole timeout. After a further period it leaves what remains to its lease, so
    /// that a client whose server is gone ends too.
    pub(super) fn close_overdue(&mut self, now: Moment) {
        self.report_close();
        let Some(closing) = &mut self.closing else { return };
        if std::mem::replace(&mut closing.timed_out, true) {
            self.releases.clear();
            self.min_holds.clear();
            self.calls.clear();
        } else {
            self.timers.set(Timer::Close, now + AFTER_CLOSE);
        }
    }
}

impl Release {
    /// Returns the time by which the key is gone even if no release ever arrives.
    pub(super) const fn gone_by(&self) -> Moment {
        self.gone_by
    }

    fn failure(&self, now: Moment) -> ReleaseFailure {
        let error = self.last_error.clone().unwrap_or_else(|| self.subject.timed_out(Verb::Release));
        ReleaseFailure { free_within: FreeWithin::until(self.gone_by, now), error }
    }
}
