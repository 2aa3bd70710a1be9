//! The end of a wait without a hold: its deadline, its failure, and what the waiter leaves behind.
//!
//! Invariant: a waiter that leaves sends nothing but the undo of what its own attempts may have left.

use crate::engine::base::keys::{NameId, QueueId, Sides};
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::timers::Timer;
use crate::engine::holds::hold::Cause;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::Waits;
use crate::engine::waits::acquire::{Acquire, Stage, Waiter};
use crate::engine::waits::tries::{Tries, Used};
use crate::engine::{AcquireFailure, Grant, Id, Outcome, Wait};
use crate::moment::Moment;

impl Waits {
    /// Ends a caller's wait if its deadline has passed. Before it is told that the outcome of a call is unknown, the call
    /// is taken back, if it was not sent.
    pub(in crate::engine) fn deadline_due(&mut self, now: Moment, id: Id) {
        let Some(failure) = self.failure_by_deadline(now, id) else { return };
        let is_unknown = matches!(failure, AcquireFailure::Unknown { .. });
        if !(is_unknown && self.withdraw(id)) {
            self.fail(now, id, failure);
        }
    }

    /// Ends a caller's wait at once if its deadline has passed.
    pub(in crate::engine) fn deadline_is_over(&mut self, now: Moment, id: Id) {
        if let Some(failure) = self.failure_by_deadline(now, id) {
            self.fail(now, id, failure);
        }
    }

    /// Returns the failure of an acquire whose deadline has passed without a grant.
    fn failure_by_deadline(&self, now: Moment, id: Id) -> Option<AcquireFailure> {
        let acquire = self.holds.cx.acquire_of(id)?;
        let Wait::Until(deadline) = acquire.wait else { return None };
        if now < deadline {
            return None;
        }
        match acquire.stage {
            Stage::Waiting(_) => Some(self.verdict(now, id)),
            Stage::Entering { hold, .. } => Some(self.holds.entering_verdict(now, id, hold)),
            Stage::Expired(_) => Some(AcquireFailure::Unclaimed),
            // The ticket was granted in time. The hold bounds the claim.
            Stage::Granted(_) => None,
        }
    }

    /// Ends an acquire without a hold.
    pub(in crate::engine) fn fail(&mut self, now: Moment, id: Id, failure: AcquireFailure) {
        debug_assert!(
            matches!(self.holds.cx.tickets.get(id), Some(Ticket::Acquire(_))),
            "{id:?} is no acquire"
        );
        if matches!(failure, AcquireFailure::Unknown { .. }) {
            self.holds.cx.note_known(id);
        }
        if let Some(Ticket::Acquire(acquire)) = self.holds.cx.tickets.remove(id) {
            self.leave(now, id, *acquire);
            self.holds.cx.complete(id, Outcome::Acquired(Err(failure)));
        }
    }

    /// Removes an acquire from the wait queue or server hold that it is in, with an undo if it may have left something
    /// on the server.
    pub(in crate::engine) fn leave(&mut self, now: Moment, id: Id, mut acquire: Acquire) {
        self.holds.cx.stop_deadline(id, &mut acquire);
        self.forget_waiter_of_owner(id, &acquire);
        let name = acquire.name;
        match acquire.stage {
            Stage::Waiting(_) => self.leave_queue(now, id, acquire),
            Stage::Entering { hold, .. } => self.holds.stop_entering(now, id, hold),
            Stage::Granted(hold) => self.holds.drop_guard(now, id, hold, None),
            Stage::Expired(_) => {}
        }
        self.holds.cx.names.end_use(name);
    }

    /// Completes a wait without a hold.
    pub(in crate::engine) fn end_wait(
        &mut self,
        now: Moment,
        id: Id,
        outcome: Result<Grant, AcquireFailure>,
    ) {
        if let Some(Ticket::Acquire(acquire)) = self.holds.cx.tickets.remove(id) {
            self.leave(now, id, *acquire);
        }
        self.holds.cx.complete(id, Outcome::Acquired(outcome));
    }

    /// Removes a waiter, granted or leaving, from the waiters that wait for a hold of their own owner.
    pub(in crate::engine) fn forget_waiter_of_owner(&mut self, id: Id, acquire: &Acquire) {
        if acquire.recipe().holding.is_counted() {
            self.waiters.remove(&(acquire.name, acquire.recipe().held_side(), acquire.owner, id));
        }
    }

    /// Takes a leaving acquire out of its wait queue, and undoes what its own attempts may have left.
    pub(in crate::engine) fn leave_queue(&mut self, now: Moment, id: Id, acquire: Acquire) {
        let queue = acquire.queue();
        if let Stage::Waiting(waiter) = acquire.stage {
            self.leave_waiting(now, id, queue, waiter);
        }
    }

