//! Operations: calls that take no hold, such as counting a latch down.
//!
//! Invariant: an operation is retried only with the very same call, which has the same effect when it runs twice. It is
//! never retried for longer than the timeout, and not once its caller is gone.

use crate::backoff;
use crate::call::Call;
use crate::engine::base::context::{Context, Purpose};
use crate::engine::base::table::Table;
use crate::engine::base::timers::{Alarm, Timer};
use crate::engine::interface::{OperationFailure, Outcome};
use crate::engine::tickets::ticket::Ticket;
use crate::id::Id;
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError};
use crate::reply::Reply;

/// The operations that are on their way, or wait for their next attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Operations(Table<Id, Operation>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Operation {
    call: Call,
    since: Moment,
    failures: u32,
    /// True if an earlier attempt may have been applied.
    uncertain: bool,
    alarm: Alarm,
}

impl Operations {
    pub(in crate::engine) fn perform(&mut self, cx: &mut Context, now: Moment, id: Id, call: Call) {
        if cx.closed {
            return cx.complete(id, Outcome::Performed(Err(OperationFailure::Closed)));
        }
        cx.tickets.insert(id, Ticket::Performing);
        let operation =
            Operation { call, since: now, failures: 0, uncertain: false, alarm: Alarm::default() };
        self.0.insert(id, operation);
        self.due(cx, now, id);
    }

    /// Makes the call with the rest of the timeout.
    pub(in crate::engine) fn due(&mut self, cx: &mut Context, now: Moment, id: Id) {
        let Some(operation) = self.0.get_mut(id) else { return };
        operation.alarm.fired();
        let left = (operation.since + cx.settings.timeout).since(now);
        cx.send_within(operation.call.clone(), Purpose::Perform(id), left);
    }

    /// Handles the answer to an operation. An operation whose caller is gone is ignored.
    pub(in crate::engine) fn answered(
        &mut self,
        cx: &mut Context,
        now: Moment,
        id: Id,
        result: Result<Reply, StoreError>,
    ) {
        let Some(operation) = self.0.get_mut(id) else { return };
        let error = match result {
            Ok(reply) => return self.end(cx, id, Ok(reply)),
            Err(error) => error,
        };
        operation.uncertain |= error.applied == Applied::Unknown;
        operation.failures += 1;
        let pause = backoff::after_failures(operation.failures - 1, id.0);
        if error.kind.is_transient() && now + pause < operation.since + cx.settings.timeout {
            return operation.alarm.set(&mut cx.timers, Timer::Operation(id), now + pause);
        }
        let applied = if operation.uncertain { Applied::Unknown } else { error.applied };
        self.end(cx, id, Err(OperationFailure::Failed(error.with_applied(applied))));
    }

    fn end(&mut self, cx: &mut Context, id: Id, outcome: Result<Reply, OperationFailure>) {
        self.stop(cx, id);
        cx.complete_if_wanted(id, Outcome::Performed(outcome));
    }

    /// Forgets an operation whose caller is gone. The call on its way is not repeated.
    pub(in crate::engine) fn stop(&mut self, cx: &mut Context, id: Id) {
        if let Some(mut operation) = self.0.remove(id) {
            operation.alarm.clear(&mut cx.timers, Timer::Operation(id));
        }
    }

    /// Ends all operations of a closed client without waiting for the calls on their way.
    pub(in crate::engine) fn end_all(&mut self, cx: &mut Context) {
        for id in self.0.sorted_keys() {
            self.end(cx, id, Err(OperationFailure::Closed));
        }
    }
}
