//! Operations: calls that take no hold, such as counting a latch down.
//!
//! Invariant: an operation is retried only with the very same call, which has the same effect when it runs twice. It is
//! never retried for longer than the timeout, and not once its caller is gone.

use crate::backoff;
use crate::call::Call;
use crate::engine::base::context::Purpose;
use crate::engine::base::timers::{Alarm, Timer};
use crate::engine::tickets::operations::Operation;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::{Engine, Id, OperationFailure, Outcome};
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError};
use crate::reply::Reply;

impl Engine {
    pub(in crate::engine) fn perform(&mut self, now: Moment, id: Id, call: Call) {
        if self.waits.holds.cx.closing.is_some() {
            return self.waits.holds.cx.complete(id, Outcome::Performed(Err(OperationFailure::Closed)));
        }
        self.waits.holds.cx.tickets.insert(id, Ticket::Performing);
        let operation =
            Operation { call, since: now, failures: 0, uncertain: false, alarm: Alarm::default() };
        self.operations.insert(id, operation);
        self.operation_due(now, id);
    }

    /// Makes the call with the rest of the timeout.
    pub(in crate::engine) fn operation_due(&mut self, now: Moment, id: Id) {
        let Some(operation) = self.operations.get_mut(id) else { return };
        operation.alarm.fired();
        let (call, left) =
            (operation.call.clone(), (operation.since + self.waits.holds.cx.settings.timeout).since(now));
        self.waits.holds.cx.send_within(call, Purpose::Perform(id), left);
    }

    /// Handles the answer to an operation. An operation whose caller is gone is ignored.
    pub(in crate::engine) fn performed(&mut self, now: Moment, id: Id, result: Result<Reply, StoreError>) {
        let Some(operation) = self.operations.get_mut(id) else { return };
        let error = match result {
            Ok(reply) => return self.end_operation(id, Ok(reply)),
            Err(error) => error,
        };
        operation.uncertain |= error.applied == Applied::Unknown;
        operation.failures += 1;
        let pause = backoff::after_failures(operation.failures - 1, id.0);
        if error.kind.is_transient() && now + pause < operation.since + self.waits.holds.cx.settings.timeout {
            return operation.alarm.set(&mut self.waits.holds.cx.timers, Timer::Operation(id), now + pause);
        }
        let applied = if operation.uncertain { Applied::Unknown } else { error.applied };
        self.end_operation(id, Err(OperationFailure::Failed(error.with_applied(applied))));
    }

    fn end_operation(&mut self, id: Id, outcome: Result<Reply, OperationFailure>) {
        self.stop_performing(id);
        self.waits.holds.cx.complete_if_wanted(id, Outcome::Performed(outcome));
    }

    /// Forgets an operation whose caller is gone. The call on its way is not repeated.
    pub(in crate::engine) fn stop_performing(&mut self, id: Id) {
        if let Some(mut operation) = self.operations.remove(id) {
            operation.alarm.clear(&mut self.waits.holds.cx.timers, Timer::Operation(id));
        }
    }

    /// Ends all operations of a closed client without waiting for the calls on their way.
    pub(in crate::engine) fn end_operations(&mut self) {
        for id in self.operations.sorted_keys() {
            self.end_operation(id, Err(OperationFailure::Closed));
        }
    }
}
