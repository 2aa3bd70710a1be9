//! The semaphore, for threads that block.
//!
//! Invariant: a blocking semaphore wraps the async semaphore and adds no state. No thread owns a permit.

use std::time::Duration;

use super::forward::{convert, forward};
use super::guard::Guard;
use crate::error::{AcquireError, InspectError, OperationError};

/// A semaphore whose permits have no lease: [`leasehold::Semaphore`](crate::Semaphore). Cheap to clone.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let downloads = client.semaphore("downloads");
/// downloads.try_set_permits(3)?;
/// let permit = downloads.acquire()?; // waits while three permits are acquired
/// permit.release()?; // or dropped
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore(pub(super) crate::Semaphore);

impl Semaphore {
    forward! { Semaphore as crate::Semaphore;
        /// Serves waiters in order of arrival.
        set fn fifo(self) -> Self;
        /// Sets the group of the name, which observers are told.
        set fn group(self, group: &str) -> Self;
        /// Sets the number of permits if it was never set. Returns `false` if it was set before.
        wait fn try_set_permits(&self, permits: u32) -> Result<bool, OperationError>;
        /// Sets the number of permits as [`try_set_permits`](Self::try_set_permits) does, and the server deletes the
        /// semaphore after `lifetime`.
        wait fn try_set_permits_for(&self, permits: u32, lifetime: Duration) -> Result<bool, OperationError>;
        /// Acquires a permit, waiting as long as it takes.
        wait fn acquire(&self) -> Result<Guard, AcquireError>;
        /// Acquires this many permits together, waiting as long as it takes.
        wait fn acquire_many(&self, permits: u32) -> Result<Guard, AcquireError>;
        /// Tries to acquire a permit with exactly one call to the server. Returns `None` if none is available.
        attempt fn try_acquire(&self) -> Result<Option<Guard>, AcquireError>;
        /// Tries to acquire this many permits with exactly one call to the server. Returns `None`, and acquires none,
        /// if fewer are available.
        attempt fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>, AcquireError>;
        /// Acquires a permit, waiting for at most `wait`. Returns `None` if none was available until then.
        attempt fn try_acquire_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError>;
        /// Acquires this many permits together, waiting for at most `wait`. Returns `None`, and acquires none, if fewer
        /// were available until then.
        attempt fn try_acquire_many_for(&self, permits: u32, wait: Duration) -> Result<Option<Guard>, AcquireError>;
        /// Adds permits, or removes them if `permits` is negative, and returns the number of available permits.
        wait fn add_permits(&self, permits: i32) -> Result<i64, OperationError>;
        /// Removes all available permits for good, and returns their number.
        wait fn drain(&self) -> Result<i64, OperationError>;
        /// Releases this many permits, whichever client acquired them, and returns the number of available permits.
        wait fn release(&self, permits: u32) -> Result<i64, OperationError>;
        /// Returns the number of available permits, as the server reports it.
        wait fn available(&self) -> Result<i64, InspectError>;
    }
}

convert!(Semaphore = crate::Semaphore);
