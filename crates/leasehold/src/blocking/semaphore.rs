//! The semaphore, for threads that block.
//!
//! Invariant: a blocking semaphore is the async one and nothing more; no thread owns a permit.
//! Called by: the client, which makes semaphores; users.

use std::time::Duration;

use super::Guard;
use super::park::park;
use crate::error::{AcquireError, InspectError, OperationError};

/// A semaphore, whose permits stay taken when a process dies: [`leasehold::Semaphore`](crate::Semaphore). Cheap to clone.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let downloads = client.semaphore("downloads");
/// downloads.try_set_permits(3)?;
/// let permit = downloads.acquire()?; // waits while three are at it
/// permit.release()?; // or dropped
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore(pub(super) crate::Semaphore);

impl Semaphore {
    /// The same semaphore, for waiters that are served in the order in which they came: [`Semaphore::fifo`](crate::Semaphore::fifo).
    #[must_use]
    pub fn fifo(self) -> Self {
        Self(self.0.fifo())
    }

    /// Sets how many permits there are, unless that was done before. `false` when it was.
    ///
    /// # Errors
    /// As [`Semaphore::try_set_permits`](crate::Semaphore::try_set_permits).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn try_set_permits(&self, permits: u32) -> Result<bool, OperationError> {
        park("Semaphore::try_set_permits", self.0.try_set_permits(permits))
    }

    /// The same for a semaphore that is gone after this time.
    ///
    /// # Errors
    /// As [`Semaphore::try_set_permits_for`](crate::Semaphore::try_set_permits_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn try_set_permits_for(&self, permits: u32, lifetime: Duration) -> Result<bool, OperationError> {
        park("Semaphore::try_set_permits_for", self.0.try_set_permits_for(permits, lifetime))
    }

    /// Waits for a permit, for ever if need be.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`](crate::Semaphore::acquire).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has none: it is lost only when the client is closed.
    #[track_caller]
    pub fn acquire(&self) -> Result<Guard, AcquireError> {
        park("Semaphore::acquire", self.0.acquire()).map(Guard)
    }

    /// Waits for so many permits at once, for ever if need be.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has none: it is lost only when the client is closed.
    #[track_caller]
    pub fn acquire_many(&self, permits: u32) -> Result<Guard, AcquireError> {
        park("Semaphore::acquire_many", self.0.acquire_many(permits)).map(Guard)
    }

    /// Asks for a permit exactly once. `None` when there is none.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has none: it is lost only when the client is closed.
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        park("Semaphore::try_acquire", self.0.try_acquire()).map(|held| held.map(Guard))
    }

    /// Asks for so many permits exactly once. `None` when there are fewer; none is taken then.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has none: it is lost only when the client is closed.
    #[track_caller]
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>, AcquireError> {
        park("Semaphore::try_acquire_many", self.0.try_acquire_many(permits)).map(|held| held.map(Guard))
    }

    /// Waits for a permit for at most this long. `None` when there was none until then.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire_for`](crate::Semaphore::try_acquire_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has none: it is lost only when the client is closed.
    #[track_caller]
    pub fn try_acquire_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        park("Semaphore::try_acquire_for", self.0.try_acquire_for(wait)).map(|held| held.map(Guard))
    }

    /// Waits for so many permits at once for at most this long. `None` when there were fewer until then.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire_many_for`](crate::Semaphore::try_acquire_many_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// A permit has none: it is lost only when the client is closed.
    #[track_caller]
    pub fn try_acquire_many_for(&self, permits: u32, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        park("Semaphore::try_acquire_many_for", self.0.try_acquire_many_for(permits, wait))
            .map(|held| held.map(Guard))
    }

    /// Changes how many permits there are, up or down, and says how many are left.
    ///
    /// # Errors
    /// As [`Semaphore::add_permits`](crate::Semaphore::add_permits).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn add_permits(&self, permits: i32) -> Result<i64, OperationError> {
        park("Semaphore::add_permits", self.0.add_permits(permits))
    }

    /// Takes all permits that are left, for good, and says how many they were.
    ///
    /// # Errors
    /// As [`Semaphore::drain`](crate::Semaphore::drain).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn drain(&self) -> Result<i64, OperationError> {
        park("Semaphore::drain", self.0.drain())
    }

    /// Returns permits by number, whoever took them, and says how many are left.
    ///
    /// # Errors
    /// As [`Semaphore::release`](crate::Semaphore::release).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn release(&self, permits: u32) -> Result<i64, OperationError> {
        park("Semaphore::release", self.0.release(permits))
    }

    /// How many permits are left, by the server's word.
    ///
    /// # Errors
    /// As [`Semaphore::available`](crate::Semaphore::available).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
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
