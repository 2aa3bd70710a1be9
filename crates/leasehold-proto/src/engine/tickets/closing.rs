//! The state of a client that is closing.

use std::time::Duration;

use crate::engine::base::timers::Alarm;
use crate::id::Id;

/// The time for which a closed client continues to retry its releases, counted from the timeout of the close.
pub const AFTER_CLOSE: Duration = Duration::from_secs(30);

/// The state of a client that is closing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Closing {
    pub(in crate::engine) ids: Vec<Id>,
    pub(in crate::engine) released: u64,
    pub(in crate::engine) unconfirmed: u64,
    /// True if the timeout of the close has passed, and the remaining releases have their last period.
    pub(in crate::engine) timed_out: bool,
    pub(in crate::engine) alarm: Alarm,
}

impl Closing {
    /// Returns true if every close has its report.
    pub(in crate::engine) const fn is_reported(&self) -> bool {
        self.ids.is_empty()
    }

    /// Counts a hold whose release is over.
    pub(in crate::engine) const fn count(&mut self, confirmed: bool) {
        if confirmed {
            self.released += 1;
        } else {
            self.unconfirmed += 1;
        }
    }
}
