//! What a crowd of callers leaves to the thread that reads the replies.
//!
//! Invariant: the inbox is open only while that thread is about to come back, so a closed inbox is empty. Requests are taken out
//! under the engine's lock, and any other event of a caller brings them first. So no event overtakes an earlier one, and the
//! engine knows every request that a dropped future cancels.
//!
//! # How it works
//! A crowd of replies wakes a crowd of tasks, and each of them soon makes its next request. If each stepped the engine and the
//! wire on its own thread, their state would travel from core to core with every step. Instead the reading thread lets the
//! tasks run, and then steps for all of them ([decision 0035][decision]).
//!
//! [decision]: https://github.com/leasehold-rs/leasehold/blob/main/docs/decisions/0035-the-inbox.md

use std::time::Duration;

use leasehold_proto::engine::{CallId, Event, Wait};
use leasehold_proto::{Moment, Reply, StoreError};

use super::{Effects, Shared, State};
use crate::runtime::inbox::Left;

/// This many replies, or requests left, make another turn worthwhile. Interleavings have too few callers for a crowd.
const CROWD: usize = if cfg!(shuttle) { 1 } else { 4 };
/// The most outcomes under one lock, so that callers get their turns between them.
const OUTCOMES: usize = 64;
/// The inbox keeps its memory for so many requests, so that one burst does not keep memory for good.
const BUFFERED: usize = 256;
/// At most this many requests leave together, so that the server works on them while this thread steps the others. With 64 tasks
/// and 64 requests together, client and server took turns at waiting: 0.58 of a hand-written lock's rate, and 0.79 with 32.
const TOGETHER: usize = 32;
/// A shorter wait steps the engine itself, because a blocked runtime delays a left request by 20 ms.
const WAIT_MIN: Duration = Duration::from_millis(100);

impl Shared {
    /// Steps the engine for outcomes, and then for the requests that were left. Returns true if the inbox is open until the
    /// store comes back.
    pub(super) fn turn(&self, outcomes: Vec<(CallId, Result<Reply, StoreError>)>, comes_back: bool) -> bool {
        // A forked process that drives its parent's runtime must not bring the parent's requests, too.
        if self.check_process().is_err() {
            return false;
        }
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
    /// Brings the first requests that were left, at most so many. An observer of the callers must not stop whoever brings them.
    fn bring_left(&mut self, now: Moment, most: usize, effects: &mut Effects) {
        let own = std::mem::take(&mut effects.facts);
        for _ in 0..most {
            let Some(Left { id, event, signal }) = self.left.pop_front() else { break };
            self.listen((id, id), &signal, false);
            self.step(now, event, effects);
        }
        let of_left = std::mem::replace(&mut effects.facts, own);
        effects.facts_of_left.extend(of_left);
        if self.left.is_empty() {
            self.left.shrink_to(BUFFERED);
        }
    }
}

#[cfg(test)]
mod tests;
