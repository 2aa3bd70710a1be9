//! The answers to attempts, of a queue and of a waiter that makes its own.
//!
//! Invariant: every answer is read, even if its waiter is gone. A grant of a queue goes to the waiter of the attempt, else to
//! the first one whose terms it fits, and is undone if there is none.

use std::time::Duration;

use crate::backoff;
use crate::engine::base::certain::{Certain, OPEN, WAITING};
use crate::engine::base::keys::QueueId;
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::timers::Timer;
use crate::engine::holds::hold::Cause;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::Waits;
use crate::engine::waits::acquire::Acquire;
use crate::engine::waits::calls::{Attempt, By};
use crate::engine::waits::tries::{Last, Tries};
use crate::engine::{AcquireFailure, Id};
use crate::id::CallId;
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError};
use crate::recipe::Answer;

impl Waits {
    /// Handles the answer to an attempt of a queue.
    pub(in crate::engine) fn queue_answered(
        &mut self,
        now: Moment,
        attempt: &Attempt,
        answer: Result<Answer, StoreError>,
    ) {
        if let Some(waiter) = self.holds.cx.acquire_of_mut(attempt.waiter).and_then(Acquire::waiter_mut) {
            waiter.attempted = None;
        }
        let Some(queue) = self.holds.cx.names.queue_mut(attempt.queue).certain(OPEN) else { return };
        let outdated = if attempt.by == By::Extra {
            queue.extra_answered()
        } else {
            queue.tries.call = None;
            // The script may have put the wire owner into a queue, unless the answer is an error.
            queue.tries.queued |= attempt.queues && answer.is_ok();
            queue.tries.again
        };
        let first = queue.first();
        match answer {
            Ok(Answer::Granted { token }) => self.queue_granted(now, attempt, token),
            Ok(Answer::Refused { remaining } | Answer::RecentlyRestarted { remaining }) => {
                self.queue_refused(now, attempt, remaining, outdated);
            }
            Ok(Answer::Polled { remaining }) => {
                let pause = self.holds.cx.names.queue(attempt.queue).map_or(Duration::ZERO, |queue| {
                    backoff::between_polls(queue.tries.refusals, self.holds.cx.seed(attempt.number))
                });
                self.queue_refused(now, attempt, remaining.min(pause), outdated);
                if let Some(queue) = self.holds.cx.names.queue_mut(attempt.queue) {
                    queue.tries.polls = true;
                }
            }
            Ok(Answer::NoExpiry) => self.fail_first(now, attempt.queue, first, AcquireFailure::NoExpiry),
            Ok(Answer::Deadlock) => self.fail_first(now, attempt.queue, first, AcquireFailure::Deadlock),
            Ok(Answer::Deleted) => self.fail_first(now, attempt.queue, first, AcquireFailure::Deleted),
            Ok(Answer::Event(state)) => self.queue_observed(now, attempt, state, outdated),
            Err(error) => self.queue_unanswered(now, attempt, error),
        }
    }

    /// Fails the first waiter of a queue, and makes an attempt for the next one.
    fn fail_first(&mut self, now: Moment, queue: QueueId, first: Option<Id>, failure: AcquireFailure) {
        if let Some(first) = first {
            self.fail(now, first, failure);
            self.begin_anew(now, queue);
        }
    }

    /// Makes an attempt for the next waiter, about which nothing is known yet.
    fn begin_anew(&mut self, now: Moment, id: QueueId) {
        if let Some(queue) = self.holds.cx.names.queue_mut(id) {
            queue.tries.begin_anew(None);
            self.advance(now, id);
        }
    }

