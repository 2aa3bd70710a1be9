//! Releases and undos. A release removes a hold from the server and reports to its caller. An undo removes one that no
//! caller received.
//!
//! Invariant: a wire owner under release is never used again, and nothing renews it. A release is retried until it is
//! answered, or until the key has run out by itself. The undo of an acquire with an unknown outcome has no such end,
//! because a server that was frozen for longer than the lease may still run that acquire.

use std::time::Duration;

use crate::backoff;
use crate::engine::base::certain::{Certain, HELD, IN_PHASE};
use crate::engine::base::context::Purpose;
use crate::engine::base::keys::{Number, Side, Sides};
use crate::engine::effect::{Effect, Released};
use crate::engine::holds::Holds;
use crate::engine::holds::calls::HoldCall;
use crate::engine::holds::hold::{Cause, Phase, Release, ServerHold};
use crate::engine::{CallId, Outcome, ReleaseFailure};
use crate::marker::MARKED_FOR;
use crate::moment::Moment;
use crate::outcome::{Applied, FreeWithin, StoreError, StoreErrorKind, Verb};
use crate::recipe::{CallArgs, CallContext, ReleaseAnswer};
use crate::reply::Reply;

/// The pause between attempts that are not expected to succeed soon: after an error that only an operator ends, or when
/// the key has run out by itself, so nobody waits for them.
const SLOW: Duration = Duration::from_secs(2);
/// The longest such pause, after minutes. The holds of a long outage then cost little until the server is back.
const SLOWEST: Duration = Duration::from_secs(30);

impl ServerHold {
    /// Returns the release or undo under way.
    pub(in crate::engine) const fn release(&self) -> Option<&Release> {
        match &self.phase {
            Phase::Releasing(release) => Some(release),
            _ => None,
        }
    }

    /// Returns true if only an answer ends a release or an undo. A frozen server may run an acquire or a renewal of
    /// unknown outcome whenever it resumes, a place in its queue lives on with the other places of this client, and a read
    /// hold of the same owner may keep a write hold.
    const fn is_undone_without_end(&self, cause: Cause) -> bool {
        match cause {
            Cause::Release => self.uncertain,
            Cause::UnseenGrant => self.recipe().keep_alive.is_some() || self.recipe().companion.is_some(),
            Cause::UnknownAcquire => true,
            Cause::Returned => self.recipe().companion.is_some(),
        }
    }

    /// Returns true if the undo of an acquire of unknown outcome is on its way.
    pub(in crate::engine) fn is_being_undone(&self) -> bool {
        self.call.is_some() && self.release().is_some_and(|release| release.cause.is_unknown())
    }

    /// Returns true if its release lets others have the name, which is not what an undo or a release of a reader does.
    fn is_released_for_others(&self, cause: Cause) -> bool {
        cause == Cause::Release
            && self.recipe().holding.is_exclusive()
            && self.recipe().held_side() == Side::Main
    }

    /// Returns what the release of permits says of their marker. The marker of an old hold expires, so its release leaves a
    /// zero for repeated ones from the first attempt on. One that finds neither returns the permits, for as long as that
    /// zero would be there.
    fn release_context(&self, release: &Release, now: Moment) -> CallContext {
        let uncertain = release.uncertain || release.cause.is_unknown();
        if self.recipe().holding.is_leased() {
            return CallContext { uncertain, ..CallContext::default() };
        }
        let granted = release.cause == Cause::Release;
        let [age, age_at_release] = [now, release.begun_at].map(|at| at.since(self.confirmed_at));
        let is_old = granted && age_at_release >= MARKED_FOR / 2;
        let repeats_count_once = now.since(release.begun_at) < MARKED_FOR / 10 * 9;
        CallContext {
            expired: is_old && age >= MARKED_FOR / 100 * 98 && repeats_count_once,
            uncertain: uncertain || is_old,
            ..CallContext::default()
        }
    }

    const fn release_mut(&mut self) -> Option<&mut Release> {
        match &mut self.phase {
            Phase::Releasing(release) => Some(release),
            _ => None,
        }
    }
}

