//! The upgrade from a read hold to a write hold, without a gap.
//!
//! Invariant: an upgrade belongs to the owner of the read hold, and ends with the read hold.

use std::future::Future;
use std::time::Duration;

use leasehold_proto::engine::{LostReason, Subject};
use leasehold_proto::recipe::{LockCalls, Recipe, upgrade, write};

use super::{Read, RwLock};
use crate::error::{About, AcquireError, AcquireErrorKind, Cause, SubjectKind, UpgradeError};
use crate::lock::guard::Guard;
use crate::lock::handle::Lock;
use crate::lock::kind::{Claimed, Kind, Sealed};

/// The kind of a reader's request to write. The granted hold is an ordinary write hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upgrade;

impl Sealed for Upgrade {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::WriteLock
    }

    fn recipe(&self) -> &'static Recipe {
        &upgrade::UPGRADE
    }

    fn lock_calls(&self) -> &'static LockCalls {
        &write::LOCK_CALLS
    }
}

impl Kind for Upgrade {
    type Guard = Guard;

    fn guard(Claimed(guard): Claimed) -> Guard {
        guard
    }
}

impl RwLock {
    /// Adds a write hold to a read hold, waiting as long as it takes until no other owner reads.
    ///
    /// New readers of this library are kept out meanwhile, and Java readers are not. If several readers want to
    /// upgrade, only the first reader can wait. The others fail immediately, and have to release their read holds
    /// first.
    ///
    /// Release both guards. If the write guard is released first, the reader keeps reading (a downgrade). The terms of
    /// the write hold are those of the write side.
    ///
    /// # Errors
    /// As [`Lock::lock`](crate::Lock::lock), and:
    /// - [`AcquireErrorKind::Deadlock`] if another reader already waits to upgrade (release the read guard, and acquire
    ///   the write side);
    /// - [`AcquireErrorKind::Lost`] if the read hold is lost before or during the wait;
    /// - [`UpgradeError::WrongGuard`] if the guard is not a read guard of this lock and client.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight. The read hold
    /// stays as it is.
    ///
    /// # Losing the lease
    /// See [`Guard`]. The two holds are renewed, and lost, each by itself.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices");
    /// let reader = prices.read().await?;
    /// let stale = true; // what it has read
    /// if stale {
    ///     let writer = prices.upgrade(&reader).await?; // no other owner wrote in between
    ///     writer.release().await?; // reads on
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn upgrade(&self, reader: &Guard) -> Result<Guard, UpgradeError> {
        let lock = self.upgrade_of(reader)?;
        while_reading(reader, &lock, lock.lock()).await
    }

    /// Tries to [`upgrade`](Self::upgrade) with exactly one call to the server. Returns `None` if another owner reads.
    ///
    /// # Errors
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Cancel safety
    /// If the future is dropped, the client undoes a grant in flight. The read hold stays as it is.
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
    /// let (reader, other) = (prices.read().await?, prices.read().await?);
    /// assert!(prices.try_upgrade(&reader).await?.is_none(), "the other reads");
    /// drop(other);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_upgrade(&self, reader: &Guard) -> Result<Option<Guard>, UpgradeError> {
        let lock = self.upgrade_of(reader)?;
        while_reading(reader, &lock, lock.try_lock()).await
    }

    /// Adds a write hold as [`upgrade`](Self::upgrade) does, waiting for at most `wait`, counted from the first poll.
    /// Returns `None` if another owner read until then.
    ///
    /// # Errors
    /// As [`upgrade`](Self::upgrade), or if the server does not answer by the end of the wait.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight. The read hold
    /// stays as it is.
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
    /// if let Some(writer) = prices.try_upgrade_for(&reader, Duration::from_secs(10)).await? {
    ///     writer.release().await?; // reads on
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_upgrade_for(
        &self,
        reader: &Guard,
        wait: Duration,
    ) -> Result<Option<Guard>, UpgradeError> {
        let lock = self.upgrade_of(reader)?;
        while_reading(reader, &lock, lock.try_lock_for(wait)).await
    }

    /// Returns the lock by which the owner of this read guard upgrades.
    fn upgrade_of(&self, reader: &Guard) -> Result<Lock<Upgrade>, UpgradeError> {
        let lock = self.upgrade_by(reader).about(|| self.write.subject())?;
        lock.ok_or_else(|| UpgradeError::WrongGuard { subject: self.write.subject() })
    }

    /// Returns `None` if the guard is not a read guard of this lock and client.
    fn upgrade_by(&self, reader: &Guard) -> Result<Option<Lock<Upgrade>>, AcquireErrorKind> {
        let Lock { handle, name, terms, reenters, note, .. } = self.write.clone();
        let read = Subject::new(name.as_ref().map_err(Clone::clone)?, Read::default().recipe());
        let held = reader.held(&handle)?.filter(|(subject, _)| *subject == read);
        Ok(held.map(|(_, owner)| Lock {
            handle,
            name,
            owner: Some(owner),
            terms,
            reenters,
            note,
            kind: Upgrade,
        }))
    }
}

/// Waits for a write hold as long as the read hold lasts.
async fn while_reading<T>(
    reader: &Guard,
    lock: &Lock<Upgrade>,
    upgrade: impl Future<Output = Result<T, AcquireError>>,
) -> Result<T, UpgradeError> {
    let reason = match reader.while_held(upgrade).await {
        Err(reason) => reason,
        // The server notices this loss before the client's clock does.
        Ok(Err(error)) if error.kind == AcquireErrorKind::Deleted => LostReason::Deleted,
        Ok(outcome) => return outcome.map_err(UpgradeError::from),
    };
    Err(AcquireErrorKind::Lost(reason).of(lock.subject()).into())
}
