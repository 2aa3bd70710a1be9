//! The count-down latch, for threads that block.
//!
//! Invariant: a blocking latch wraps the async latch and adds no state.

use std::time::Duration;

use super::forward::{convert, forward};
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
    forward! { CountDownLatch as crate::CountDownLatch;
        /// Sets the group of the name, which observers are told.
        set fn group(self, group: &str) -> Self;
        /// Waits until the count is zero, as long as it takes. Returns immediately if the count is not set.
        wait fn wait(&self) -> Result<(), WaitError>;
        /// Waits until the count is zero, for at most `wait`. Returns `false` if the count was not zero until then.
        wait fn wait_for(&self, wait: Duration) -> Result<bool, WaitError>;
        /// Decrements the count and returns the remaining count.
        wait fn count_down(&self) -> Result<u64, OperationError>;
        /// Sets the count if the latch has none. Returns `false` if it has a count, which stays as it is.
        wait fn try_set_count(&self, count: u32) -> Result<bool, OperationError>;
        /// Returns the count, as the server reports it, or 0 if it is not set.
        wait fn count(&self) -> Result<u64, InspectError>;
        /// Deletes the latch, and its waiters fail. Returns `false` if it had no count.
        wait fn delete(&self) -> Result<bool, OperationError>;
    }
}

convert!(CountDownLatch = crate::CountDownLatch);
