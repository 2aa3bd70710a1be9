//! Remembers the semaphores whose number of permits was set a short time ago, so the client does not set it again.

use std::sync::PoisonError;

use leasehold_proto::{Moment, Name};

use super::Shared;

/// The most semaphores that a client remembers as set. One more clears the list, which costs one command for each
/// semaphore in use.
const SET_MAX: usize = 1024;

impl Shared {
    /// Returns true if the number of this semaphore's permits was set a short time ago.
    pub(crate) fn was_set_recently(&self, name: &Name, now: Moment) -> bool {
        if self.check_process().is_err() {
            return false;
        }
        let set = self.permits_set.lock().unwrap_or_else(PoisonError::into_inner);
        set.get(name).is_some_and(|until| now < *until)
    }

    /// Remembers that the number of the semaphore's permits is set.
    pub(crate) fn note_set(&self, name: &Name, until: Moment) {
        let mut set = self.permits_set.lock().unwrap_or_else(PoisonError::into_inner);
        if set.len() >= SET_MAX {
            set.clear();
        }
        set.insert(name.clone(), until);
    }
}
