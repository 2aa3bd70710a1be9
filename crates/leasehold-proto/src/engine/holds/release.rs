//! Releases and undos. A release removes a hold from the server and reports to its caller. An undo removes one that no
//! caller received.
//!
//! Invariant: a wire owner under release is never used again, and nothing renews it. A release is retried until it is
//! answered, or until the key has run out by itself. The undo of an acquire with an unknown outcome has no such end,
//! because a server that was frozen for longer than the lease may still run that acquire.
//!
//! # How it works
//! When the client's own waiters are next, their attempt goes out right behind the release, and no second round trip
//! separates them. If other clients listened to the release, the client stands back instead: it leaves the lock to them
//! for some milliseconds, or until one of them has released it (`turns`). A release of a primitive without
//! wake-ups has no listeners. The client pauses after each of them, so that the clients that poll find the lock free.

use std::time::Duration;

use crate::backoff;
use crate::engine::base::certain::{Certain, HELD, IN_PHASE, OPEN};
use crate::engine::base::context::Purpose;
use crate::engine::base::keys::Number;
use crate::engine::base::keys::{QueueId, Side};
use crate::engine::base::subscriptions::Listener;
use crate::engine::holds::hold::{Cause, Phase, Release, ServerHold};
use crate::engine::waits::acquire::Acquire;
use crate::engine::waits::queue::Queue;
use crate::engine::waits::turns::Turns;
use crate::engine::{CallId, Engine, Id, Outcome, ReleaseFailure};
use crate::marker::MARKED_FOR;
use crate::moment::Moment;
use crate::outcome::{Applied, FreeWithin, StoreError, StoreErrorKind, Verb};
use crate::recipe::{CallArgs, CallContext, ReleaseAnswer};
use crate::reply::Reply;

/// The pause between attempts that are not expected to succeed soon.
const SLOW: Duration = Duration::from_secs(2);
/// The longest such pause, after minutes. The holds of a long outage then cost little until the server is back.
const SLOWEST: Duration = Duration::from_secs(30);
/// The time within which the message of an own release is expected. One that is lost hides another client's message for
/// that long, and one that comes later costs an attempt in vain.
const ECHO_WITHIN: Duration = Duration::from_millis(500);
/// The grants in a row after which a client without wake-ups pauses for as long as the waiters of other clients do, so
/// that each of those polls once while the lock is free.
const RUN: u32 = 16;

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

impl Engine {
    /// Removes a wire owner from the server, starting now.
    pub(in crate::engine) fn begin_release(
        &mut self,
        now: Moment,
        number: Number,
        gone_by: Moment,
        cause: Cause,
    ) {
        let Some(hold) = self.holds.get_mut(number).certain(HELD) else { return };
        debug_assert!(hold.release().is_none(), "{number:?} is released twice");
        let release = Release { gone_by, cause, uncertain: false, begun_at: now, sent_at: now, echoes: 0 };
        hold.phase = Phase::Releasing(release);
        (hold.failures, hold.last_error) = (0, None);
        let released = hold.is_released_for_others(cause).then_some(hold.place);
        self.holds.begin_release(cause);
        if let Some(place) = released {
            self.places.begin_leaving(place, number);
        }
        self.note_undone(number, cause, false);
        self.send_release(now, number);
    }

    /// Sends the release, unless it is on its way.
    pub(in crate::engine) fn send_release(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.holds.get(number).filter(|hold| hold.call.is_none()) else { return };
        let Some(release) = hold.release().certain(IN_PHASE) else { return };
        if now >= release.gone_by && !hold.is_undone_without_end(release.cause) {
            return self.end_release(now, number, None);
        }
        let granted = release.cause == Cause::Release;
        let id = hold.queue();
        let is_first = granted && hold.failures == 0;
        let quiet = is_first && self.first_waiter(id).is_none() && !self.leaves_turns(id);
        let context = CallContext { quiet, ..hold.release_context(release, now) };
        let subject = self.subject_of(hold);
        let args = CallArgs::new(&subject, self.cx.wire(number), hold.longest).count(0).units(hold.units);
        let units = hold.units;
        // The release of a reader sends a message only if it was the last one.
        let speaks = subject.recipe.companion.is_none() || id.side == Side::Main;
        let call = (subject.recipe.release)(&CallArgs { context, ..args });
        let call = subject.confirmed(call, hold.replicas);
        let call = self.cx.send(call, Purpose::Change(number));
        if let Some(hold) = self.holds.get_mut(number) {
            (hold.call, hold.again_at) = (Some(call), Moment::NEVER);
            if let Some(release) = hold.release_mut() {
                release.sent_at = now;
            }
        }
        self.arm(number);
        if is_first && self.goes_on_behind_release(now, id, units) && speaks {
            self.expect_echoes(now, id, number);
        }
    }

