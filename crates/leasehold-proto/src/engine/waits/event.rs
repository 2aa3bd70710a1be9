//! The answers to the attempts of waiters for an event, which can happen again before all of them have asked.
//!
//! Invariant: each waiter compares an answer with its own first refusal, since waiters of several rounds share attempts.

use std::time::Duration;

use crate::engine::base::certain::Certain;
use crate::engine::base::subscriptions::Listener;
use crate::engine::waits::Waits;
use crate::engine::waits::acquire::Acquire;
use crate::engine::waits::calls::Attempt;
use crate::engine::{AcquireFailure, Grant, Id};
use crate::moment::Moment;
use crate::recipe::{EventState, WaitEnd};

impl Waits {
    /// Handles the answer to an attempt that a waiter made for itself.
    pub(in crate::engine) fn waiter_observed(&mut self, now: Moment, attempt: &Attempt, state: EventState) {
        if !self.ends_wait(now, attempt.waiter, attempt, state) {
            self.waiter_refused(now, attempt, Duration::MAX);
        }
    }

    /// Handles the answer to an attempt for all waiters of a queue.
    pub(in crate::engine) fn queue_observed(
        &mut self,
        now: Moment,
        attempt: &Attempt,
        state: EventState,
        outdated: bool,
    ) {
        for id in self.holds.cx.waiters_in(attempt.queue) {
            self.ends_wait(now, id, attempt, state);
        }
        if self.holds.cx.first_waiter(attempt.queue).is_some() {
            self.queue_refused(now, attempt, Duration::MAX, outdated);
        }
    }

    /// Ends a wait if the answer does so, and returns true then. Nothing is held. Otherwise notes the first refusal.
    fn ends_wait(&mut self, now: Moment, id: Id, attempt: &Attempt, state: EventState) -> bool {
        let waiter = self.holds.cx.acquire_of_mut(id).and_then(Acquire::waiter_mut);
        let Some(waiter) = waiter.certain("only a waiter waits for an event") else { return false };
        let outcome = match state.end_of_wait(waiter.past.refused_after()) {
            None => {
                waiter.past.note_refusal(state.last());
                return false;
            }
            Some(WaitEnd::Happened) => Ok(Grant { wire: self.holds.cx.wire(attempt.number), token: None }),
            Some(WaitEnd::Deleted) => Err(AcquireFailure::Deleted),
        };
        self.end_wait(now, id, outcome);
        true
    }

    /// Puts a waiter that has seen that its event has not happened to the others that wait for it. One attempt is for
    /// all of them.
    pub(in crate::engine) fn join_event(&mut self, now: Moment, id: Id) {
        let Some(acquire) = self.holds.cx.acquire_of_mut(id).certain("an answered attempt has its waiter")
        else {
            return;
        };
        let queue = acquire.queue();
        if let Some(waiter) = acquire.waiter_mut() {
            waiter.tries = None;
        }
        self.holds.cx.unlisten(Listener::Waiter(id));
        let waiting = self.holds.cx.names.open_queue(queue);
        waiting.push(&mut self.holds.cx.tickets, id);
        self.sleep_unless_attempting(now, queue);
    }
}
