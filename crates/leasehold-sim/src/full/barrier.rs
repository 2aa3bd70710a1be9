//! A barrier, which stops a process, or the traffic of one direction, while it is closed.
//!
//! Invariant: tasks that wait at a closed barrier continue in the order in which they came.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// A barrier, open at first. Clones are the same barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Barrier(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    closed: bool,
    waiting: Vec<Waker>,
}

impl Barrier {
    pub(super) fn close(&self) {
        self.with(|state| state.closed = true);
    }

    pub(super) fn open(&self) {
        let waiting = self.with(|state| {
            state.closed = false;
            std::mem::take(&mut state.waiting)
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Opens or closes the barrier.
    pub(super) fn set(&self, open: bool) {
        if open { self.open() } else { self.close() }
    }

    /// Completes when the barrier is open.
    pub(super) fn poll_open(&self, cx: &Context<'_>) -> Poll<()> {
        self.with(|state| {
            if !state.closed {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|known| known.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Completes when the barrier is open.
    pub(super) async fn passed(&self) {
        std::future::poll_fn(|cx| self.poll_open(cx)).await;
    }

    /// Wraps work so that it is polled only while the barrier is open.
    pub(super) fn around<F: Future>(&self, work: F) -> BehindBarrier<F> {
        BehindBarrier { barrier: self.clone(), work: Box::pin(work) }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Work that is polled only while a barrier is open.
#[derive(Debug)]
pub(super) struct BehindBarrier<F> {
    barrier: Barrier,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for BehindBarrier<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        std::task::ready!(self.barrier.poll_open(cx));
        self.work.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn work_pauses_at_a_closed_barrier_and_continues_when_it_opens() {
        let barrier = Barrier::default();
        barrier.close();
        let mut work = barrier.around(async { 7 });
        assert_eq!((&mut work).now_or_never(), None);
        barrier.open();
        assert_eq!(work.now_or_never(), Some(7));
    }
}
