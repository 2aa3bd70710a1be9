//! The answers to the attempts of a waiter that makes its own attempts.
//!
//! Invariant: an answer whose waiter is gone undoes what the attempt may have left.

use std::time::Duration;

use super::acquire::Acquire;
use super::certain::Certain;
use super::context::Attempt;
use super::hold::Cause;
use super::subscriptions::Listener;
use super::ticket::Ticket;
use super::timers::Timer;
use super::tries::{Last, Tries};
use super::{AcquireFailure, Engine, Id};
use crate::backoff;
use crate::id::CallId;
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError};
use crate::recipe::Answer;

impl Engine {
    pub(super) fn tries_of(&mut self, id: Id) -> Option<&mut Tries> {
        self.acquire_of_mut(id)?.tries_mut()
    }

    /// Handles the answer to an attempt of a waiter that makes its own attempts.
    pub(super) fn waiter_answered(
        &mut self,
        now: Moment,
        call: CallId,
        attempt: &Attempt,
        answer: Result<Answer, StoreError>,
    ) {
        let id = attempt.waiter;
        if let Some(queue) = self.places.queue_mut(attempt.queue) {
            queue.server.note_behind(call, matches!(answer, Ok(Answer::Granted { .. })));
        }
        let Some(tries) = self.tries_of(id).filter(|tries| tries.call == Some(call)) else {
            return self.answered_after_leaving(now, attempt, &answer);
        };
        tries.call = None;
        tries.queued |= attempt.queues && answer.is_ok();
        let once = self.acquire_of(id).is_some_and(Acquire::is_once);
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
                let pause = backoff::between_polls(refusals, self.cx.seed(attempt.number));
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
        self.unlisten(Listener::Waiter(attempt.waiter));
        self.unlink(attempt.waiter);
        self.begin_hold(now, attempt.waiter, attempt, token);
        let recipe = attempt.terms.recipe();
        if recipe.waiters.are_queued() {
            let heard = heard && !recipe.holding.is_exclusive();
            self.server_queue_granted(now, attempt.queue, attempt.sent_at, heard);
        }
    }

    pub(super) fn waiter_refused(&mut self, now: Moment, attempt: &Attempt, remaining: Duration) {
        let id = attempt.waiter;
        let Some(tries) = self.tries_of(id).certain("an answered attempt has its waiter") else { return };
        tries.refused();
        let again = tries.again;
        let Some(acquire) = self.acquire_of(id).certain("an answered attempt has its waiter") else { return };
        let (once, is_event) = (acquire.is_once(), acquire.recipe().holding.is_event());
        if once {
            return self.fail(now, id, AcquireFailure::Contended);
        }
        self.note_waiting(id);
        if again {
            self.attempt_alone(now, id);
        } else if is_event {
            self.join_event(now, id);
        } else if !self.rest_in_server_queue(now, id) {
            self.waiter_sleeps(now, id, remaining);
        }
    }

    /// Sleeps until a wake-up, until the current hold should have ended, or for the polling interval.
    pub(super) fn waiter_sleeps(&mut self, now: Moment, id: Id, remaining: Duration) {
        let Some(acquire) = self.acquire_of(id).certain("an answered attempt has its waiter") else { return };
        let Some(tries) = acquire.tries().certain("an answered attempt has its waiter") else { return };
        let nap = self.nap(id, acquire, tries.refusals, remaining);
        let subject = self.subject(acquire);
        let wire = acquire.tries().and_then(|tries| tries.wire.as_ref());
        let wire = wire.map_or_else(|| self.cx.no_wire(), |used| self.cx.wire(used.number));
        let timers = &mut self.cx.timers;
        let tries = match self.tickets.get_mut(id) {
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
        let once = self.acquire_of(attempt.waiter).is_some_and(Acquire::is_once);
        if let Some(queue) = self.places.queue_mut(attempt.queue) {
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
    pub(super) fn waiter_later(&mut self, now: Moment, attempt: &Attempt, last: Last) {
        let (timeout, seed) = (self.cx.settings.timeout, self.cx.seed(attempt.number));
        let once = self.acquire_of(attempt.waiter).is_some_and(Acquire::is_once);
        let store_failed = matches!(last, Last::Failed(_));
        let timers = &mut self.cx.timers;
        let Some(Ticket::Acquire(acquire)) = self.tickets.get_mut(attempt.waiter) else {
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
