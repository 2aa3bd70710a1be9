//! The outcomes of tickets: what a caller is told, and that there is something to claim.
//!
//! Invariant: an outcome is reported once, and never to a caller that has given its ticket up.

use crate::engine::base::context::Context;
use crate::engine::base::keys::Number;
use crate::engine::base::timers::Timer;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::acquire::{Acquire, Stage};
use crate::engine::{GrantedBy, Id, Outcome};

impl Context {
    /// Stores an outcome for its caller and notifies the caller.
    pub(in crate::engine) fn complete(&mut self, id: Id, outcome: Outcome) {
        self.note(|facts| facts.completed(id, &outcome));
        let ticket = match outcome {
            Outcome::Released(Ok(held)) => Ticket::Released(held),
            outcome => Ticket::Completed(Box::new(outcome)),
        };
        self.tickets.insert(id, ticket);
        self.wake(id);
    }

    /// Completes a ticket unless its caller has given it up.
    pub(in crate::engine) fn complete_if_wanted(&mut self, id: Id, outcome: Outcome) {
        if self.tickets.contains(id) {
            self.complete(id, outcome);
        }
    }

    /// Makes a ticket for the caller that waits for the outcome of a release.
    pub(in crate::engine) fn await_report(&mut self, report: Option<Id>) {
        if let Some(id) = report {
            self.tickets.insert(id, Ticket::Pending);
        }
    }

    /// Reports the outcome of a release to all its callers.
    pub(in crate::engine) fn report(&mut self, ids: impl IntoIterator<Item = Id>, outcome: &Outcome) {
        for id in ids {
            self.complete_if_wanted(id, outcome.clone());
        }
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

    /// Stops the deadline of an acquire that ends, and the withdrawal that it has asked for.
    pub(in crate::engine) fn stop_deadline(&mut self, id: Id, acquire: &mut Acquire) {
        acquire.deadline.clear(&mut self.timers, Timer::Deadline(id));
        self.withdrawals.retain(|(_, asking)| *asking != id);
    }

    /// Marks a ticket's acquire as granted and notifies its caller, which has limited time to claim it.
    pub(in crate::engine) fn grant(&mut self, id: Id, number: Number, by: GrantedBy) {
        self.note(|facts| facts.granted_by(id, by));
        let timers = &mut self.timers;
        let Some(Ticket::Acquire(acquire)) = self.tickets.get_mut(id) else { return };
        acquire.deadline.clear(timers, Timer::Deadline(id));
        acquire.stage = Stage::Granted(number);
        self.wake(id);
    }
}