    /// Notes that the client's own subscription will hear a release that was just sent.
    fn expect_echoes(&mut self, now: Moment, id: QueueId, number: Number) {
        let until = now + ECHO_WITHIN.min(self.cx.settings.poll_interval);
        let messages = self.messages_of_release(id);
        if self.subscriptions.hears(Listener::Queue(id))
            && let Some(queue) = self.places.queue_mut(id)
            && let Some(release) = self.holds.get_mut(number).and_then(ServerHold::release_mut)
        {
            queue.expect_echoes(now, messages, until);
            release.echoes = messages;
        }
    }

    /// Expects no messages of a release that has sent none. One that was taken for them meanwhile was another client's, and
    /// an attempt that left before it may have been refused.
    fn unexpect_echoes(&mut self, now: Moment, id: QueueId, number: Number) {
        let release = self.holds.get_mut(number).and_then(ServerHold::release_mut);
        let messages = release.map_or(0, |release| std::mem::take(&mut release.echoes));
        if self.places.queue_mut(id).is_some_and(|queue| queue.unexpect_echoes(messages)) {
            self.queue_heard(now, id, false);
        }
    }

    /// Returns the number of messages of a release, one for each name.
    fn messages_of_release(&self, id: QueueId) -> u32 {
        u32::try_from(self.places.get(id.place).names()).unwrap_or(u32::MAX)
    }

    /// Sends the attempt of the next local waiter right behind the release, unless another client is likely to be next.
    /// Returns true if the queue does not need to hear of the release.
    fn goes_on_behind_release(&mut self, now: Moment, id: QueueId, units: u32) -> bool {
        let held_here = self.held_here(now, id.place).is_some();
        let pauses =
            |(_, first): (Id, &Acquire)| first.terms.backoff.is_some() || first.terms.share.is_some();
        let polls = self.first_waiter(id).is_some_and(pauses);
        if polls || self.places.queue(id).is_none_or(Queue::is_empty) {
            return false;
        }
        let leaves_turns = self.leaves_turns(id);
        if leaves_turns || held_here || id.side == Side::Read {
            return leaves_turns;
        }
        let Some(queue) = self.places.queue_mut(id).certain(OPEN) else { return false };
        queue.admit(units);
        if !queue.server.goes_behind_release() {
            // Another client is likely to be next. The server wakes this one's first waiter when its turn comes.
            self.listen_in_server_queue(now, id);
            return false;
        }
        // After an attempt that left before the release, the next one goes out when the release is answered.
        if queue.tries.call.is_some() || self.own_call_of_first(id).is_some() {
            return false;
        }
        self.go_ahead(now, id);
        let behind = self.own_call_of_first(id);
        if let Some(queue) = self.places.queue_mut(id) {
            queue.server.behind = behind;
        }
        true
    }

    /// Lets a queue whose first waiter came behind the own release sleep until that release is answered, if others wait
    /// too: the attempt would reach the server before theirs. Returns false if it need not.
    pub(in crate::engine) fn waits_for_own_release(&mut self, now: Moment, id: QueueId) -> bool {
        let leaving = self.places.leaving(id.place).filter(|_| id.side == Side::Main);
        // A release that has failed once may fail for as long as the store does, which the waiters have to find out.
        let is_first_call = |hold: &ServerHold| hold.failures == 0 && hold.call.is_some();
        let leaving = leaving.filter(|number| self.holds.get(*number).is_some_and(is_first_call));
        // The server orders the waiters of its own queues.
        let is_local = |(_, first): (Id, &Acquire)| !first.recipe().waiters.are_queued();
        let leaving = leaving.filter(|_| self.first_waiter(id).is_some_and(is_local));
        let Some(number) = leaving.filter(|_| self.leaves_turns(id)) else { return false };
        self.sleep_for(now, id, self.cx.settings.poll_interval);
        let expected = self.holds.get(number).and_then(ServerHold::release).map(|release| release.echoes);
        if expected == Some(0) {
            self.expect_echoes(now, id, number);
        }
        true
    }

