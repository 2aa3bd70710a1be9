//! Releases: taking a wire owner off the server, as a release that somebody waits for or as an undo that nobody does.
//!
//! Invariant: a wire owner that parts is burnt: it is not in any server hold, nothing renews it, it is never used again. A
//! release is tried until it is answered, or until the key has run out by itself. The undo of an acquire with an unknown
//! outcome has no such end: a server that was frozen for longer than the lease may still run that acquire.
//! Called by: the other parts of the engine, when a hold or an acquire ends.

use std::time::Duration;

use super::ticket::{AcquireFailure, CloseReport, Outcome, ReleaseFailure, Ticket};
use super::timer::Timer;
use super::{CallId, Engine, Id, LostReason, Purpose, Subject};
use crate::backoff;
use crate::call::Reply;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{Applied, FreeWithin, StoreError, StoreErrorKind, Verb};
use crate::owner::WireOwner;
use crate::recipe::{CallArgs, CallContext};

/// The pause between attempts that are not expected to succeed soon.
const SLOW: Duration = Duration::from_secs(2);
/// For how long a closed client goes on trying to release what it held.
const AFTER_CLOSE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Release {
    subject: Subject,
    lease: Lease,
    units: u32,
    /// When the key is gone even if no release ever arrives.
    gone_by: Moment,
    cause: Cause,
    call: Option<CallId>,
    failures: u32,
    /// An earlier attempt may have been applied, so "not held" may be its doing.
    uncertain: bool,
    last_error: Option<StoreError>,
    reports: Vec<Id>,
}

/// How a wire owner is released.
pub(super) struct ReleaseTerms {
    pub(super) lease: Lease,
    pub(super) units: u32,
    /// When the key is gone even if no release ever arrives.
    pub(super) gone_by: Moment,
    pub(super) cause: Cause,
    /// Who waits for the outcome.
    pub(super) reports: Vec<Id>,
}

impl ReleaseTerms {
    /// Of an acquire that nobody waits for, of which nothing is on its way any more.
    pub(super) const fn undo(lease: Lease, units: u32, gone_by: Moment, cause: Cause) -> Self {
        Self { lease, units, gone_by, cause, reports: Vec::new() }
    }
}

/// Why a wire owner is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// A hold ends.
    Release,
    /// A grant that came too late, or that nobody claimed or waited for; a place in a queue that is given up.
    UnseenGrant,
    /// An acquire that may or may not have run, and may still run: only an answer ends its undo.
    UnknownAcquire,
}

/// A client that is about to end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Closing {
    ids: Vec<Id>,
    released: u64,
    unconfirmed: u64,
    /// The report is out, and what is left has had its last chance.
    told: bool,
}

impl Closing {
    /// Whether everybody who closed has the report.
    pub(super) fn is_told(&self) -> bool {
        self.ids.is_empty()
    }
}

impl Engine {
    /// Takes a wire owner off the server, starting now.
    pub(super) fn begin_release(
        &mut self,
        now: Moment,
        wire: WireOwner,
        subject: &Subject,
        terms: ReleaseTerms,
    ) {
        let ReleaseTerms { lease, units, gone_by, cause, reports } = terms;
        // One call at a time acquires under a wire owner, and none once it parts: no grant arrives behind its undo.
        debug_assert!(!self.releases.contains_key(&wire), "{wire} parts twice");
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

    /// By when whatever is on its way now has arrived, or never will: its connection is closed after the timeout.
    pub(super) fn arrives_by(&self, now: Moment, on_its_way: bool) -> Moment {
        if on_its_way { now + self.settings.timeout } else { now }
    }

    /// Sends the release, unless it is on its way.
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
        let call = release.subject.recipe.release(&args);
        let call = self.run(call, Purpose::Release(wire));
        self.timers.clear(Timer::Release(wire));
        if let Some(release) = self.releases.get_mut(&wire) {
            release.call = Some(call);
        }
    }

    /// The answer to a release.
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
            subject.recipe.read_release(&reply).ok_or_else(|| subject.malformed(Verb::Release))
        });
        match answer {
            Ok(held) => {
                let held = held || release.uncertain;
                self.end_release(now, wire, Some(held));
            }
            // The key is something else's now.
            Err(error) if error.kind == StoreErrorKind::WrongType => {
                let held = release.uncertain;
                self.end_release(now, wire, Some(held));
            }
            Err(error) => self.release_failed(now, wire, error),
        }
    }

    /// An attempt failed. Those who wait are told at once of what does not pass by itself; the attempts go on.
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

    /// Those who wait for a release have waited for a timeout: they are told what is known.
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

    /// The release is over: `held` is the server's word, `None` when it never gave one.
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

    /// The client ends: waiters are refused, holds are lost and released.
    pub(super) fn close(&mut self, now: Moment, id: Id) {
        self.tickets.insert(id, Ticket::Pending);
        self.timers.set(Timer::Close, now + self.settings.timeout);
        if let Some(closing) = &mut self.closing {
            return closing.ids.push(id);
        }
        self.closing = Some(Closing { ids: vec![id], released: 0, unconfirmed: 0, told: false });
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
            self.rest(now, wire);
        }
        self.close_min_holds(now);
    }

    /// Tells the closer once everything is answered.
    pub(super) fn complete_close(&mut self) {
        if self.releases.is_empty() && self.calls.is_empty() {
            self.report_close();
        }
    }

    /// Tells the closer what is known.
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

    /// Closing has taken a timeout: the closer is told. After some more time what is left is left to its lease, so that
    /// a client whose server is gone ends too.
    pub(super) fn close_overdue(&mut self, now: Moment) {
        self.report_close();
        let Some(closing) = &mut self.closing else { return };
        if std::mem::replace(&mut closing.told, true) {
            self.releases.clear();
            self.min_holds.clear();
            self.calls.clear();
        } else {
            self.timers.set(Timer::Close, now + AFTER_CLOSE);
        }
    }
}

impl Release {
    /// When the key is gone even if no release ever arrives.
    pub(super) const fn gone_by(&self) -> Moment {
        self.gone_by
    }

    fn failure(&self, now: Moment) -> ReleaseFailure {
        let error = self.last_error.clone().unwrap_or_else(|| self.subject.timed_out(Verb::Release));
        ReleaseFailure { free_within: FreeWithin::until(self.gone_by, now), error }
    }
}
