//! Operations: calls that take no hold, such as counting a latch down.
//!
//! Invariant: an operation is retried only with the very same call, which has the same effect when it runs twice. It is
//! never retried for longer than the timeout, and not once its caller is gone.

use super::state::{Operation, Purpose, Ticket};
use super::timer::Timer;
use super::{Engine, Id, OperationFailure, Outcome};
use crate::backoff;
use crate::call::{Call, Reply};
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError};

impl Engine {
    pub(super) fn perform(&mut self, now: Moment, id: Id, call: Call) {
        if self.closing.is_some() {
            return self.complete(id, Outcome::Performed(Err(OperationFailure::Closed)));
        }
        self.tickets.insert(id, Ticket::Performing);
        self.operations.insert(id, Operation { call, since: now, failures: 0, uncertain: false });
        self.perform_again(now, id);
    }

    /// Makes the call with the rest of the timeout.
    pub(super) fn perform_again(&mut self, now: Moment, id: Id) {
        let Some(operation) = self.operations.get(&id) else { return };
        let (call, left) = (operation.call.clone(), (operation.since + self.settings.timeout).since(now));
        self.run_within(call, Purpose::Perform(id), left);
    }

    /// Handles the answer to an operation. An operation whose caller is gone is ignored.
    pub(super) fn performed(&mut self, now: Moment, id: Id, result: Result<Reply, StoreError>) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let error = match result {
            Ok(reply) => return self.end_operation(id, Ok(reply)),
            Err(error) => error,
        };
        operation.uncertain |= error.applied == Applied::Unknown;
        operation.failures += 1;
        let pause = backoff::after_failures(operation.failures - 1, id.0);
        if error.kind.is_transient() && now + pause < operation.since + self.settings.timeout {
            return self.timers.set(Timer::Perform(id), now + pause);
        }
        let applied = if operation.uncertain { Applied::Unknown } else { error.applied };
        self.end_operation(id, Err(OperationFailure::Failed(error.with_applied(applied))));
    }

    fn end_operation(&mut self, id: Id, outcome: Result<Reply, OperationFailure>) {
        self.operations.remove(&id);
        self.timers.clear(Timer::Perform(id));
        self.complete_if_wanted(id, Outcome::Performed(outcome));
    }

    /// Forgets an operation whose caller is gone. The in-flight call is not repeated.
    pub(super) fn stop_performing(&mut self, id: Id) {
        self.operations.remove(&id);
        self.timers.clear(Timer::Perform(id));
    }

    /// Ends all operations of a closed client without waiting for in-flight calls.
    pub(super) fn end_operations(&mut self) {
        for id in std::mem::take(&mut self.operations).into_keys() {
            self.timers.clear(Timer::Perform(id));
            self.complete_if_wanted(id, Outcome::Performed(Err(OperationFailure::Closed)));
        }
    }
}