    fn queue_granted(&mut self, now: Moment, attempt: &Attempt, token: Option<u64>) {
        let holding = attempt.terms.recipe().holding;
        if attempt.is_too_late(now) {
            return self.granted_too_late(now, attempt);
        }
        let recipient = self.recipient(now, attempt);
        let Some(queue) = self.holds.cx.names.queue_mut(attempt.queue).certain(OPEN) else { return };
        if attempt.by == By::Queue {
            let last = holding.is_exclusive().then_some(Last::Refused);
            queue.tries.drop_wire();
            queue.tries.begin_anew(last);
            queue.tries.again = false;
        }
        let Some(id) = recipient else {
            self.undo_attempt(now, attempt, Cause::UnseenGrant);
            // The next waiter's attempt goes out behind the undo.
            return self.advance_unless_attempting(now, attempt.queue);
        };
        queue.widen(attempt.sent_at);
        queue.take(attempt.terms.units);
        self.holds.cx.names.turns_mut(attempt.queue).end(now);
        self.unlink(id);
        self.begin_hold(now, id, attempt, token);
        self.go_on(now, attempt.queue);
    }

    fn advance_unless_attempting(&mut self, now: Moment, id: QueueId) {
        if self.holds.cx.names.queue(id).is_some_and(|queue| queue.tries.call.is_none()) {
            self.advance(now, id);
        }
    }

    /// Returns the waiter that gets a grant.
    fn recipient(&mut self, now: Moment, attempt: &Attempt) -> Option<Id> {
        let waits = |engine: &Self, id: Id| {
            engine
                .holds
                .cx
                .acquire_of(id)
                .is_some_and(|acquire| acquire.queue() == attempt.queue && acquire.is_linked())
        };
        if waits(self, attempt.waiter) {
            return Some(attempt.waiter);
        }
        loop {
            let first = self.holds.cx.names.queue(attempt.queue)?.first()?;
            self.deadline_is_over(now, first);
            if waits(self, first) {
                return self
                    .holds
                    .cx
                    .acquire_of(first)
                    .filter(|acquire| acquire.terms.fit(&attempt.terms))
                    .map(|_| first);
            }
        }
    }

    /// Takes a granted waiter out of its queue.
    pub(in crate::engine) fn unlink(&mut self, id: Id) {
        let Some(acquire) = self.holds.cx.acquire_of_mut(id).certain(WAITING) else { return };
        let queue = acquire.queue();
        let links = acquire.waiter_mut().and_then(|waiter| waiter.linked.take());
        if let (Some(links), Some(queue)) = (links, self.holds.cx.names.queue_mut(queue)) {
            queue.unlink(&mut self.holds.cx.tickets, links);
        }
    }

    /// Goes on with the waiters behind a granted one.
    fn go_on(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue(id) else { return };
        let Some((_, first)) = self.holds.cx.first_waiter(id) else { return };
        if first.recipe().holding.is_exclusive() || queue.is_open() {
            self.advance(now, id);
        } else {
            self.sleep_unless_attempting(now, id);
        }
    }

    /// Sleeps for the polling interval if nothing else will wake the queue.
    pub(in crate::engine) fn sleep_unless_attempting(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue(id).certain(OPEN) else { return };
        if queue.tries.call.is_none() && !queue.tries.alarm.is_set() {
            self.sleep(now, id, Duration::MAX);
        }
    }

    /// Handles a refusal. It is outdated if there was news after its attempt was sent.
    pub(in crate::engine) fn queue_refused(
        &mut self,
        now: Moment,
        attempt: &Attempt,
        remaining: Duration,
        outdated: bool,
    ) {
        let Some(queue) = self.holds.cx.names.queue_mut(attempt.queue).certain(OPEN) else { return };
        if outdated {
            queue.narrow();
        } else {
            queue.close(now);
        }
        if attempt.by == By::Extra {
            return self.sleep_unless_attempting(now, attempt.queue);
        }
        queue.tries.refused();
        let again = queue.tries.again;
        self.holds.cx.note_first_waits(attempt.queue);
        self.holds.cx.names.end_run(attempt.queue.name);
        if again {
            return self.attempt_first(now, attempt.queue);
        }
        self.sleep(now, attempt.queue, remaining);
    }

