//! A ticket: one acquire, release or renewal that a caller waits for, until it claims the outcome.
//!
//! Invariant: an outcome is reported once. A grant becomes a hold only by its claim, and is not renewed before
//! (docs/guarantees.md, rule 6).

use std::time::Duration;

use super::state::{Acquiring, Stage, Ticket};
use super::timer::Timer;
use super::{AcquireFailure, Action, Engine, Id, Outcome, Wait};
use crate::moment::Moment;
use crate::owner::WireOwner;

/// The longest time that a grant waits for its claim.
const UNCLAIMED_MAX: Duration = Duration::from_secs(5);

impl Engine {
    /// Reports a ticket's outcome, if there is one, and takes a grant.
    pub(super) fn claim(&mut self, now: Moment, id: Id) {
        match self.tickets.get_mut(&id) {
            Some(Ticket::Completed(_)) => {
                if let Some(Ticket::Completed(outcome)) = self.tickets.remove(&id) {
                    self.actions.push(Action::Complete(id, outcome));
                }
            }
            Some(Ticket::Acquire(acquiring)) => match acquiring.stage {
                Stage::Granted(wire) => self.claim_grant(now, id, wire),
                Stage::Expired(wire) => self.reacquire(now, id, wire),
                Stage::Waiting(_) | Stage::Entering { .. } => {}
            },
            Some(Ticket::Ensuring(_) | Ticket::Performing | Ticket::Pending) | None => {}
        }
    }

    /// Gives up a ticket of any kind.
    pub(super) fn cancel(&mut self, now: Moment, id: Id) {
        match self.tickets.remove(&id) {
            Some(Ticket::Acquire(acquiring)) => self.leave(now, id, *acquiring),
            Some(Ticket::Ensuring(wire)) => self.stop_ensuring(id, wire),
            Some(Ticket::Performing) => self.stop_performing(id),
            Some(Ticket::Pending | Ticket::Completed(_)) | None => {}
        }
    }

    /// Handles the end of a caller's wait.
    pub(super) fn deadline(&mut self, now: Moment, id: Id) {
        let acquiring = match self.tickets.get(&id) {
            Some(Ticket::Acquire(acquiring)) => acquiring,
            Some(Ticket::Ensuring(wire)) => return self.ensure_overdue(now, id, *wire),
            Some(Ticket::Performing | Ticket::Pending | Ticket::Completed(_)) | None => return,
        };
        let failure = match &acquiring.stage {
            Stage::Waiting(_) => self.verdict(now, id),
            Stage::Entering { wire, .. } => self.entering_verdict(now, id, *wire),
            Stage::Expired(_) => AcquireFailure::Unclaimed,
            // The ticket was granted in time. Another timer bounds the claim.
            Stage::Granted(_) => return,
        };
        self.fail(now, id, failure);
    }

    /// Ends an acquire without a hold.
    pub(super) fn fail(&mut self, now: Moment, id: Id, failure: AcquireFailure) {
        if let Some(Ticket::Acquire(acquiring)) = self.tickets.remove(&id) {
            self.leave(now, id, *acquiring);
            self.complete(id, Outcome::Acquired(Err(failure)));
        }
    }

    /// Stores an outcome for its caller and notifies the caller.
    pub(super) fn complete(&mut self, id: Id, outcome: Outcome) {
        self.tickets.insert(id, Ticket::Completed(outcome));
        self.wake(id);
    }

    /// Completes a ticket unless its caller has given it up.
    pub(super) fn complete_if_wanted(&mut self, id: Id, outcome: Outcome) {
        if self.tickets.contains_key(&id) {
            self.complete(id, outcome);
        }
    }

    /// Marks a ticket's acquire as granted and notifies its caller, which has limited time to claim it.
    pub(super) fn grant(&mut self, now: Moment, id: Id, wire: WireOwner) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get_mut(&id) else {
            return;
        };
        acquiring.stage = Stage::Granted(wire);
        let claim_within = (acquiring.request.first_lease().duration() / 3).min(UNCLAIMED_MAX);
        self.timers.clear(Timer::Deadline(id));
        self.timers.set(Timer::Unclaimed(id), now + claim_within);
        self.wake(id);
    }

    /// Undoes a grant that was not claimed, so that a future that is not polled blocks other waiters only briefly.
    pub(super) fn expire_unclaimed(&mut self, now: Moment, id: Id) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get_mut(&id) else {
            return;
        };
        let Stage::Granted(wire) = acquiring.stage else {
            return;
        };
        acquiring.stage = Stage::Expired(wire);
        if let Wait::Until(deadline) = acquiring.request.wait {
            self.timers.set(Timer::Deadline(id), deadline);
        }
        self.drop_hold(now, id, None);
    }

    /// Removes an acquire from the wait queue or server hold that it is in, with an undo if it may have left something
    /// on the server.
    fn leave(&mut self, now: Moment, id: Id, acquiring: Acquiring) {
        self.timers.clear(Timer::Deadline(id));
        match acquiring.stage {
            Stage::Waiting(waiter) => self.leave_queue(now, id, &acquiring.request, &waiter),
            Stage::Entering { wire, .. } => self.stop_entering(now, id, wire),
            Stage::Granted(_) => self.drop_hold(now, id, None),
            Stage::Expired(_) => {}
        }
    }
}
