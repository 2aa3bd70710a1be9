//! The read-write lock, Redisson's `RReadWriteLock`.
//!
//! Invariant: the two sides are locks of one name, and only the engine knows how they affect each other.

mod upgrade;

use std::time::Duration;

use leasehold_proto::Owner;
use leasehold_proto::recipe::{LockCalls, Recipe, read, read_write, write};

use super::handle::Lock;
use super::kind::{Sealed, plain_guard};
use crate::error::{AcquireError, SubjectKind};
use crate::lock::guard::Guard;
use crate::terms::{HoldTerms, hold_options};

/// The read side of a [`RwLock`], which any number of owners hold together, unless another owner writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read {
    yields: bool,
}

/// The write side of a [`RwLock`], which one owner holds while no other owner reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Write {
    preferred: bool,
}

impl Sealed for Read {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::ReadLock
    }

    fn recipe(&self) -> &'static Recipe {
        if self.yields { &read_write::YIELDING } else { &read_write::READ_LOCK }
    }

    fn lock_calls(&self) -> &'static LockCalls {
        &read::LOCK_CALLS
    }
}

impl Sealed for Write {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::WriteLock
    }

    fn recipe(&self) -> &'static Recipe {
        if self.preferred { &read_write::PREFERRED } else { &read_write::WRITE_LOCK }
    }

    fn lock_calls(&self) -> &'static LockCalls {
        &write::LOCK_CALLS
    }
}

plain_guard!(Read, Write);

/// A lock with two sides. Many owners read together, or one owner writes alone. Cheap to clone.
///
/// [`Client::rw_lock`](crate::Client::rw_lock) creates it. Guards, leases and the watchdog are those of every
/// [`Lock`]. Each side has its own terms, inspection and forced unlock, through [`read_lock`](Self::read_lock) and
/// [`write_lock`](Self::write_lock).
///
/// # One owner on both sides
/// An [owner](crate::owner) that writes may read as well, and keeps its read hold after it releases the write hold.
/// This is a *downgrade*: another owner cannot write in between. An owner that reads and requests to write would wait
/// for itself, so the request fails immediately with
/// [`AcquireErrorKind::Deadlock`](crate::error::AcquireErrorKind::Deadlock). To write without releasing the read hold, call
/// [`upgrade`](Self::upgrade). Acquires without an explicit or ambient owner are unrelated to each other.
///
/// # Order of readers and writers
/// Readers join readers even while a writer waits, as in Redisson, so a steady stream of readers keeps writers out.
/// [`prefer_writers`](Self::prefer_writers) changes this.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// let prices = client.rw_lock("prices");
/// let (one, other) = (prices.read().await?, prices.read().await?); // together
/// assert!(prices.try_write().await?.is_none());
/// drop((one, other));
/// let writer = prices.write().await?; // alone
/// assert!(prices.try_read().await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    read: Lock<Read>,
    write: Lock<Write>,
}

impl RwLock {
    pub(crate) const fn new(read: Lock<Read>, write: Lock<Write>) -> Self {
        Self { read, write }
    }

