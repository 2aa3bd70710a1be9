//! The claim, the cancel and the release of a ticket.
//!
//! Invariant: an outcome is reported once. A grant becomes a hold only by its claim, and is not renewed before
//! (docs/guarantees.md, rule 6).

use crate::engine::base::keys::Number;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::acquire::Stage;
use crate::engine::{Action, Engine, Id, Outcome};
use crate::moment::Moment;

impl Engine {
    /// Reports a ticket's outcome, if there is one, and takes a grant.
    pub(in crate::engine) fn claim(&mut self, now: Moment, id: Id) {
        match self.waits.holds.cx.tickets.get(id) {
            Some(Ticket::Released(held)) => {
                let outcome = Outcome::Released(Ok(*held));
                self.waits.holds.cx.tickets.remove(id);
                self.waits.holds.cx.actions.push(Action::Complete(id, outcome));
            }
            Some(Ticket::Completed(_)) => {
                if let Some(Ticket::Completed(outcome)) = self.waits.holds.cx.tickets.remove(id) {
                    self.waits.holds.cx.actions.push(Action::Complete(id, *outcome));
                }
            }
            Some(Ticket::Acquire(acquire)) => match acquire.stage {
                Stage::Granted(hold) => self.claim_grant(now, id, hold),
                Stage::Expired(hold) => self.waits.acquire_again(now, id, hold),
                Stage::Waiting(_) | Stage::Entering { .. } => {}
            },
            Some(Ticket::Ensuring(_) | Ticket::Performing | Ticket::Pending) | None => {}
        }
    }

    /// Takes the outcome of a release that has woken its caller: true if the lock was held until then. Returns `None` for
    /// any other ticket. A grant needs the claim of its caller, and a release does not.
    pub fn take_released(&mut self, id: Id) -> Option<bool> {
        let Some(&Ticket::Released(held)) = self.waits.holds.cx.tickets.get(id) else { return None };
        self.waits.holds.cx.tickets.remove(id);
        Some(held)
    }

    /// Gives up a ticket of any kind.
    pub(in crate::engine) fn cancel(&mut self, now: Moment, id: Id) {
        self.waits.holds.cx.note(|facts| facts.not_acquired(id, None));
        match self.waits.holds.cx.tickets.remove(id) {
            Some(Ticket::Acquire(acquire)) => self.waits.leave(now, id, *acquire),
            Some(Ticket::Ensuring(hold)) => self.waits.holds.stop_ensuring(id, hold),
            Some(Ticket::Performing) => self.operations.stop(&mut self.waits.holds.cx, id),
            Some(Ticket::Pending | Ticket::Released(_) | Ticket::Completed(_)) | None => {}
        }
    }

    fn claim_grant(&mut self, now: Moment, id: Id, number: Number) {
        let Some((token, valid_until)) = self.waits.holds.claim(now, id, number) else {
            return self.waits.acquire_again(now, id, number);
        };
        self.checks.check_after_claim(&mut self.waits, now, number);
        self.waits.holds.hand_over(id, number, token, valid_until);
    }

    /// Removes one hold of a caller. The report tells this caller the outcome.
    pub(in crate::engine) fn release(&mut self, now: Moment, guard: Id, report: Option<Id>) {
        self.waits.holds.cx.await_report(report);
        match self.waits.holds.of_guard(guard) {
            Some(number) => self.waits.holds.drop_guard(now, guard, number, report),
            None => self.waits.holds.cx.report(report, &Outcome::Released(Ok(false))),
        }
    }
}
