//! The read-write lock, for threads that block.
//!
//! Invariant: a blocking lock wraps the async lock and adds no state.

use std::time::Duration;

use leasehold_proto::Owner;

use super::forward::{convert, forward};
use super::guard::Guard;
use super::lock::Lock;
use super::park::park;
use crate::error::{AcquireError, UpgradeError};
use crate::lock::{Read, Write};
use crate::terms::{HoldTerms, hold_options};

/// A lock for many readers or one writer: [`leasehold::RwLock`](crate::RwLock). Cheap to clone.
///
/// A thread that writes can also read. A thread that reads and acquires the write side gets
/// [`AcquireErrorKind::Deadlock`](crate::error::AcquireErrorKind::Deadlock). Use [`upgrade`](Self::upgrade) instead.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let prices = client.rw_lock("prices");
/// let reader = prices.read()?;
/// let writer = prices.upgrade(&reader)?; // no other owner wrote in between
/// writer.release()?; // the read hold stays
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock(pub(super) crate::RwLock);

impl RwLock {
    forward! { RwLock as crate::RwLock;
        /// Returns the read side as a lock of its own.
        get fn read_lock(&self) -> Lock<Read>;
        /// Returns the write side as a lock of its own.
        get fn write_lock(&self) -> Lock<Write>;
        /// Sets the owner of both sides, in place of the calling thread.
        set fn owned_by(self, owner: &Owner) -> Self;
        /// Makes new readers wait while a writer waits.
        set fn prefer_writers(self) -> Self;
        /// Acquires the lock for reading, waiting as long as it takes.
        wait fn read(&self) -> Result<Guard, AcquireError>;
        /// Tries to acquire the lock for reading with exactly one call to the server. Returns `None` if another owner
        /// prevents it.
        attempt fn try_read(&self) -> Result<Option<Guard>, AcquireError>;
        /// Acquires the lock for reading, waiting for at most `wait`. Returns `None` if another owner prevented it
        /// until then.
        attempt fn try_read_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError>;
        /// Acquires the lock for writing, waiting as long as it takes.
        wait fn write(&self) -> Result<Guard, AcquireError>;
        /// Tries to acquire the lock for writing with exactly one call to the server. Returns `None` if another owner
        /// prevents it.
        attempt fn try_write(&self) -> Result<Option<Guard>, AcquireError>;
        /// Acquires the lock for writing, waiting for at most `wait`. Returns `None` if another owner prevented it
        /// until then.
        attempt fn try_write_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError>;
    }

    pub(super) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        Self(self.0.map_terms(change))
    }

    /// Waits until this reader is the only reader, and acquires a write hold in addition to its read hold.
    ///
    /// # Errors
    /// As [`RwLock::upgrade`](crate::RwLock::upgrade).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`]. Each of the two holds is renewed and lost by itself.
    #[track_caller]
    pub fn upgrade(&self, reader: &Guard) -> Result<Guard, UpgradeError> {
        park("RwLock::upgrade", self.0.upgrade(&reader.0)).map(Guard)
    }

    /// Tries an [`upgrade`](Self::upgrade) with exactly one call to the server. Returns `None` if another owner reads.
    ///
    /// # Errors
    /// As [`RwLock::try_upgrade`](crate::RwLock::try_upgrade).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_upgrade(&self, reader: &Guard) -> Result<Option<Guard>, UpgradeError> {
        park("RwLock::try_upgrade", self.0.try_upgrade(&reader.0)).map(|held| held.map(Guard))
    }

    /// Does an [`upgrade`](Self::upgrade), waiting for at most `wait`. Returns `None` if another owner read until
    /// then.
    ///
    /// # Errors
    /// As [`RwLock::try_upgrade_for`](crate::RwLock::try_upgrade_for).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_upgrade_for(&self, reader: &Guard, wait: Duration) -> Result<Option<Guard>, UpgradeError> {
        park("RwLock::try_upgrade_for", self.0.try_upgrade_for(&reader.0, wait)).map(|held| held.map(Guard))
    }
}

hold_options!(RwLock);

convert!(RwLock = crate::RwLock);
