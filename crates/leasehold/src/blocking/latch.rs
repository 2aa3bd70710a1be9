//! The count-down latch, for threads that block.
//!
//! Invariant: a blocking latch wraps the async latch and adds no state.

use std::time::Duration;

use super::park::park;
use crate::error::{InspectError, OperationError, WaitError};

/// A latch that opens when it is counted down to zero: [`leasehold::CountDownLatch`](crate::CountDownLatch). Cheap to
/// clone.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let parts = client.count_down_latch("import:parts");
/// parts.try_set_count(1)?;
/// let importer = parts.clone();
/// std::thread::spawn(move || importer.count_down());
/// parts.wait()?; // until the importer is done
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CountDownLatch(pub(super) crate::CountDownLatch);

impl CountDownLatch {
    /// Sets the count if the latch has none. Returns `false` if it has a count, which stays as it is.
    ///
    /// # Errors
    /// As [`CountDownLatch::try_set_count`](crate::CountDownLatch::try_set_count).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn try_set_count(&self, count: u32) -> Result<bool, OperationError> {
        park("CountDownLatch::try_set_count", self.0.try_set_count(count))
    }

    /// Decrements the count and returns the remaining count.
    ///
    /// # Errors
    /// As [`CountDownLatch::count_down`](crate::CountDownLatch::count_down).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn count_down(&self) -> Result<u64, OperationError> {
        park("CountDownLatch::count_down", self.0.count_down())
    }

    /// Returns the count, as the server reports it, or 0 if it is not set.
    ///
    /// # Errors
    /// As [`CountDownLatch::count`](crate::CountDownLatch::count).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn count(&self) -> Result<u64, InspectError> {
        park("CountDownLatch::count", self.0.count())
    }

    /// Waits until the count is zero, as long as it takes. Returns immediately if the count is not set.
    ///
    /// # Errors
    /// As [`CountDownLatch::wait`](crate::CountDownLatch::wait).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn wait(&self) -> Result<(), WaitError> {
        park("CountDownLatch::wait", self.0.wait())
    }

    /// Waits until the count is zero, for at most `wait`. Returns `false` if the count was not zero until then.
    ///
    /// # Errors
    /// As [`CountDownLatch::wait_for`](crate::CountDownLatch::wait_for).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn wait_for(&self, wait: Duration) -> Result<bool, WaitError> {
        park("CountDownLatch::wait_for", self.0.wait_for(wait))
    }

    /// Deletes the latch, and its waiters fail. Returns `false` if it had no count.
    ///
    /// # Errors
    /// As [`CountDownLatch::delete`](crate::CountDownLatch::delete).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn delete(&self) -> Result<bool, OperationError> {
        park("CountDownLatch::delete", self.0.delete())
    }
}

impl From<crate::CountDownLatch> for CountDownLatch {
    fn from(latch: crate::CountDownLatch) -> Self {
        Self(latch)
    }
}

impl From<CountDownLatch> for crate::CountDownLatch {
    fn from(latch: CountDownLatch) -> Self {
        latch.0
    }
}