    /// Acquires the read side, waiting as long as it takes until no other owner writes.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, so nothing stays
    /// locked.
    ///
    /// # Losing the lease
    /// See [`Guard`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let reader = client.rw_lock("prices").read().await?;
    /// assert!(reader.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(&self) -> Result<Guard, AcquireError> {
        self.read.lock().await
    }

    /// Tries to acquire the read side with exactly one call to the server. Returns `None` if another owner writes.
    ///
    /// # Errors
    /// As [`Lock::try_lock`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the client undoes a grant in flight, so nothing stays locked.
    ///
    /// # Losing the lease
    /// See [`Guard`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices");
    /// let writer = prices.write().await?;
    /// assert!(prices.try_read().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_read(&self) -> Result<Option<Guard>, AcquireError> {
        self.read.try_lock().await
    }

    /// Acquires the read side, waiting for at most `wait`, counted from the first poll. Returns `None` if another
    /// owner wrote until then.
    ///
    /// # Errors
    /// As [`Lock::try_lock_for`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, so nothing stays
    /// locked.
    ///
    /// # Losing the lease
    /// See [`Guard`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices");
    /// let writer = prices.write().await?;
    /// assert!(prices.try_read_for(Duration::from_millis(200)).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_read_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        self.read.try_lock_for(wait).await
    }

    /// Acquires the write side, waiting as long as it takes until no other owner reads or writes.
    ///
    /// # Errors
    /// As [`Lock::lock`]. Also [`AcquireErrorKind::Deadlock`](crate::error::AcquireErrorKind::Deadlock) if the owner reads,
    /// since it would wait for itself. See [`upgrade`](Self::upgrade).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, so nothing stays
    /// locked.
    ///
    /// # Losing the lease
    /// See [`Guard`].
    ///
    /// # Examples
    /// ```
    /// # use leasehold::error::AcquireErrorKind;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices").owned_by(&client.owner());
    /// let reader = prices.read().await?;
    /// assert_eq!(prices.write().await.unwrap_err().kind, AcquireErrorKind::Deadlock);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write(&self) -> Result<Guard, AcquireError> {
        self.write.lock().await
    }

    /// Tries to acquire the write side with exactly one call to the server. Returns `None` if another owner reads or
    /// writes.
    ///
    /// # Errors
    /// As [`Lock::try_lock`]. Also [`AcquireErrorKind::Deadlock`](crate::error::AcquireErrorKind::Deadlock) if the owner
    /// reads.
    ///
    /// # Cancel safety
    /// If the future is dropped, the client undoes a grant in flight, so nothing stays locked.
    ///
    /// # Losing the lease
    /// See [`Guard`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices");
    /// let reader = prices.read().await?;
    /// assert!(prices.try_write().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_write(&self) -> Result<Option<Guard>, AcquireError> {
        self.write.try_lock().await
    }

    /// Acquires the write side, waiting for at most `wait`, counted from the first poll. Returns `None` if another
    /// owner read or wrote until then.
    ///
    /// # Errors
    /// As [`Lock::try_lock_for`]. Also [`AcquireErrorKind::Deadlock`](crate::error::AcquireErrorKind::Deadlock) if the owner
    /// reads.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, so nothing stays
    /// locked.
    ///
    /// # Losing the lease
    /// See [`Guard`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices");
    /// let reader = prices.read().await?;
    /// assert!(prices.try_write_for(Duration::from_millis(200)).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_write_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        self.write.try_lock_for(wait).await
    }

    /// Returns the read side as a separate lock, for its terms, [`Lock::run`], inspection and forced unlock.
    ///
    /// The read side is locked while any owner reads, including a writer that also reads. A forced unlock of this side
    /// releases the holds of all readers, and does nothing while an owner writes.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices");
    /// let price = prices.read_lock().run(async |_guard| 42).await?;
    /// assert!(!prices.read_lock().is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn read_lock(&self) -> Lock<Read> {
        self.read.clone()
    }

    /// Returns the write side as a separate lock, for its terms, [`Lock::run`], inspection and forced unlock.
    ///
    /// A forced unlock of this side releases the writer's hold together with its read holds, and does nothing while
    /// only readers hold the lock.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices");
    /// prices.write().await?.detach(); // a writer that never releases
    /// assert!(!prices.read_lock().force_unlock().await?, "no owner reads");
    /// assert!(prices.write_lock().force_unlock().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn write_lock(&self) -> Lock<Write> {
        self.write.clone()
    }

    /// Sets the owner of the acquires for both sides, as [`Lock::owned_by`] does.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices").owned_by(&client.owner());
    /// let writer = prices.write().await?;
    /// let reader = prices.read().await?; // the writer reads as well
    /// writer.release().await?; // from now on others may read too
    /// assert!(reader.is_held());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self { read: self.read.owned_by(owner), write: self.write.owned_by(owner) }
    }

    /// Gives waiting writers precedence over new readers (default: readers join readers, so a writer waits for as long as
    /// read holds overlap, without a bound).
    ///
    /// The setting works between clients that use it. Java readers, and clients without it, still join readers.
    ///
    /// A writer that disappears keeps readers out for at most 3 s. An owner that already reads may read again at any
    /// time. Nested reads need one owner. Without an owner, the inner read waits for the writer, and the writer waits
    /// for the outer read.
    #[must_use]
    pub fn prefer_writers(mut self) -> Self {
        self.read.kind.yields = true;
        self.write.kind.preferred = true;
        self
    }

    /// Changes the terms of both sides.
    pub(crate) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        Self { read: self.read.map_terms(&change), write: self.write.map_terms(&change) }
    }
}

hold_options!(RwLock);
