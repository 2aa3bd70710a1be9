//! The claim, the deadline and the end of a ticket.
//!
//! Invariant: an outcome is reported once. A grant becomes a hold only by its claim, and is not renewed before
//! (docs/guarantees.md, rule 6).

use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::acquire::{Acquire, Stage};
use crate::engine::{AcquireFailure, Action, Engine, Id, Outcome, Wait};
use crate::moment::Moment;

impl Engine {
    /// Reports a ticket's outcome, if there is one, and takes a grant.
    pub(in crate::engine) fn claim(&mut self, now: Moment, id: Id) {
        self.catch_up(now, id);
        match self.tickets.get(id) {
            Some(Ticket::Released(held)) => {
                let outcome = Outcome::Released(Ok(*held));
                self.tickets.remove(id);
                self.cx.actions.push(Action::Complete(id, outcome));
            }
            Some(Ticket::Completed(_)) => {
                if let Some(Ticket::Completed(outcome)) = self.tickets.remove(id) {
                    self.cx.actions.push(Action::Complete(id, *outcome));
                }
            }
            Some(Ticket::Acquire(acquire)) => match acquire.stage {
                Stage::Granted(hold) => self.claim_grant(now, id, hold),
                Stage::Expired(hold) => self.acquire_again(now, id, hold),
                Stage::Waiting(_) | Stage::Entering { .. } => {}
            },
            Some(Ticket::Ensuring(_) | Ticket::Performing | Ticket::Pending) | None => {}
        }
    }

    /// Takes the outcome of a release that has woken its caller: true if the lock was held until then. Returns `None` for
    /// any other ticket. A grant needs the claim of its caller, and a release does not.
    pub fn take_released(&mut self, id: Id) -> Option<bool> {
        let Some(&Ticket::Released(held)) = self.tickets.get(id) else { return None };
        self.tickets.remove(id);
        Some(held)
    }

    /// Gives up a ticket of any kind.
    pub(in crate::engine) fn cancel(&mut self, now: Moment, id: Id) {
        self.cx.note(|facts| facts.not_acquired(id, None));
        self.give_up(now, id);
    }

    /// Removes a ticket of any kind, with what it has asked for.
    pub(in crate::engine) fn give_up(&mut self, now: Moment, id: Id) {
        match self.tickets.remove(id) {
            Some(Ticket::Acquire(acquire)) => self.leave(now, id, *acquire),
            Some(Ticket::Ensuring(hold)) => self.stop_ensuring(id, hold),
            Some(Ticket::Performing) => self.stop_performing(id),
            Some(Ticket::Pending | Ticket::Released(_) | Ticket::Completed(_)) | None => {}
        }
    }

    /// Lets what is due for one ticket and its hold happen before an event that is about them. Other timers may be
    /// late, because one step fires only a few of them.
    pub(in crate::engine) fn catch_up(&mut self, now: Moment, id: Id) {
        let hold = match self.tickets.get(id) {
            Some(Ticket::Acquire(acquire)) => match acquire.stage {
                Stage::Granted(hold) | Stage::Entering { hold, .. } => Some(hold),
                Stage::Waiting(_) | Stage::Expired(_) => None,
            },
            Some(Ticket::Ensuring(hold)) => Some(*hold),
            Some(_) => None,
            None => self.holds.of_guard(id),
        };
        if let Some(hold) = hold {
            self.hold_due(now, hold);
        }
        self.deadline_due(now, id);
    }

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
        let acquire = self.acquire_of(id)?;
        let Wait::Until(deadline) = acquire.wait else { return None };
        if now < deadline {
            return None;
        }
        match acquire.stage {
            Stage::Waiting(_) => Some(self.verdict(now, id)),
            Stage::Entering { hold, .. } => Some(self.entering_verdict(now, id, hold)),
            Stage::Expired(_) => Some(AcquireFailure::Unclaimed),
            // The ticket was granted in time. The hold bounds the claim.
            Stage::Granted(_) => None,
        }
    }

    /// Ends an acquire without a hold.
    pub(in crate::engine) fn fail(&mut self, now: Moment, id: Id, failure: AcquireFailure) {
        debug_assert!(matches!(self.tickets.get(id), Some(Ticket::Acquire(_))), "{id:?} is no acquire");
        if matches!(failure, AcquireFailure::Unknown { .. }) {
            self.note_known(id);
        }
        if let Some(Ticket::Acquire(acquire)) = self.tickets.remove(id) {
            self.leave(now, id, *acquire);
            self.complete(id, Outcome::Acquired(Err(failure)));
        }
    }

    /// Stores an outcome for its caller and notifies the caller.
    pub(in crate::engine) fn complete(&mut self, id: Id, outcome: Outcome) {
        self.cx.note(|facts| facts.completed(id, &outcome));
        let ticket = match outcome {
            Outcome::Released(Ok(held)) => Ticket::Released(held),
            outcome => Ticket::Completed(Box::new(outcome)),
        };
        self.tickets.insert(id, ticket);
        self.cx.wake(id);
    }

    /// Completes a ticket unless its caller has given it up.
    pub(in crate::engine) fn complete_if_wanted(&mut self, id: Id, outcome: Outcome) {
        if self.tickets.contains(id) {
            self.complete(id, outcome);
        }
    }

    /// Reports the outcome of a release to all its callers.
    pub(in crate::engine) fn report(&mut self, ids: impl IntoIterator<Item = Id>, outcome: &Outcome) {
        for id in ids {
            self.complete_if_wanted(id, outcome.clone());
        }
    }

    /// Removes an acquire from the wait queue or server hold that it is in, with an undo if it may have left something
    /// on the server.
    fn leave(&mut self, now: Moment, id: Id, mut acquire: Acquire) {
        acquire.deadline.clear(&mut self.cx.timers, crate::engine::base::timers::Timer::Deadline(id));
        self.withdrawals.retain(|(_, asking)| *asking != id);
        self.forget_waiter_of_owner(id, &acquire);
        let place = acquire.place;
        match acquire.stage {
            Stage::Waiting(_) => self.leave_queue(now, id, acquire),
            Stage::Entering { hold, .. } => self.stop_entering(now, id, hold),
            Stage::Granted(hold) => self.drop_guard(now, id, hold, None),
            Stage::Expired(_) => {}
        }
        self.places.end_use(place);
    }

    pub(in crate::engine) fn acquire_of(&self, id: Id) -> Option<&Acquire> {
        match self.tickets.get(id) {
            Some(Ticket::Acquire(acquire)) => Some(acquire),
            _ => None,
        }
    }

    pub(in crate::engine) fn acquire_of_mut(&mut self, id: Id) -> Option<&mut Acquire> {
        match self.tickets.get_mut(id) {
            Some(Ticket::Acquire(acquire)) => Some(acquire),
            _ => None,
        }
    }
}
