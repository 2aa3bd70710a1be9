//! The user's future for one acquire, release or renewal.
//!
//! Invariant: dropping the future notifies the engine, which undoes or forgets the request. The future takes an outcome
//! with no await point between it and the caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_proto::engine::{Event, Id, Outcome, Wait};

use crate::error::Forked;
use crate::runtime::shared::Handle;
use crate::runtime::signal::Signal;

/// A future of the outcome of one event. Its first poll steps the engine, or leaves the event in the
/// inbox.
pub(crate) struct Ticket {
    handle: Arc<Handle>,
    id: Id,
    signal: Arc<Signal>,
    stage: Stage,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a ticket is new once, and boxing its event would cost an allocation"
)]
enum Stage {
    New(Event),
    Waiting,
    Done,
}

impl Ticket {
    /// Makes a ticket for the event that `event` makes of the ticket's id. The first poll steps the engine or
    /// leaves the event in the inbox.
    pub(crate) fn new(handle: &Arc<Handle>, event: impl FnOnce(Id) -> Event) -> Self {
        let id = handle.next_id();
        Self { handle: Arc::clone(handle), id, signal: Arc::default(), stage: Stage::New(event(id)) }
    }

    /// Returns the hold that a granted acquire begins: its id, which is the ticket's, and the signal of its validity.
    pub(crate) fn hold(&self) -> (Id, Arc<Signal>) {
        (self.id, Arc::clone(&self.signal))
    }
}

impl Future for Ticket {
    type Output = Result<Outcome, Forked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let first = match std::mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::New(event) => Some(event),
            Stage::Waiting | Stage::Done => None,
        };
        let delivered = first.is_none().then(|| self.handle.delivered(&self.signal)).flatten();
        let outcome = match delivered {
            Some(delivered) => Ok(Some(delivered)),
            None => self.handle.claim(self.id, first, &self.signal, cx.waker()),
        };
        let Some(outcome) = outcome.transpose() else { return Poll::Pending };
        self.stage = Stage::Done;
        Poll::Ready(outcome)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Waiting) {
            // A forked process leaves the ticket to the parent.
            let _ = self.handle.cancel(self.id);
        }
    }
}

/// Returns the end of a wait that begins now. A wait of zero makes exactly one attempt.
pub(crate) fn wait_for(handle: &Handle, wait: Duration) -> Wait {
    if wait.is_zero() { Wait::Once } else { Wait::Until(handle.now() + wait) }
}
