//! The requests that callers leave to the thread that reads the replies.
//!
//! Invariant: requests are left only while that thread is about to come back, so a closed inbox is empty. They are taken out
//! under the engine's lock, and whoever brings another event of a caller brings them first. So no event overtakes an earlier
//! one, and a request that its future gives up is known.
//!
//! # How it works
//! A crowd of answers wakes a crowd of tasks, and each of them soon wants the next call. If each stepped the engine and the
//! wire on its own thread, the state of both would go from core to core with each step. So the tasks leave their requests
//! here, and the thread that has woken them brings all of them in its next turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_proto::engine::{CallId, Event, Id, Wait};
use leasehold_proto::{Moment, Reply, StoreError};

use super::{Effects, Shared, State};
use crate::runtime::signal::Signal;
use crate::runtime::sync::{AtomicBool, Mutex, lock};

/// The answers, and the requests left, from which on the next turn is worth waiting for. Interleavings have few callers.
const CROWD: usize = if cfg!(shuttle) { 1 } else { 4 };
/// The most outcomes under one lock, so that callers get their turns between them.
const OUTCOMES: usize = 64;
/// The most requests whose calls leave together. The server then works on them while this thread goes on with the others.
const TOGETHER: usize = 32;
/// The time that a wait must have left. A runtime that stands still delays a request that was left by 20 ms.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// The requests that were left since the last turn.
#[derive(Default)]
pub(super) struct Inbox {
    /// Changed under the lock of the requests. A caller that reads an old value steps the engine itself, or finds out under
    /// the lock.
    is_open: AtomicBool,
    requests: Mutex<VecDeque<Left>>,
}

/// A request that was left, with the signal of its future.
pub(super) struct Left {
    id: Id,
    event: Event,
    signal: Arc<Signal>,
}

impl Inbox {
    /// Leaves a request. Returns its event if nobody is about to come.
    pub(super) fn leave(&self, id: Id, event: Event, signal: &Arc<Signal>) -> Option<Event> {
        let mut requests = lock(&self.requests);
        if !self.is_open() {
            return Some(event);
        }
        requests.push_back(Left { id, event, signal: Arc::clone(signal) });
        None
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Takes the requests. The number of them decides whether the inbox is open from now on, which is returned.
    fn turn(&self, into: &mut VecDeque<Left>, opens: impl FnOnce(usize) -> bool) -> bool {
        let mut requests = lock(&self.requests);
        let opens = opens(requests.len());
        self.is_open.store(opens, Ordering::Relaxed);
        take(&mut requests, into);
        opens
    }

    /// Takes the requests between two turns.
    fn empty(&self, into: &mut VecDeque<Left>) {
        if self.is_open() {
            take(&mut lock(&self.requests), into);
        }
    }
}

/// Moves requests behind others.
fn take(requests: &mut VecDeque<Left>, into: &mut VecDeque<Left>) {
    if into.is_empty() {
        std::mem::swap(into, requests);
    } else {
        into.append(requests);
    }
}

impl Shared {
    /// Takes outcomes, and then the requests that were left. Returns true if callers leave their requests from now on, which
    /// they do only if the store comes back.
    pub(super) fn turn(&self, outcomes: Vec<(CallId, Result<Reply, StoreError>)>, comes_back: bool) -> bool {
        let is_crowd = outcomes.len() >= CROWD;
        let mut outcomes = outcomes.into_iter();
        let mut opened = None;
        loop {
            let (mut state, mut effects) = (self.lock(), Effects { by_driver: true, ..Effects::default() });
            // The inbox opens before the first task is woken.
            let opens = *opened.get_or_insert_with(|| {
                let may_open = comes_back && !state.ended;
                self.inbox.turn(&mut state.left, |left| may_open && (is_crowd || left >= CROWD))
            });
            let now = self.now();
            for (id, outcome) in outcomes.by_ref().take(OUTCOMES) {
                state.step(now, Event::Replied(id, outcome), &mut effects);
            }
            if outcomes.len() == 0 {
                state.bring_left(now, TOGETHER, &mut effects);
            }
            let ends = outcomes.len() == 0 && state.left.is_empty();
            self.leave(state, effects);
            if ends {
                return opens;
            }
        }
    }

    /// Brings all requests that were left.
    pub(super) fn bring_all_left(&self, state: &mut State, effects: &mut Effects) {
        self.inbox.empty(&mut state.left);
        if !state.left.is_empty() {
            state.bring_left(self.now(), usize::MAX, effects);
        }
    }

    /// Brings all requests that were left, and lets callers leave no more.
    pub(super) fn close_inbox(&self, state: &mut State, effects: &mut Effects) {
        self.inbox.turn(&mut state.left, |_| false);
        state.bring_left(self.now(), usize::MAX, effects);
    }

    /// Returns true if this event is to be left, because another thread may bring it a turn later.
    pub(super) fn is_to_be_left(&self, event: &Event) -> bool {
        self.inbox.is_open()
            && match event {
                Event::Acquire(_, request) => match request.wait {
                    Wait::Until(end) => end.since(self.now()) >= WAIT_MIN,
                    Wait::Forever | Wait::Once => true,
                },
                Event::Release { .. } => true,
                _ => false,
            }
    }
}

impl State {
    /// Brings the first requests that were left, at most so many.
    fn bring_left(&mut self, now: Moment, most: usize, effects: &mut Effects) {
        for _ in 0..most {
            let Some(Left { id, event, signal }) = self.left.pop_front() else { return };
            self.listen((id, id), &signal, false);
            self.step(now, event, effects);
        }
    }
}

#[cfg(test)]
mod tests;
