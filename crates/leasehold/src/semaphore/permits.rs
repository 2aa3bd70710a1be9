//! The guard of expirable permits. While it lives, the permits are held or known to be lost.
//!
//! Invariant: the permits share one guard, whose invariant holds here too. This type adds only the ids of the permits.

use std::fmt;

use leasehold_proto::PermitId;

use crate::error::ReleaseError;
use crate::lock::guard::{Guard, ReleaseOutcome, guard_inside};

/// Permits of an [`ExpirableSemaphore`](crate::ExpirableSemaphore), returned when dropped.
///
/// `Permits` dereference to one [`Guard`], so all permits are held, renewed, lost and released together.
#[must_use = "dropping permits returns them at once"]
pub struct Permits {
    guard: Guard,
    count: u32,
}

impl Permits {
    pub(crate) const fn new(guard: Guard, count: u32) -> Self {
        Self { guard, count }
    }

    /// Returns the number of permits.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the ids of the permits, in Redisson's format. Other processes can release the permits, or change their
    /// lease, by these ids.
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

    /// Releases the permits and reports the outcome. The outcome is [`ReleaseOutcome::NotHeld`] if the lease of a
    /// permit had ended. The others are returned.
    ///
    /// # Errors
    /// [`ReleaseErrorKind::Unconfirmed`](crate::error::ReleaseErrorKind::Unconfirmed) if the server does not answer within
    /// the client's timeout. The client keeps trying in the background until the lease has ended.
    ///
    /// # Cancel safety
    /// Dropping the future discards the report and does not cancel the release.
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

    /// Consumes the guard without a release, and returns the ids of the permits.
    ///
    /// Renewal stops. The permits stay acquired until their current lease ends, or until a client releases them by
    /// their ids.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats").lease(Duration::from_secs(60));
    /// seats.try_set_permits(10).await?;
    /// let ids = seats.acquire().await?.detach(); // for another process, within a minute
    /// assert!(seats.release_ids(&ids).await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "without the ids, the permits stay acquired until their lease ends"]
    pub fn detach(self) -> Vec<PermitId> {
        let ids = self.ids();
        self.guard.detach();
        ids
    }
}

guard_inside!(Permits.guard: Guard);

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").field("guard", &self.guard).field("count", &self.count).finish()
    }
}
