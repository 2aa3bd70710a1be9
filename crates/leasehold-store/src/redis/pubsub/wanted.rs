//! The channels that are wanted, shared by the store and the task that owns the connection.
//!
//! Invariant: each change wakes the task.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::subscription_table::SubscriptionTable;

/// The channels that the store's subscribers want, and a signal that they have changed.
#[derive(Default)]
pub(super) struct Wanted {
    table: Mutex<SubscriptionTable>,
    pub(super) changed: Notify,
}

impl Wanted {
    pub(super) fn table(&self) -> MutexGuard<'_, SubscriptionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut SubscriptionTable)) {
        change(&mut self.table());
        self.changed.notify_one();
    }
}