    fn queue_unanswered(&mut self, now: Moment, attempt: &Attempt, error: StoreError) {
        let gone_by = self.subject_of_attempt(attempt).gone_by(attempt.lease, now);
        let unknown = error.applied == Applied::Unknown;
        if unknown {
            self.note_doubt(attempt, gone_by);
        }
        let Some(queue) = self.holds.cx.names.queue_mut(attempt.queue).certain(OPEN) else { return };
        queue.narrow();
        if attempt.by == By::Extra {
            if unknown {
                self.undo_attempt(now, attempt, Cause::UnknownAcquire);
            }
            return self.sleep_unless_attempting(now, attempt.queue);
        }
        if unknown {
            queue.tries.mark_uncertain_until(gone_by);
        }
        let (first, transient) = (queue.first(), error.kind.is_transient());
        if transient {
            return self.queue_later(now, attempt, Last::Failed(error));
        }
        queue.tries.last = Some(Last::Failed(error));
        if let Some(first) = first {
            self.fail_with_verdict(now, first);
            self.begin_anew(now, attempt.queue);
        }
    }

    /// Schedules the next attempt of a queue after a pause, or gives up when the failures have lasted for a whole
    /// timeout. A store that fails then fails all waiters, and grants that come too late only the first one.
    fn queue_later(&mut self, now: Moment, attempt: &Attempt, last: Last) {
        let store_failed = matches!(last, Last::Failed(_));
        let (timeout, seed) = (self.holds.cx.settings.timeout, self.holds.cx.seed(attempt.number));
        let Some(queue) = self.holds.cx.names.queue_mut(attempt.queue).certain(OPEN) else { return };
        let (failures, failing_for) = queue.tries.failed(now, last);
        let first = queue.first();
        if failing_for < timeout {
            if first.is_some() {
                let at = now + backoff::after_failures(failures, seed);
                queue.tries.alarm.set(&mut self.holds.cx.timers, Timer::Queue(attempt.queue), at);
            }
        } else if store_failed {
            self.fail_queue(now, attempt.queue);
        } else if let Some(first) = first {
            self.fail_with_verdict(now, first);
            self.begin_anew(now, attempt.queue);
        }
    }

    /// Undoes a grant that has no validity left. Its wire owner is not used again, and the next attempt has another.
    pub(in crate::engine) fn granted_too_late(&mut self, now: Moment, attempt: &Attempt) {
        self.undo_attempt(now, attempt, Cause::UnseenGrant);
        let gone_by = self.subject_of_attempt(attempt).gone_by(attempt.lease, now);
        self.note_doubt(attempt, gone_by);
        let last = Last::TooLate(now.since(attempt.sent_at));
        match attempt.by {
            By::Extra => self.sleep_unless_attempting(now, attempt.queue),
            By::Queue => {
                if let Some(queue) = self.holds.cx.names.queue_mut(attempt.queue) {
                    queue.tries.drop_wire();
                }
                self.queue_later(now, attempt, last);
            }
            By::Waiter => {
                self.holds.cx.unlisten(Listener::Waiter(attempt.waiter));
                if let Some(tries) = self.tries_of(attempt.waiter) {
                    tries.drop_wire();
                }
                self.waiter_later(now, attempt, last);
            }
        }
    }

    /// Notes until when an attempt may be on the server, so that no failure of its waiter says that nothing was acquired.
    fn note_doubt(&mut self, attempt: &Attempt, gone_by: Moment) {
        if let Some(waiter) = self.holds.cx.acquire_of_mut(attempt.waiter).and_then(Acquire::waiter_mut) {
            waiter.past.note_doubt(gone_by);
        }
    }

    pub(in crate::engine) fn tries_of(&mut self, id: Id) -> Option<&mut Tries> {
        self.holds.cx.acquire_of_mut(id)?.tries_mut()
    }

