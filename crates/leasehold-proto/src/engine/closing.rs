//! The state of a client that is closing.

use std::time::Duration;

use super::timers::Alarm;
use crate::id::Id;

/// The time for which a closed client continues to retry its releases, counted from the timeout of the close.
pub const AFTER_CLOSE: Duration = Duration::from_secs(30);

/// The state of a client that is closing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Closing {
    pub(super) ids: Vec<Id>,
    pub(super) released: u64,
    pub(super) unconfirmed: u64,
    /// True if the timeout of the close has passed, and the remaining releases have their last period.
    pub(super) timed_out: bool,
    pub(super) alarm: Alarm,
}

impl Closing {
    /// Returns true if every close has its report.
    pub(super) const fn is_reported(&self) -> bool {
        self.ids.is_empty()
    }

    /// Counts a hold whose release is over.
    pub(super) const fn count(&mut self, confirmed: bool) {
        if confirmed {
            self.released += 1;
        } else {
            self.unconfirmed += 1;
        }
    }
}