impl Holds {
    /// Removes a wire owner from the server, starting now.
    pub(in crate::engine) fn begin_release(
        &mut self,
        now: Moment,
        number: Number,
        gone_by: Moment,
        cause: Cause,
    ) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        debug_assert!(hold.release().is_none(), "{number:?} is released twice");
        let release = Release { gone_by, cause, uncertain: false, begun_at: now, sent_at: now, echoes: 0 };
        hold.phase = Phase::Releasing(release);
        (hold.failures, hold.last_error) = (0, None);
        let released = hold.is_released_for_others(cause).then_some(hold.name);
        self.index.begin_release(cause);
        if let Some(name) = released {
            self.cx.names.begin_leaving(name, number);
        }
        self.note_undone(number, cause, false);
        self.send_release(now, number);
    }

    /// Sends the release, unless it is on its way.
    pub(in crate::engine) fn send_release(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get(number).filter(|hold| hold.call.is_none()) else { return };
        let Some(release) = hold.release().certain(IN_PHASE) else { return };
        if now >= release.gone_by && !hold.is_undone_without_end(release.cause) {
            return self.end_release(now, number, None);
        }
        let granted = release.cause == Cause::Release;
        let id = hold.queue();
        let is_first = granted && hold.failures == 0;
        let quiet = is_first && self.cx.first_waiter(id).is_none() && !self.cx.leaves_turns(id);
        let context = CallContext { quiet, ..hold.release_context(release, now) };
        let subject = self.cx.subject_of(hold);
        let args = CallArgs::new(&subject, self.cx.wire(number), hold.longest).count(0).units(hold.units);
        let units = hold.units;
        // The release of a reader sends a message only if it was the last one.
        let speaks = subject.recipe.companion.is_none() || id.side == Side::Main;
        let call = (subject.recipe.release)(&CallArgs { context, ..args });
        let call = subject.confirmed(call, hold.replicas);
        let call = self.cx.send(call, Purpose::Hold(HoldCall::Change(number)));
        if let Some(hold) = self.index.get_mut(number) {
            (hold.call, hold.again_at) = (Some(call), Moment::NEVER);
            if let Some(release) = hold.release_mut() {
                release.sent_at = now;
            }
        }
        self.arm(number);
        if is_first {
            self.cx.raise(Effect::Releasing { number, queue: id, units, speaks });
        }
    }

    /// Notes the messages of a release that its client will hear.
    pub(in crate::engine) fn expect_echoes(&mut self, number: Number, messages: u32) {
        if let Some(release) = self.index.get_mut(number).and_then(ServerHold::release_mut) {
            release.echoes = messages;
        }
    }

    /// Handles the answer to a release.
    pub(in crate::engine) fn release_answered(
        &mut self,
        now: Moment,
        call: CallId,
        number: Number,
        result: Result<Reply, StoreError>,
    ) {
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let subject = self.cx.subject_of(hold);
        let Some(release) = hold.release().certain(IN_PHASE) else { return };
        let (uncertain, queue) = (release.uncertain, hold.queue());
        let answer = result.and_then(|reply| {
            (subject.recipe.read_release)(&reply).ok_or_else(|| subject.malformed(Verb::Release))
        });
        if !answer.as_ref().is_ok_and(|answer| answer.held && !answer.is_silent) {
            let release = self.index.get_mut(number).and_then(ServerHold::release_mut);
            let messages = release.map_or(0, |release| std::mem::take(&mut release.echoes));
            if messages > 0 {
                self.cx.raise(Effect::Silent { queue, messages });
            }
        }
        match answer {
            Ok(answer) => {
                let held = answer.held || uncertain;
                self.released(now, (call, number), ReleaseAnswer { held, ..answer });
            }
            // The key has another type now.
            Err(error) if error.kind == StoreErrorKind::WrongType => {
                self.released(now, (call, number), ReleaseAnswer::unheard(uncertain));
            }
            Err(error) => self.release_failed(now, number, error),
        }
    }

    /// Ends a release that is answered.
    fn released(&mut self, now: Moment, (call, number): (CallId, Number), answer: ReleaseAnswer) {
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let (queue, confirmed_at) = (hold.queue(), hold.confirmed_at);
        let sent_at = hold.release().map_or(now, |release| release.sent_at);
        // The queue outlives the hold's use of its name, until the effect is carried.
        self.cx.names.add_use(queue.name);
        self.end_release(now, number, Some(answer.held));
        let listeners = answer.listeners;
        self.cx.raise(Effect::Released(Released { queue, call, sent_at, confirmed_at, listeners }));
    }

    /// Handles a failed attempt. A failure that is not transient, or that took a whole timeout, is reported at once, and
    /// the attempts continue.
    fn release_failed(&mut self, now: Moment, number: Number, error: StoreError) {
        let (seed, timeout) = (self.cx.seed(number), self.cx.settings.timeout);
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        hold.failures = hold.failures.saturating_add(1);
        let mut pause = backoff::after_failures(u32::from(hold.failures) - 1, seed);
        let passes = error.kind.is_transient();
        let mut reports = !passes;
        if let Some(release) = hold.release_mut() {
            reports |= now >= release.sent_at + timeout;
            release.uncertain |= error.applied == Applied::Unknown;
            if !passes || now >= release.gone_by {
                let overdue = now.since(release.gone_by) / 16;
                pause = pause.max(overdue.clamp(SLOW, SLOWEST));
            }
        }
        hold.last_error = Some(Box::new(error));
        hold.again_at = now + pause;
        let (queue, is_first) = (hold.queue(), hold.failures == 1);
        if reports {
            self.report_release(now, number);
        }
        if is_first && self.cx.names.leaving(queue.name) == Some(number) {
            self.cx.raise(Effect::Freed(queue));
        }
    }

    /// Reports to the waiting callers what is known about a release that takes too long.
    ///
    /// A release whose call has been on its way for a whole timeout is not late while the server answers other calls,
    /// since it waits behind them. The store ends it within two timeouts.
    pub(in crate::engine) fn report_due(&mut self, now: Moment, number: Number) {
        let timeout = self.cx.settings.timeout;
        let Some(hold) = self.index.get_mut(number).filter(|hold| hold.report_by <= now) else { return };
        let Some(release) = hold.release() else { return };
        let is_behind = hold.call.is_some() && release.sent_at + timeout <= now;
        let until = (release.sent_at + timeout.saturating_mul(2)).min(self.cx.answered_at + timeout);
        if is_behind && now < until {
            hold.report_by = until;
            return self.arm(number);
        }
        self.report_release(now, number);
    }

    fn report_release(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let reports = hold.reports.take();
        if !reports.is_empty() {
            let failure = self.release_failure(now, number);
            if let Err(failure) = &failure {
                self.note_unconfirmed(number, failure);
            }
            self.cx.report(reports, &Outcome::Released(failure));
        }
    }

    fn release_failure(&self, now: Moment, number: Number) -> Result<bool, ReleaseFailure> {
        let Some(hold) = self.index.get(number).certain(HELD) else { return Ok(false) };
        let error = hold.last_error.as_deref().cloned();
        let error = error.unwrap_or_else(|| self.cx.subject_of(hold).timed_out(Verb::Release));
        let gone_by = hold.release().map_or(now, |release| release.gone_by);
        Err(ReleaseFailure { free_within: FreeWithin::until(gone_by, now), error })
    }

    /// Ends the release. `held` is the server's answer, or `None` when the server never gave an answer.
    fn end_release(&mut self, now: Moment, number: Number, held: Option<bool>) {
        let outcome = match held {
            Some(held) => Ok(held),
            None => self.release_failure(now, number),
        };
        self.note_end_of_release(number, &outcome);
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let (reports, queue) = (hold.reports.take(), hold.queue());
        let release = hold.release().cloned();
        let counts = release.as_ref().is_some_and(|release| release.cause == Cause::Release);
        self.end_phase(number);
        self.cx.report(reports, &Outcome::Released(outcome));
        if counts && self.cx.closed {
            self.index.count_since_close(held.is_some());
        }
        if held.is_none() {
            self.cx.raise(Effect::Freed(queue));
        } else if let Some(release) = release.filter(|release| release.cause.is_unknown()) {
            self.keep_undone(now, number, &release);
        }
        self.forget_if_over(number);
    }
}