    /// Handles the answer to a release.
    pub(in crate::engine) fn release_answered(
        &mut self,
        now: Moment,
        call: CallId,
        number: Number,
        result: Result<Reply, StoreError>,
    ) {
        let Some(hold) = self.holds.get(number).certain(HELD) else { return };
        let subject = self.subject_of(hold);
        let Some(release) = hold.release().certain(IN_PHASE) else { return };
        let (uncertain, queue) = (release.uncertain, hold.queue());
        let answer = result.and_then(|reply| {
            (subject.recipe.read_release)(&reply).ok_or_else(|| subject.malformed(Verb::Release))
        });
        if !answer.as_ref().is_ok_and(|answer| answer.held && !answer.is_silent) {
            self.unexpect_echoes(now, queue, number);
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

    /// Ends a release that is answered, and makes an attempt for the next waiter, if none was sent behind the release.
    fn released(&mut self, now: Moment, (call, number): (CallId, Number), answer: ReleaseAnswer) {
        let Some(hold) = self.holds.get(number).certain(HELD) else { return };
        let id = hold.queue();
        let sent_at = hold.release().map_or(now, |release| release.sent_at);
        let section = sent_at.since(hold.confirmed_at);
        // The queue outlives the hold's use of its place.
        self.places.add_use(id.place);
        self.end_release(now, number, Some(answer.held));
        let others = self.others_of(id, answer.listeners);
        let attempted = self.has_attempt_behind(id, call);
        if let Some(queue) = self.places.queue_mut(id) {
            let leaves_alone = queue.server.leaves_alone() && !queue.server.takes_overtaking_of(call);
            self.places.turns_mut(id).note_listeners(others);
            if others > 0 && !attempted {
                self.stand_back(now, id, (sent_at, section), others);
            } else if !attempted
                && !leaves_alone
                && !self.pause_after_release(now, id)
                && !self.leaves_share(now, id)
            {
                self.advance(now, id);
            }
        }
        self.places.end_use(id.place);
    }

    /// Returns true if an attempt for the next waiter was sent after this call.
    fn has_attempt_behind(&self, id: QueueId, call: CallId) -> bool {
        let Some(queue) = self.places.queue(id) else { return false };
        queue.tries.call.max(self.own_call_of_first(id)) > Some(call)
    }

    /// Returns the attempt on its way that the first waiter of a queue makes for itself.
    fn own_call_of_first(&self, id: QueueId) -> Option<CallId> {
        self.first_waiter(id)?.1.tries()?.call
    }

    /// Handles a failed attempt. A failure that is not transient, or that took a whole timeout, is reported at once, and
    /// the attempts continue.
    fn release_failed(&mut self, now: Moment, number: Number, error: StoreError) {
        let (seed, timeout) = (self.cx.seed(number), self.cx.settings.timeout);
        let Some(hold) = self.holds.get_mut(number).certain(HELD) else { return };
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
        if is_first && self.places.leaving(queue.place) == Some(number) {
            self.advance(now, queue);
        }
    }

    /// Reports to the waiting callers what is known about a release that takes too long.
    ///
    /// A release whose call has been on its way for a whole timeout is not late while the server answers other calls,
    /// since it waits behind them. The store ends it within two timeouts.
    pub(in crate::engine) fn report_due(&mut self, now: Moment, number: Number) {
        let timeout = self.cx.settings.timeout;
        let Some(hold) = self.holds.get_mut(number).filter(|hold| hold.report_by <= now) else { return };
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
        let Some(hold) = self.holds.get_mut(number).certain(HELD) else { return };
        let reports = hold.reports.take();
        if !reports.is_empty() {
            let failure = self.release_failure(now, number);
            if let Err(failure) = &failure {
                self.note_unconfirmed(number, failure);
            }
            self.report(reports, &Outcome::Released(failure));
        }
    }

    fn release_failure(&self, now: Moment, number: Number) -> Result<bool, ReleaseFailure> {
        let Some(hold) = self.holds.get(number).certain(HELD) else { return Ok(false) };
        let error = hold.last_error.as_deref().cloned();
        let error = error.unwrap_or_else(|| self.subject_of(hold).timed_out(Verb::Release));
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
        let Some(hold) = self.holds.get_mut(number).certain(HELD) else { return };
        let (reports, queue) = (hold.reports.take(), hold.queue());
        let release = hold.release().cloned();
        let counts = release.as_ref().is_some_and(|release| release.cause == Cause::Release);
        self.end_phase(number);
        self.report(reports, &Outcome::Released(outcome));
        if let Some(closing) = self.closing.as_mut().filter(|_| counts) {
            closing.count(held.is_some());
        }
        if held.is_none() {
            self.advance(now, queue);
        } else if let Some(release) = release.filter(|release| release.cause.is_unknown()) {
            self.keep_undone(now, number, &release);
        }
        self.forget_if_over(number);
    }

    /// Pauses after a release if the first waiter can only poll. Returns false if it need not.
    fn pause_after_release(&mut self, now: Moment, id: QueueId) -> bool {
        let first = self.first_waiter(id).and_then(|(id, first)| Some((id, first.terms.backoff?)));
        let Some((first, backoff)) = first else { return false };
        let at_length = self.places.extend_run(id.place).is_multiple_of(RUN);
        let pause = if at_length { backoff.longest } else { backoff.after(0, self.cx.varying_seed(first)) };
        self.sleep_for(now, id, pause);
        true
    }

    /// Returns the number of others to which a release is left: the other clients that heard it, or one for this client's
    /// other queues on the same channels. These share one subscription, and make their attempts at once, so they need no
    /// time of their own beside that of another client.
    fn others_of(&self, id: QueueId, listeners: u32) -> u32 {
        let own = u32::from(self.subscriptions.is_listening(Listener::Queue(id)));
        let rivals = u32::from(listeners > 0 && self.has_rivals(id));
        listeners.saturating_sub(own).max(rivals)
    }

    /// Returns true if this client has other listeners for what a queue waits for: a multi-lock beside a lock, readers
    /// beside writers. A queue leaves them their turns as it does with another client's, since they would never get the
    /// name between its own waiters.
    pub(in crate::engine) fn has_rivals(&self, id: QueueId) -> bool {
        let own = Listener::Queue(id);
        let is_in_queue = |waiter: Id| {
            self.acquire_of(waiter).is_some_and(|acquire| acquire.queue() == id && acquire.is_linked())
        };
        let is_rival = |listener: Listener| match listener {
            Listener::Queue(_) => true,
            Listener::Waiter(waiter) => !is_in_queue(waiter),
        };
        let listened = self.subscriptions.channels_of(own);
        if !listened.is_empty() {
            return self.subscriptions.has_beside(own, listened, is_rival);
        }
        self.first_waiter(id).is_some_and(|(_, first)| {
            let channels = self.subject(first).channels(self.cx.no_wire());
            self.subscriptions.has_beside(own, &channels, is_rival)
        })
    }

    /// Returns true if others waited for the name at the last release, or another queue of this client does now.
    pub(in crate::engine) fn leaves_turns(&self, id: QueueId) -> bool {
        self.places.turns(id).is_some_and(Turns::are_left) || self.has_rivals(id)
    }

    /// Leaves the name to the others after a release that they heard. A server tells its listeners in a fixed
    /// order, so two clients would take the lock in turns and the others never. So each other client gets a turn first,
    /// for at most the time that its turn takes if its section is as long as the last one here, or a few milliseconds.
    fn stand_back(&mut self, now: Moment, id: QueueId, (sent_at, section): (Moment, Duration), others: u32) {
        let trip = now.since(sent_at);
        let seed = self.cx.varying_seed(Id(0));
        let turns = (trip * 2 + section).saturating_mul(others - 1);
        let nap = (turns + trip * 2 + backoff::spread(trip, seed)).min(self.cx.settings.poll_interval);
        let Some(queue) = self.places.queue_mut(id).certain(OPEN) else { return };
        queue.close(now);
        let until = self.places.turns_mut(id).begin(now, others - 1, now + nap);
        self.sleep_for(now, id, until.since(now));
    }
}
