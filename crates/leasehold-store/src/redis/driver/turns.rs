//! How a task of the driver lets others run.

use std::future::Future;
use std::pin::pin;
use std::task::Context;

use tokio::task::yield_now;

/// Polls the task of this turn again, after its runtime has run the other tasks and looked at timers and sockets. A task that
/// wakes itself is polled 61 times before that.
pub(super) fn come_back(cx: &mut Context<'_>) {
    // The yield wakes the task, whether or not it is polled again.
    let _ = pin!(yield_now()).poll(cx);
}