    /// Handles the answer to an attempt of a waiter that makes its own attempts.
    pub(in crate::engine) fn waiter_answered(
        &mut self,
        now: Moment,
        call: CallId,
        attempt: &Attempt,
        answer: Result<Answer, StoreError>,
    ) {
        let id = attempt.waiter;
        if let Some(queue) = self.holds.cx.names.queue_mut(attempt.queue) {
            queue.server.note_behind(call, matches!(answer, Ok(Answer::Granted { .. })));
        }
        let Some(tries) = self.tries_of(id).filter(|tries| tries.call == Some(call)) else {
            return self.answered_after_leaving(now, attempt, &answer);
        };
        tries.call = None;
        tries.queued |= attempt.queues && answer.is_ok();
        let once = self.holds.cx.acquire_of(id).is_some_and(Acquire::is_once);
        match answer {
            Ok(Answer::Granted { token }) => self.waiter_granted(now, attempt, token),
            Ok(Answer::RecentlyRestarted { remaining }) if once => {
                self.fail(now, id, AcquireFailure::RecentlyRestarted { remaining });
            }
            Ok(Answer::Refused { remaining } | Answer::RecentlyRestarted { remaining }) => {
                self.waiter_refused(now, attempt, remaining);
            }
            Ok(Answer::Polled { remaining }) => {
                let refusals = self.tries_of(id).map_or(0, |tries| tries.refusals);
                let pause = backoff::between_polls(refusals, self.holds.cx.seed(attempt.number));
                self.waiter_refused(now, attempt, remaining.min(pause));
                if let Some(tries) = self.tries_of(id) {
                    tries.polls = true;
                }
            }
            Ok(Answer::NoExpiry) => self.fail(now, id, AcquireFailure::NoExpiry),
            Ok(Answer::Deadlock) => self.fail(now, id, AcquireFailure::Deadlock),
            Ok(Answer::Deleted) => self.fail(now, id, AcquireFailure::Deleted),
            Ok(Answer::Event(state)) => self.waiter_observed(now, attempt, state),
            Err(error) => self.waiter_unanswered(now, attempt, error),
        }
    }

    /// Handles an answer whose waiter is gone, and undoes what the attempt may have acquired.
    fn answered_after_leaving(
        &mut self,
        now: Moment,
        attempt: &Attempt,
        answer: &Result<Answer, StoreError>,
    ) {
        let cause = match answer {
            Ok(_) if attempt.terms.recipe().holding.is_event() => return,
            Ok(Answer::Granted { .. }) => Cause::UnseenGrant,
            Err(error) if error.applied == Applied::Unknown => Cause::UnknownAcquire,
            Ok(_) | Err(_) if attempt.uncertain => Cause::UnknownAcquire,
            Ok(_) | Err(_) if attempt.queues => Cause::UnseenGrant,
            Ok(_) | Err(_) => return,
        };
        self.undo_attempt(now, attempt, cause);
    }

    fn waiter_granted(&mut self, now: Moment, attempt: &Attempt, token: Option<u64>) {
        if attempt.is_too_late(now) {
            return self.granted_too_late(now, attempt);
        }
        let heard = self.tries_of(attempt.waiter).is_some_and(|tries| tries.again);
        self.holds.cx.unlisten(Listener::Waiter(attempt.waiter));
        self.unlink(attempt.waiter);
        self.begin_hold(now, attempt.waiter, attempt, token);
        let recipe = attempt.terms.recipe();
        if recipe.waiters.are_queued() {
            let heard = heard && !recipe.holding.is_exclusive();
            self.server_queue_granted(now, attempt.queue, attempt.sent_at, heard);
        }
    }