    /// Takes what a waiter had out of its wait queue.
    pub(in crate::engine) fn leave_waiting(&mut self, now: Moment, id: Id, queue: QueueId, waiter: Waiter) {
        let Waiter { tries, linked, .. } = waiter;
        if let Some(mut tries) = tries {
            tries.alarm.clear(&mut self.holds.cx.timers, Timer::Waiter(id));
            self.holds.cx.unlisten(Listener::Waiter(id));
            self.undo_tries(now, queue.name, &mut tries);
        }
        if let Some(links) = linked
            && let Some(waiting) = self.holds.cx.names.queue_mut(queue)
        {
            waiting.unlink(&mut self.holds.cx.tickets, links);
            if !self.holds.cx.closed {
                self.listen_in_server_queue(now, queue);
            }
            self.close_queue_if_over(now, queue);
        }
    }

    /// Undoes what earlier attempts may have acquired, and their place in a queue on the server. An attempt on its way
    /// does that when it is answered.
    pub(in crate::engine) fn undo_tries(&mut self, now: Moment, name: NameId, tries: &mut Tries) {
        let cause = match tries.unknown_until {
            Some(_) => Cause::UnknownAcquire,
            None if tries.queued => Cause::UnseenGrant,
            None => return,
        };
        if tries.call.is_none() {
            let queued = tries.queued;
            if let Some(Used { number, terms, .. }) = tries.drop_wire() {
                self.holds.undo(now, name, number, &terms, (terms.first_lease(), queued, cause));
            }
        }
    }

    /// Closes a queue without waiters. What its attempts may have left is undone, at once or when the attempt on its
    /// way is answered.
    pub(in crate::engine) fn close_queue_if_over(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue_mut(id).filter(|queue| queue.is_empty()) else { return };
        queue.tries.alarm.clear(&mut self.holds.cx.timers, Timer::Queue(id));
        queue.server.stop(&mut self.holds.cx.timers, id);
        let mut tries = std::mem::take(&mut queue.tries);
        self.holds.cx.unlisten(Listener::Queue(id));
        self.undo_tries(now, id.name, &mut tries);
        if let Some(queue) = self.holds.cx.names.queue_mut(id) {
            queue.tries = tries;
            if queue.is_over() {
                self.holds.cx.names.close_queue(id);
            }
        }
    }

    /// Returns the failure of a waiting acquire if it ends now. A waiter for which nothing was sent uses what its queue
    /// knows.
    pub(in crate::engine) fn verdict(&self, now: Moment, id: Id) -> AcquireFailure {
        let Some((acquire, waiter)) =
            self.holds.cx.acquire_of(id).and_then(|acquire| Some((acquire, acquire.waiter()?)))
        else {
            return AcquireFailure::Contended;
        };
        // An attempt on its way may run until its connection is closed.
        let arrives_by = self.holds.cx.arrives_by(now, true);
        let subject = self.holds.cx.subject(acquire);
        let of_attempt = waiter.attempted.map(|_| subject.gone_by(acquire.terms.first_lease(), arrives_by));
        let doubt_until = waiter.past.doubt_until().max(of_attempt);
        let bounds = (arrives_by, doubt_until);
        let terms = (&*acquire.terms, acquire.bound());
        let queue = self.holds.cx.names.queue(acquire.queue());
        match (&waiter.tries, queue) {
            (Some(tries), _) => {
                let verdict = tries.verdict(now, &subject, terms, bounds);
                let reads = self.holds.has_reader_beside(acquire.name, acquire.recipe(), acquire.owner);
                if reads { verdict.without_bound() } else { verdict }
            }
            (None, Some(queue)) => {
                let verdict = queue.tries.verdict(now, &subject, terms, bounds);
                let is_attempted = queue.first() == Some(id) || doubt_until.is_some();
                if is_attempted { verdict } else { verdict.without_doubt() }
            }
            (None, None) => AcquireFailure::Contended,
        }
    }

    /// Fails the whole wait queue after the store has failed for a whole timeout, so that each waiter does not have to
    /// find that out one after the other.
    pub(in crate::engine) fn fail_queue(&mut self, now: Moment, id: QueueId) {
        let waiters = self.holds.cx.waiters_in(id);
        let verdicts: Vec<AcquireFailure> = waiters.iter().map(|id| self.verdict(now, *id)).collect();
        for (id, verdict) in waiters.into_iter().zip(verdicts) {
            self.fail(now, id, verdict);
        }
    }

    pub(in crate::engine) fn fail_with_verdict(&mut self, now: Moment, id: Id) {
        let verdict = self.verdict(now, id);
        self.fail(now, id, verdict);
    }
}
