//! The read-write lock: Redisson's `RReadWriteLock`.
//!
//! Invariant: as every lock's. The two sides are locks of one name; what they know of each other the engine knows.
//! Called by: the client; users.

mod upgrade;

use std::time::Duration;

use leasehold_proto::Owner;
use leasehold_proto::recipe::{LockRecipe, read, write};

use super::Lock;
use super::kind::{Claimed, Kind, Sealed};
use crate::error::{AcquireError, SubjectKind};
use crate::guard::Guard;

/// The read side of a [`RwLock`]: any number of owners hold it together, unless somebody else writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read {
    yields: bool,
}

/// The write side of a [`RwLock`]: one owner holds it, and nobody else reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Write {
    preferred: bool,
}

impl Sealed for Read {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::ReadLock
    }

    fn recipe(&self) -> &'static dyn LockRecipe {
        if self.yields { &read::YIELDING } else { &read::READ_LOCK }
    }
}

impl Sealed for Write {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::WriteLock
    }

    fn recipe(&self) -> &'static dyn LockRecipe {
        if self.preferred { &write::PREFERRED } else { &write::WRITE_LOCK }
    }
}

impl Kind for Read {
    type Guard = Guard;

    fn guard(Claimed(guard): Claimed) -> Guard {
        guard
    }
}

impl Kind for Write {
    type Guard = Guard;

    fn guard(Claimed(guard): Claimed) -> Guard {
        guard
    }
}

/// A lock with two sides: many read together, or one writes alone. Cheap to clone.
///
/// Made by [`Client::rw_lock`](crate::Client::rw_lock). Guards, leases and the watchdog are those of every
/// [`Lock`]; each side has its own terms, looks and force through [`read_lock`](Self::read_lock) and
/// [`write_lock`](Self::write_lock).
///
/// # One owner on both sides
/// An [owner](crate::owner) that writes may read as well, and keeps reading when it has given the write hold back: a
/// *downgrade*, without an instant in which somebody else could write. An owner that reads and asks to write would wait
/// for itself, which is [`AcquireErrorKind::Deadlock`](crate::AcquireErrorKind::Deadlock) at once; that it can write without having stopped to read takes an
/// [`upgrade`](Self::upgrade). Acquires without an owner of their own know nothing of each other.
///
/// # Who waits for whom
/// Readers join readers even while somebody waits to write, as in Redisson: a steady stream of them keeps writers out.
/// See [`prefer_writers`](Self::prefer_writers).
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

    /// The read side as a lock of its own, for its terms, for [`Lock::run`], to look at and to force.
    ///
    /// It is locked while somebody reads, a writer that reads as well included. Forcing it frees the lock while readers
    /// have it, of all of them, and does nothing while somebody writes.
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

    /// The write side as a lock of its own, for its terms, for [`Lock::run`], to look at and to force.
    ///
    /// Forcing it frees the lock while somebody writes, of that owner's read holds too, and does nothing while readers
    /// have it.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices");
    /// prices.write().await?.detach(); // somebody who does not give it back
    /// assert!(!prices.read_lock().force_unlock().await?, "nobody reads");
    /// assert!(prices.write_lock().force_unlock().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn write_lock(&self) -> Lock<Write> {
        self.write.clone()
    }

    /// The same lock, both sides with a fixed lease and no watchdog: [`Lock::lease`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices").lease(Duration::from_secs(10));
    /// let reader = prices.read().await?; // ends after 10 s, come what may
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { read: self.read.lease(lease), write: self.write.lease(lease) }
    }

    /// The same lock, both sides with another lease for the watchdog: [`Lock::watchdog`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices").watchdog(Duration::from_secs(5));
    /// let reader = prices.read().await?; // renewed for as long as it lives
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn watchdog(self, lease: Duration) -> Self {
        Self { read: self.read.watchdog(lease), write: self.write.watchdog(lease) }
    }

    /// The same lock, both sides with a bound on each hold: [`Lock::max_hold`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices").max_hold(Duration::from_secs(60));
    /// let writer = prices.write().await?; // lost after a minute
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn max_hold(self, most: Duration) -> Self {
        Self { read: self.read.max_hold(most), write: self.write.max_hold(most) }
    }

    /// The same lock, both sides with a least time for each hold: [`Lock::min_hold`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices").min_hold(Duration::from_secs(60));
    /// prices.write().await?.release().await?;
    /// assert!(prices.try_read().await?.is_none(), "for a minute");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn min_hold(self, least: Duration) -> Self {
        Self { read: self.read.min_hold(least), write: self.write.min_hold(least) }
    }

    /// The same lock, both sides with a bound on the number of renewals: [`Lock::max_renewals`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices").max_renewals(10); // 10 s apart, then 30 s to the end
    /// let writer = prices.write().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn max_renewals(self, most: u32) -> Self {
        Self { read: self.read.max_renewals(most), write: self.write.max_renewals(most) }
    }

    /// The same lock on behalf of an owner, on both sides: [`Lock::owned_by`].
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

    /// The same lock, whose waiting writers go before new readers: those of all clients that have said this too. Java
    /// readers, and clients that have not, join readers as ever.
    ///
    /// A writer that goes away without a word keeps readers out for 3 s at most. An owner that reads already may read
    /// again at any time; code that reads within code that reads needs one owner for both, or it waits for the writer,
    /// which waits for it.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices").prefer_writers();
    /// let reader = prices.read().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn prefer_writers(mut self) -> Self {
        self.read.kind.yields = true;
        self.write.kind.preferred = true;
        self
    }

    /// Waits until nobody else writes, for ever if need be, and reads.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A grant on its way is undone; nothing stays locked.
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

    /// Asks exactly once to read: `None` when somebody else writes.
    ///
    /// # Errors
    /// As [`Lock::try_lock`].
    ///
    /// # Cancel safety
    /// Dropping the future undoes a grant on its way; nothing stays locked.
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

    /// Waits for at most this long until nobody else writes, and reads. `None` when somebody wrote until then.
    ///
    /// # Errors
    /// As [`Lock::try_lock_for`].
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A grant on its way is undone; nothing stays locked.
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

    /// Waits until nobody else reads or writes, for ever if need be, and writes.
    ///
    /// # Errors
    /// As [`Lock::lock`], and [`AcquireErrorKind::Deadlock`](crate::AcquireErrorKind::Deadlock) when the owner reads: it would wait for itself. See
    /// [`upgrade`](Self::upgrade).
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A grant on its way is undone; nothing stays locked.
    ///
    /// # Losing the lease
    /// See [`Guard`].
    ///
    /// # Examples
    /// ```
    /// # use leasehold::AcquireErrorKind;
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

    /// Asks exactly once to write: `None` when somebody else reads or writes.
    ///
    /// # Errors
    /// As [`Lock::try_lock`], and [`AcquireErrorKind::Deadlock`](crate::AcquireErrorKind::Deadlock) when the owner reads.
    ///
    /// # Cancel safety
    /// Dropping the future undoes a grant on its way; nothing stays locked.
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

    /// Waits for at most this long until nobody else reads or writes, and writes. `None` when somebody did until then.
    ///
    /// # Errors
    /// As [`Lock::try_lock_for`], and [`AcquireErrorKind::Deadlock`](crate::AcquireErrorKind::Deadlock) when the owner reads.
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A grant on its way is undone; nothing stays locked.
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
}
