//! Withdrawals: the calls that are taken back when a wait is over, if they were not sent.
//!
//! Invariant: a waiter whose time is over gets no grant. It fails when the answer to its withdrawal is there, which the
//! driver gives at once.
//!
//! # How it works
//! While no server can be reached, a call waits in the store for a connection. The engine cannot see whether its bytes
//! have left, so at the end of a wait it asks for the call. A call that was not sent comes back with an error, and then
//! nothing was acquired. A call that is [kept](crate::engine::Event::Kept) may run, and the outcome is unknown.

use crate::engine::waits::Waits;
use crate::engine::waits::acquire::Stage;
use crate::engine::{Action, CallId, Id};
use crate::moment::Moment;

impl Waits {
    /// Asks for the call on its way for an acquire whose time is over. Returns false if there is none.
    pub(in crate::engine) fn withdraw(&mut self, id: Id) -> bool {
        if self.holds.cx.withdrawals.iter().any(|(_, asking)| *asking == id) {
            return true;
        }
        let Some(call) = self.call_for(id).filter(|call| self.holds.cx.is_on_its_way(*call)) else {
            return false;
        };
        self.holds.cx.withdrawals.push((call, id));
        self.holds.cx.actions.push(Action::Withdraw(call));
        true
    }

    /// Returns the last call for an acquire: its own, that of its queue, or the one by which it enters a hold.
    fn call_for(&self, id: Id) -> Option<CallId> {
        let acquire = self.holds.cx.acquire_of(id)?;
        match &acquire.stage {
            Stage::Waiting(waiter) => {
                let own = waiter.tries.as_ref().and_then(|tries| tries.call);
                let of_queue = || {
                    let queue = self.holds.cx.names.queue(acquire.queue())?;
                    queue.tries.call.filter(|_| queue.first() == Some(id))
                };
                own.or(waiter.attempted).or_else(of_queue)
            }
            Stage::Entering { hold, .. } => {
                let hold = self.holds.get(*hold)?;
                let sent = hold.reentry.as_ref()?.sent.as_ref()?;
                hold.call.filter(|_| sent.reentries.contains(&id))
            }
            Stage::Granted(_) | Stage::Expired(_) => None,
        }
    }

    /// Handles the answer that a call was sent, so it may have run.
    pub(in crate::engine) fn kept(&mut self, now: Moment, call: CallId) {
        for id in self.take_withdrawals(call) {
            self.deadline_is_over(now, id);
        }
    }

    /// Returns the tickets that have asked for a call, which is answered now.
    pub(in crate::engine) fn take_withdrawals(&mut self, call: CallId) -> Vec<Id> {
        if self.holds.cx.withdrawals.is_empty() {
            return Vec::new();
        }
        self.holds.cx.withdrawals.extract_if(.., |(asked, _)| *asked == call).map(|(_, id)| id).collect()
    }
}
