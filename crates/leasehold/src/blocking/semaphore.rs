//! The semaphore, for threads that block.
//!
//! Invariant: a blocking semaphore wraps the async semaphore and adds no state. No thread owns a permit.

use std::time::Duration;

use super::Guard;
use super::park::park;
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
    /// Serves waiters in order of arrival. See [`Semaphore::fifo`](crate::Semaphore::fifo).
    #[must_use]
    pub fn fifo(self) -> Self {
        Self(self.0.fifo())
    }

    /// Sets the number of permits if it was never set. Returns `false` if it was set before.
    ///
    /// # Errors
    /// As [`Semaphore::try_set_permits`](crate::Semaphore::try_set_permits).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn try_set_permits(&self, permits: u32) -> Result<bool, OperationError> {
        park("Semaphore::try_set_permits", self.0.try_set_permits(permits))
    }

    /// Sets the number of permits as [`try_set_permits`](Self::try_set_permits) does, and the server deletes the
    /// semaphore after `lifetime`.
    ///
    /// # Errors
    /// As [`Semaphore::try_set_permits_for`](crate::Semaphore::try_set_permits_for).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn try_set_permits_for(&self, permits: u32, lifetime: Duration) -> Result<bool, OperationError> {
        park("Semaphore::try_set_permits_for", self.0.try_set_permits_for(permits, lifetime))
    }

    /// Acquires a permit, waiting as long as it takes.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`](crate::Semaphore::acquire).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has no lease, and is lost only when the client is closed.
    #[track_caller]
    pub fn acquire(&self) -> Result<Guard, AcquireError> {
        park("Semaphore::acquire", self.0.acquire()).map(Guard)
    }

    /// Acquires this many permits together, waiting as long as it takes.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has no lease, and is lost only when the client is closed.
    #[track_caller]
    pub fn acquire_many(&self, permits: u32) -> Result<Guard, AcquireError> {
        park("Semaphore::acquire_many", self.0.acquire_many(permits)).map(Guard)
    }

    /// Tries to acquire a permit with exactly one call to the server. Returns `None` if none is available.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has no lease, and is lost only when the client is closed.
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        park("Semaphore::try_acquire", self.0.try_acquire()).map(|held| held.map(Guard))
    }

    /// Tries to acquire this many permits with exactly one call to the server. Returns `None`, and acquires none, if
    /// fewer are available.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has no lease, and is lost only when the client is closed.
    #[track_caller]
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>, AcquireError> {
        park("Semaphore::try_acquire_many", self.0.try_acquire_many(permits)).map(|held| held.map(Guard))
    }

    /// Acquires a permit, waiting for at most `wait`. Returns `None` if none was available until then.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire_for`](crate::Semaphore::try_acquire_for).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has no lease, and is lost only when the client is closed.
    #[track_caller]
    pub fn try_acquire_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        park("Semaphore::try_acquire_for", self.0.try_acquire_for(wait)).map(|held| held.map(Guard))
    }

    /// Acquires this many permits together, waiting for at most `wait`. Returns `None`, and acquires none, if fewer
    /// were available until then.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire_many_for`](crate::Semaphore::try_acquire_many_for).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has no lease, and is lost only when the client is closed.
    #[track_caller]
    pub fn try_acquire_many_for(&self, permits: u32, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        park("Semaphore::try_acquire_many_for", self.0.try_acquire_many_for(permits, wait))
            .map(|held| held.map(Guard))
    }

    /// Adds permits, or removes them if `permits` is negative, and returns the number of available permits.
    ///
    /// # Errors
    /// As [`Semaphore::add_permits`](crate::Semaphore::add_permits).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn add_permits(&self, permits: i32) -> Result<i64, OperationError> {
        park("Semaphore::add_permits", self.0.add_permits(permits))
    }

    /// Removes all available permits for good, and returns their number.
    ///
    /// # Errors
    /// As [`Semaphore::drain`](crate::Semaphore::drain).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn drain(&self) -> Result<i64, OperationError> {
        park("Semaphore::drain", self.0.drain())
    }

    /// Releases this many permits, whichever client acquired them, and returns the number of available permits.
    ///
    /// # Errors
    /// As [`Semaphore::release`](crate::Semaphore::release).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn release(&self, permits: u32) -> Result<i64, OperationError> {
        park("Semaphore::release", self.0.release(permits))
    }

    /// Returns the number of available permits, as the server reports it.
    ///
    /// # Errors
    /// As [`Semaphore::available`](crate::Semaphore::available).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn available(&self) -> Result<i64, InspectError> {
        park("Semaphore::available", self.0.available())
    }
}

impl From<crate::Semaphore> for Semaphore {
    fn from(semaphore: crate::Semaphore) -> Self {
        Self(semaphore)
    }
}

impl From<Semaphore> for crate::Semaphore {
    fn from(semaphore: Semaphore) -> Self {
        semaphore.0
    }
}
