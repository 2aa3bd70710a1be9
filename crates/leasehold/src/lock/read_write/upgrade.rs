//! From reading to writing without a gap.
//!
//! Invariant: an upgrade is the read hold's owner's, and ends with the read hold.
//! Called by: users.

use std::future::Future;
use std::time::Duration;

use leasehold_proto::engine::{LostReason, Subject};
use leasehold_proto::recipe::{LockRecipe, upgrade};

use super::{Read, RwLock, Sealed};
use crate::error::{About, AcquireError, AcquireErrorKind, Cause, SubjectKind};
use crate::guard::Guard;
use crate::lock::kind::Claimed;
use crate::lock::{Kind, Lock};

/// How a reader asks to write; what it gets is held as any write hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upgrade;

impl Sealed for Upgrade {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::WriteLock
    }

    fn recipe(&self) -> &'static dyn LockRecipe {
        &upgrade::Upgrade
    }
}

impl Kind for Upgrade {
    type Guard = Guard;

    fn guard(Claimed(guard): Claimed) -> Guard {
        guard
    }
}

impl RwLock {
    /// Waits until nobody but this reader reads, for ever if need be, and gives it a write hold beside its read hold.
    ///
    /// New readers of this library are kept out meanwhile; those of Java are not. Of several readers that want to write
    /// only the first can wait: the others have to give their read holds back first, and are told so at once.
    ///
    /// Both guards have to be given back. Giving back the write guard first is a downgrade: the reader reads on. The
    /// terms are those of the write side.
    ///
    /// # Errors
    /// As [`Lock::lock`](crate::Lock::lock), and:
    /// - [`AcquireErrorKind::Deadlock`] when another reader waits to write already: release the read guard, and write anew;
    /// - [`AcquireErrorKind::Lost`] when the read hold is lost, or is while this waits;
    /// - [`AcquireErrorKind::WrongGuard`] when the guard is not a read guard of this lock and client.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place; a grant on its way is undone. The read hold stays as it is.
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
    ///     let writer = prices.upgrade(&reader).await?; // nobody wrote in between
    ///     writer.release().await?; // reads on
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn upgrade(&self, reader: &Guard) -> Result<Guard, AcquireError> {
        let lock = self.upgrade_of(reader)?;
        beside(reader, &lock, lock.lock()).await
    }

    /// Asks exactly once for what [`upgrade`](Self::upgrade) waits for: `None` when somebody else reads.
    ///
    /// # Errors
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Cancel safety
    /// Dropping the future undoes a grant on its way. The read hold stays as it is.
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
    pub async fn try_upgrade(&self, reader: &Guard) -> Result<Option<Guard>, AcquireError> {
        let lock = self.upgrade_of(reader)?;
        beside(reader, &lock, lock.try_lock()).await
    }

    /// Waits for at most this long for what [`upgrade`](Self::upgrade) waits for. `None` when somebody else read until
    /// then.
    ///
    /// # Errors
    /// As [`upgrade`](Self::upgrade), and when the wait ended with the server not answering.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place; a grant on its way is undone. The read hold stays as it is.
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
    ) -> Result<Option<Guard>, AcquireError> {
        let lock = self.upgrade_of(reader)?;
        beside(reader, &lock, lock.try_lock_for(wait)).await
    }

    /// The way up of whoever has this read guard.
    fn upgrade_of(&self, reader: &Guard) -> Result<Lock<Upgrade>, AcquireError> {
        self.upgrade_by(reader).about(|| self.write.subject())
    }

    fn upgrade_by(&self, reader: &Guard) -> Result<Lock<Upgrade>, AcquireErrorKind> {
        let Lock { handle, name, terms, reenters, .. } = self.write.clone();
        let read = Subject::new(name.as_ref().map_err(Clone::clone)?, Read::default().recipe());
        match reader.held(&handle)? {
            Some((subject, owner)) if subject == read => {
                Ok(Lock { handle, name, owner: Some(owner), terms, reenters, kind: Upgrade })
            }
            _ => Err(AcquireErrorKind::WrongGuard),
        }
    }
}

/// Waits for a write hold for as long as the read hold lasts.
async fn beside<T>(
    reader: &Guard,
    lock: &Lock<Upgrade>,
    upgrade: impl Future<Output = Result<T, AcquireError>>,
) -> Result<T, AcquireError> {
    let reason = match reader.while_held(upgrade).await {
        Err(reason) => reason,
        // The server knows of the loss before the clock does.
        Ok(Err(error)) if error.kind == AcquireErrorKind::Deleted => LostReason::Deleted,
        Ok(outcome) => return outcome,
    };
    Err(AcquireErrorKind::Lost(reason).of(lock.subject()))
}
