//! The read-write lock, for threads that block.
//!
//! Invariant: a blocking lock is the async one and nothing more.
//! Called by: the client; users.

use std::time::Duration;

use leasehold_proto::Owner;

use super::park::park;
use super::{Guard, Lock};
use crate::error::AcquireError;
use crate::lock::{Read, Write};

/// A lock with two sides, many read together or one writes alone: [`leasehold::RwLock`](crate::RwLock). Cheap to clone.
///
/// A thread that writes may read as well; one that reads and asks to write is told [`AcquireErrorKind::Deadlock`](crate::AcquireErrorKind::Deadlock), and takes an
/// [`upgrade`](Self::upgrade) instead.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let prices = client.rw_lock("prices");
/// let reader = prices.read()?;
/// let writer = prices.upgrade(&reader)?; // nobody wrote in between
/// writer.release()?; // reads on
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock(pub(super) crate::RwLock);

impl RwLock {
    /// The read side as a lock of its own: [`RwLock::read_lock`](crate::RwLock::read_lock).
    #[must_use]
    pub fn read_lock(&self) -> Lock<Read> {
        Lock(self.0.read_lock())
    }

    /// The write side as a lock of its own: [`RwLock::write_lock`](crate::RwLock::write_lock).
    #[must_use]
    pub fn write_lock(&self) -> Lock<Write> {
        Lock(self.0.write_lock())
    }

    /// The same lock, both sides with a fixed lease and no watchdog: [`RwLock::lease`](crate::RwLock::lease).
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// The same lock, both sides with another lease for the watchdog: [`RwLock::watchdog`](crate::RwLock::watchdog).
    #[must_use]
    pub fn watchdog(self, lease: Duration) -> Self {
        Self(self.0.watchdog(lease))
    }

    /// The same lock, both sides with a bound on the hold: [`RwLock::max_hold`](crate::RwLock::max_hold).
    #[must_use]
    pub fn max_hold(self, most: Duration) -> Self {
        Self(self.0.max_hold(most))
    }

    /// The same lock, both sides with a least time for each hold: [`RwLock::min_hold`](crate::RwLock::min_hold).
    #[must_use]
    pub fn min_hold(self, least: Duration) -> Self {
        Self(self.0.min_hold(least))
    }

    /// The same lock, both sides with a bound on the number of renewals: [`RwLock::max_renewals`](crate::RwLock::max_renewals).
    #[must_use]
    pub fn max_renewals(self, most: u32) -> Self {
        Self(self.0.max_renewals(most))
    }

    /// The same lock, both sides on behalf of an owner, instead of the calling thread: [`RwLock::owned_by`](crate::RwLock::owned_by).
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self(self.0.owned_by(owner))
    }

    /// The same lock, in which readers let a waiting writer go first: [`RwLock::prefer_writers`](crate::RwLock::prefer_writers).
    #[must_use]
    pub fn prefer_writers(self) -> Self {
        Self(self.0.prefer_writers())
    }

    /// Waits for reading, for ever if need be.
    ///
    /// # Errors
    /// As [`RwLock::read`](crate::RwLock::read).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn read(&self) -> Result<Guard, AcquireError> {
        park("RwLock::read", self.0.read()).map(Guard)
    }

    /// Asks exactly once for reading. `None` when somebody else is in the way.
    ///
    /// # Errors
    /// As [`RwLock::try_read`](crate::RwLock::try_read).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_read(&self) -> Result<Option<Guard>, AcquireError> {
        park("RwLock::try_read", self.0.try_read()).map(|held| held.map(Guard))
    }

    /// Waits for reading for at most this long. `None` when somebody else was in the way until then.
    ///
    /// # Errors
    /// As [`RwLock::try_read_for`](crate::RwLock::try_read_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_read_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        park("RwLock::try_read_for", self.0.try_read_for(wait)).map(|held| held.map(Guard))
    }

    /// Waits for writing, for ever if need be.
    ///
    /// # Errors
    /// As [`RwLock::write`](crate::RwLock::write).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn write(&self) -> Result<Guard, AcquireError> {
        park("RwLock::write", self.0.write()).map(Guard)
    }

    /// Asks exactly once for writing. `None` when somebody else is in the way.
    ///
    /// # Errors
    /// As [`RwLock::try_write`](crate::RwLock::try_write).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_write(&self) -> Result<Option<Guard>, AcquireError> {
        park("RwLock::try_write", self.0.try_write()).map(|held| held.map(Guard))
    }

    /// Waits for writing for at most this long. `None` when somebody else was in the way until then.
    ///
    /// # Errors
    /// As [`RwLock::try_write_for`](crate::RwLock::try_write_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_write_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        park("RwLock::try_write_for", self.0.try_write_for(wait)).map(|held| held.map(Guard))
    }

    /// Waits until nobody but this reader reads, and gives it a write hold beside its read hold.
    ///
    /// # Errors
    /// As [`RwLock::upgrade`](crate::RwLock::upgrade).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`]. The two holds are renewed, and lost, each by itself.
    #[track_caller]
    pub fn upgrade(&self, reader: &Guard) -> Result<Guard, AcquireError> {
        park("RwLock::upgrade", self.0.upgrade(&reader.0)).map(Guard)
    }

    /// Asks exactly once for what [`upgrade`](Self::upgrade) waits for. `None` when somebody else reads.
    ///
    /// # Errors
    /// As [`RwLock::try_upgrade`](crate::RwLock::try_upgrade).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_upgrade(&self, reader: &Guard) -> Result<Option<Guard>, AcquireError> {
        park("RwLock::try_upgrade", self.0.try_upgrade(&reader.0)).map(|held| held.map(Guard))
    }

    /// Waits for at most this long for what [`upgrade`](Self::upgrade) waits for. `None` when somebody else read until then.
    ///
    /// # Errors
    /// As [`RwLock::try_upgrade_for`](crate::RwLock::try_upgrade_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_upgrade_for(&self, reader: &Guard, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        park("RwLock::try_upgrade_for", self.0.try_upgrade_for(&reader.0, wait)).map(|held| held.map(Guard))
    }
}

impl From<crate::RwLock> for RwLock {
    fn from(lock: crate::RwLock) -> Self {
        Self(lock)
    }
}

impl From<RwLock> for crate::RwLock {
    fn from(lock: RwLock) -> Self {
        lock.0
    }
}
