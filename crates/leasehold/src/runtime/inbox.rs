//! The inbox: a crowd of callers leaves its requests to the thread that reads the replies.
//!
//! Invariant: the flag and the requests change under one lock, and a closed inbox is empty.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_proto::engine::{Event, Id};

use crate::runtime::signal::Signal;
use crate::runtime::sync::{AtomicBool, Mutex, lock};

/// The requests that were left since the last turn.
#[derive(Default)]
pub(in crate::runtime) struct Inbox {
    /// Changed under the lock of the requests. A caller that reads a stale `false` steps the engine itself, and one that reads a
    /// stale `true` finds out under the lock.
    is_open: AtomicBool,
    requests: Mutex<VecDeque<Left>>,
}

/// A request that was left, with the signal of its future.
pub(in crate::runtime) struct Left {
    pub(in crate::runtime) id: Id,
    pub(in crate::runtime) event: Event,
    pub(in crate::runtime) signal: Arc<Signal>,
}

impl Inbox {
    /// Leaves a request. Returns its event if the inbox is closed.
    pub(in crate::runtime) fn leave(&self, id: Id, event: Event, signal: &Arc<Signal>) -> Option<Event> {
        let mut requests = lock(&self.requests);
        if !self.is_open() {
            return Some(event);
        }
        requests.push_back(Left { id, event, signal: Arc::clone(signal) });
        None
    }

    pub(in crate::runtime) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Takes the requests. `opens` decides by their number whether the inbox is open until the next turn.
    pub(in crate::runtime) fn turn(
        &self,
        into: &mut VecDeque<Left>,
        opens: impl FnOnce(usize) -> bool,
    ) -> bool {
        let mut requests = lock(&self.requests);
        let opens = opens(requests.len());
        self.is_open.store(opens, Ordering::Relaxed);
        take(&mut requests, into);
        opens
    }

    /// Takes the requests between two turns.
    pub(in crate::runtime) fn empty(&self, into: &mut VecDeque<Left>) {
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
