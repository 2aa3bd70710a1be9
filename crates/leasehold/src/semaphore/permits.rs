//! Permits that expire, as a value: while it lives, they are taken or known to be lost.
//!
//! Invariant: as a guard's, which it is with the ids of its permits.
//! Called by: the expirable semaphore, which makes them; users.

use std::fmt;
use std::ops::Deref;

use leasehold_proto::PermitId;

use crate::error::ReleaseError;
use crate::guard::{Guard, ReleaseOutcome};

/// Permits of an [`ExpirableSemaphore`](crate::ExpirableSemaphore), returned when dropped.
///
/// All that a [`Guard`] can do: they are held, renewed, lost and released together.
#[must_use = "dropping permits returns them at once"]
pub struct Permits {
    guard: Guard,
    count: u32,
}

impl Permits {
    pub(crate) const fn new(guard: Guard, count: u32) -> Self {
        Self { guard, count }
    }

    /// How many they are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Their ids, in Redisson's format: by these, other processes may release them or change their lease.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # client.expirable_semaphore("seats").try_set_permits(10).await?;
    /// let permits = client.expirable_semaphore("seats").acquire_many(2).await?;
    /// assert_eq!(permits.ids().len(), 2);
    /// assert_eq!(permits.ids()[0].to_string().len(), 32);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn ids(&self) -> Vec<PermitId> {
        PermitId::of(self.guard.wire_owner(), self.count).collect()
    }

    /// Returns them, and reports how it went. When the lease of one of them had ended it is [`ReleaseOutcome::NotHeld`]; the
    /// others are returned.
    ///
    /// # Errors
    /// [`ReleaseErrorKind::Unconfirmed`](crate::ReleaseErrorKind::Unconfirmed) when the server has not answered within the client's timeout. The release goes on
    /// being tried without anybody waiting, until the lease has ended.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the release, it only gives up the report.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # client.expirable_semaphore("seats").try_set_permits(10).await?;
    /// let permit = client.expirable_semaphore("seats").acquire().await?;
    /// assert_eq!(permit.release().await?, leasehold::ReleaseOutcome::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        self.guard.release().await
    }

    /// Gives them up without a release: renewal stops, and they are taken until their present lease ends, or until
    /// somebody releases them by their ids, which it returns.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats").lease(Duration::from_secs(60));
    /// seats.try_set_permits(10).await?;
    /// let ids = seats.acquire().await?.detach(); // for somebody else, within a minute
    /// assert!(seats.release_ids(&ids).await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "nobody else knows the ids"]
    pub fn detach(self) -> Vec<PermitId> {
        let ids = self.ids();
        self.guard.detach();
        ids
    }
}

impl Deref for Permits {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl AsRef<Guard> for Permits {
    fn as_ref(&self) -> &Guard {
        &self.guard
    }
}

impl From<Permits> for Guard {
    fn from(permits: Permits) -> Self {
        permits.guard
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").field("guard", &self.guard).field("count", &self.count).finish()
    }
}