    pub(in crate::engine) fn waiter_refused(&mut self, now: Moment, attempt: &Attempt, remaining: Duration) {
        let id = attempt.waiter;
        let Some(tries) = self.tries_of(id).certain("an answered attempt has its waiter") else { return };
        tries.refused();
        let again = tries.again;
        let Some(acquire) = self.holds.cx.acquire_of(id).certain("an answered attempt has its waiter") else {
            return;
        };
        let (once, is_event) = (acquire.is_once(), acquire.recipe().holding.is_event());
        if once {
            return self.fail(now, id, AcquireFailure::Contended);
        }
        self.holds.cx.note_waiting(id);
        if again {
            self.attempt_alone(now, id);
        } else if is_event {
            self.join_event(now, id);
        } else if !self.rest_in_server_queue(now, id) {
            self.waiter_sleeps(now, id, remaining);
        }
    }

    /// Sleeps until a wake-up, until the current hold should have ended, or for the polling interval.
    pub(in crate::engine) fn waiter_sleeps(&mut self, now: Moment, id: Id, remaining: Duration) {
        let Some(acquire) = self.holds.cx.acquire_of(id).certain("an answered attempt has its waiter") else {
            return;
        };
        let Some(tries) = acquire.tries().certain("an answered attempt has its waiter") else { return };
        let nap = self.nap(id, acquire, tries.refusals, remaining);
        let subject = self.holds.cx.subject(acquire);
        let wire = acquire.tries().and_then(|tries| tries.wire.as_ref());
        let wire = wire.map_or_else(|| self.holds.cx.no_wire(), |used| self.holds.cx.wire(used.number));
        let timers = &mut self.holds.cx.timers;
        let tries = match self.holds.cx.tickets.get_mut(id) {
            Some(Ticket::Acquire(acquire)) => acquire.tries_mut(),
            _ => None,
        };
        if let Some(tries) = tries {
            tries.alarm.set(timers, Timer::Waiter(id), now + nap);
        }
        self.listen(now, Listener::Waiter(id), subject.channels(wire));
    }

    fn waiter_unanswered(&mut self, now: Moment, attempt: &Attempt, error: StoreError) {
        let gone_by = self.subject_of_attempt(attempt).gone_by(attempt.lease, now);
        let once = self.holds.cx.acquire_of(attempt.waiter).is_some_and(Acquire::is_once);
        if let Some(queue) = self.holds.cx.names.queue_mut(attempt.queue) {
            queue.server.mark_unordered();
        }
        let Some(tries) = self.tries_of(attempt.waiter).certain("an answered attempt has its waiter") else {
            return;
        };
        if error.applied == Applied::Unknown {
            tries.mark_uncertain_until(gone_by);
        }
        if error.kind.is_transient() && !once {
            self.waiter_later(now, attempt, Last::Failed(error));
        } else {
            tries.last = Some(Last::Failed(error));
            self.fail_with_verdict(now, attempt.waiter);
        }
    }

    /// Schedules the next attempt after a pause, or gives up when the failures have lasted for a whole timeout.
    pub(in crate::engine) fn waiter_later(&mut self, now: Moment, attempt: &Attempt, last: Last) {
        let (timeout, seed) = (self.holds.cx.settings.timeout, self.holds.cx.seed(attempt.number));
        let once = self.holds.cx.acquire_of(attempt.waiter).is_some_and(Acquire::is_once);
        let store_failed = matches!(last, Last::Failed(_));
        let timers = &mut self.holds.cx.timers;
        let Some(Ticket::Acquire(acquire)) = self.holds.cx.tickets.get_mut(attempt.waiter) else {
            return;
        };
        let is_line = acquire.recipe().keep_alive.is_some() && !once;
        let Some(tries) = acquire.tries_mut().certain("an answered attempt has its waiter") else { return };
        let (failures, failing_for) = tries.failed(now, last);
        if failing_for >= timeout && is_line && store_failed {
            return self.fail_server_queue(now, attempt.waiter, attempt.queue);
        }
        if once || failing_for >= timeout {
            return self.fail_with_verdict(now, attempt.waiter);
        }
        let at = now + backoff::after_failures(failures, seed);
        tries.alarm.set(timers, Timer::Waiter(attempt.waiter), at);
    }
}
