//! The user's future for one acquire, release or renewal.
//!
//! Invariant: the engine is told when the future is dropped, so whatever it had begun is undone or forgotten; an
//! outcome that was taken is taken with no await point between it and the caller.
//! Called by: locks, guards and the client.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use leasehold_proto::engine::{Event, Id, Outcome};

use crate::shared::{Forked, Handle};

/// Waits for the outcome of the event that it brings.
pub(crate) struct Ticket {
    handle: Arc<Handle>,
    id: Id,
    stage: Stage,
}

enum Stage {
    New(Event),
    Waiting,
    Done,
}

impl Ticket {
    /// A ticket for the event that `event` makes of the ticket's id; it is brought at the first poll.
    pub(crate) fn new(handle: &Arc<Handle>, event: impl FnOnce(Id) -> Event) -> Self {
        let id = handle.next_id();
        Self { handle: Arc::clone(handle), id, stage: Stage::New(event(id)) }
    }

    /// The ticket's id; after a granted acquire it is the hold's.
    pub(crate) const fn id(&self) -> Id {
        self.id
    }
}

impl Future for Ticket {
    type Output = Result<Outcome, Forked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let first = match std::mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::New(event) => Some(event),
            Stage::Waiting | Stage::Done => None,
        };
        match self.handle.claim(self.id, first, cx.waker()) {
            Ok(None) => Poll::Pending,
            Ok(Some(outcome)) => {
                self.stage = Stage::Done;
                Poll::Ready(Ok(outcome))
            }
            Err(forked) => {
                self.stage = Stage::Done;
                Poll::Ready(Err(forked))
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Waiting) {
            // In a forked process it is the parent's to give up.
            let _ = self.handle.step(Event::Cancel(self.id)).and_then(|()| self.handle.forget(self.id));
        }
    }
}
