//! The answers to the attempts of a queue.
//!
//! Invariant: a grant goes to the waiter of the attempt, else to the first one whose terms it fits, and is undone
//! if there is none.

use std::time::Duration;

use super::acquire::Acquire;
use super::certain::Certain;
use super::context::{Attempt, By};
use super::hold::Cause;
use super::keys::QueueId;
use super::subscriptions::Listener;
use super::timers::Timer;
use super::tries::Last;
use super::{AcquireFailure, Engine, Id};
use crate::backoff;
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError};
use crate::recipe::Answer;

/// The reason why an attempt has a queue.
const OPEN: &str = "a queue is open while its attempts are on their way";

impl Engine {
    /// Handles the answer to an attempt of a queue.
    pub(super) fn queue_answered(
        &mut self,
        now: Moment,
        attempt: &Attempt,
        answer: Result<Answer, StoreError>,
    ) {
        if let Some(waiter) = self.acquire_of_mut(attempt.waiter).and_then(Acquire::waiter_mut) {
            waiter.attempted = None;
        }
        let Some(queue) = self.places.queue_mut(attempt.queue).certain(OPEN) else { return };
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
                let pause = self.places.queue(attempt.queue).map_or(Duration::ZERO, |queue| {
                    backoff::between_polls(queue.tries.refusals, self.cx.seed(attempt.number))
                });
                self.queue_refused(now, attempt, remaining.min(pause), outdated);
                if let Some(queue) = self.places.queue_mut(attempt.queue) {
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
        if let Some(queue) = self.places.queue_mut(id) {
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
        let Some(queue) = self.places.queue_mut(attempt.queue).certain(OPEN) else { return };
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
        self.places.turns_mut(attempt.queue).end(now);
        self.unlink(id);
        self.begin_hold(now, id, attempt, token);
        self.go_on(now, attempt.queue);
    }

    fn advance_unless_attempting(&mut self, now: Moment, id: QueueId) {
        if self.places.queue(id).is_some_and(|queue| queue.tries.call.is_none()) {
            self.advance(now, id);
        }
    }

    /// Returns the waiter that gets a grant.
    fn recipient(&mut self, now: Moment, attempt: &Attempt) -> Option<Id> {
        let waits = |engine: &Self, id: Id| {
            engine
                .acquire_of(id)
                .is_some_and(|acquire| acquire.queue() == attempt.queue && acquire.is_linked())
        };
        if waits(self, attempt.waiter) {
            return Some(attempt.waiter);
        }
        loop {
            let first = self.places.queue(attempt.queue)?.first()?;
            self.deadline_is_over(now, first);
            if waits(self, first) {
                return self
                    .acquire_of(first)
                    .filter(|acquire| acquire.terms.fit(&attempt.terms))
                    .map(|_| first);
            }
        }
    }

    /// Takes a granted waiter out of its queue.
    pub(super) fn unlink(&mut self, id: Id) {
        let Some(acquire) = self.acquire_of_mut(id) else { return };
        let queue = acquire.queue();
        let links = acquire.waiter_mut().and_then(|waiter| waiter.linked.take());
        if let (Some(links), Some(queue)) = (links, self.places.queue_mut(queue)) {
            queue.unlink(&mut self.tickets, links);
        }
    }

    /// Goes on with the waiters behind a granted one.
    fn go_on(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.places.queue(id) else { return };
        let Some((_, first)) = self.first_waiter(id) else { return };
        if first.recipe().holding.is_exclusive() || queue.is_open() {
            self.advance(now, id);
        } else {
            self.sleep_unless_attempting(now, id);
        }
    }

    /// Sleeps for the polling interval if nothing else will wake the queue.
    pub(super) fn sleep_unless_attempting(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.places.queue(id) else { return };
        if queue.tries.call.is_none() && !queue.tries.alarm.is_set() {
            self.sleep(now, id, Duration::MAX);
        }
    }

    /// Handles a refusal. It is outdated if there was news after its attempt was sent.
    pub(super) fn queue_refused(
        &mut self,
        now: Moment,
        attempt: &Attempt,
        remaining: Duration,
        outdated: bool,
    ) {
        let Some(queue) = self.places.queue_mut(attempt.queue).certain(OPEN) else { return };
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
        self.note_first_waits(attempt.queue);
        self.places.end_run(attempt.queue.place);
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
        let Some(queue) = self.places.queue_mut(attempt.queue).certain(OPEN) else { return };
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
        let (timeout, seed) = (self.cx.settings.timeout, self.cx.seed(attempt.number));
        let Some(queue) = self.places.queue_mut(attempt.queue).certain(OPEN) else { return };
        let (failures, failing_for) = queue.tries.failed(now, last);
        let first = queue.first();
        if failing_for < timeout {
            if first.is_some() {
                let at = now + backoff::after_failures(failures, seed);
                queue.tries.alarm.set(&mut self.cx.timers, Timer::Queue(attempt.queue), at);
            }
        } else if store_failed {
            self.fail_queue(now, attempt.queue);
        } else if let Some(first) = first {
            self.fail_with_verdict(now, first);
            self.begin_anew(now, attempt.queue);
        }
    }

    /// Undoes a grant that has no validity left. Its wire owner is not used again, and the next attempt has another.
    pub(super) fn granted_too_late(&mut self, now: Moment, attempt: &Attempt) {
        self.undo_attempt(now, attempt, Cause::UnseenGrant);
        let gone_by = self.subject_of_attempt(attempt).gone_by(attempt.lease, now);
        self.note_doubt(attempt, gone_by);
        let last = Last::TooLate(now.since(attempt.sent_at));
        match attempt.by {
            By::Extra => self.sleep_unless_attempting(now, attempt.queue),
            By::Queue => {
                if let Some(queue) = self.places.queue_mut(attempt.queue) {
                    queue.tries.drop_wire();
                }
                self.queue_later(now, attempt, last);
            }
            By::Waiter => {
                self.unlisten(Listener::Waiter(attempt.waiter));
                if let Some(tries) = self.tries_of(attempt.waiter) {
                    tries.drop_wire();
                }
                self.waiter_later(now, attempt, last);
            }
        }
    }

    /// Notes until when an attempt may be on the server, so that no failure of its waiter says that nothing was acquired.
    fn note_doubt(&mut self, attempt: &Attempt, gone_by: Moment) {
        if let Some(waiter) = self.acquire_of_mut(attempt.waiter).and_then(Acquire::waiter_mut) {
            waiter.past.note_doubt(gone_by);
        }
    }
}
