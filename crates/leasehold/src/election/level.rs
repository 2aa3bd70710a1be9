//! A value that tasks wait for.
//!
//! Invariant: waiters wake in the order in which they came. A watch channel wakes them in a random order, so no simulated run
//! would repeat itself.

use std::fmt;
use std::pin::pin;

use tokio::sync::Notify;

use crate::runtime::sync::{Mutex, lock};

/// A value that tasks wait for. A task that comes late sees the same as one that was there.
#[derive(Default)]
pub(super) struct Level<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Clone> Level<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(super) fn get(&self) -> T {
        lock(&self.value).clone()
    }

    /// Changes the value, and wakes all that wait.
    pub(super) fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut lock(&self.value));
        self.changed.notify_waiters();
    }

    /// Waits until the value gives something.
    pub(super) async fn until<R>(&self, read: impl Fn(&T) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.changed.notified());
            // A change after the look wakes this task, which stands in line already.
            changed.as_mut().enable();
            if let Some(found) = read(&lock(&self.value)) {
                return found;
            }
            changed.await;
        }
    }
}

impl<T: Clone + fmt::Debug> fmt::Debug for Level<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Level").field(&self.get()).finish()
    }
}
