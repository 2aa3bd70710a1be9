//! The channels that are wanted, shared by the store and the task that owns the connection.
//!
//! Invariant: each change wakes the task.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::board::Board;

/// The channels that the store's subscribers want, and a signal that they have changed.
#[derive(Default)]
pub(super) struct Wanted {
    board: Mutex<Board>,
    pub(super) changed: Notify,
}

impl Wanted {
    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Board)) {
        change(&mut self.board());
        self.changed.notify_one();
    }
}
