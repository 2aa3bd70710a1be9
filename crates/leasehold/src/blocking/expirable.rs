//! The expirable semaphore, for threads that block.
//!
//! Invariant: a blocking semaphore is the async one and nothing more; no thread owns a permit.
//! Called by: the client, which makes semaphores; users.

use std::ops::Deref;
use std::time::Duration;

use leasehold_proto::PermitId;
use leasehold_proto::recipe::Remaining;

use super::park::park;
use super::{Guard, Section};
use crate::error::{AcquireError, InspectError, OperationError, ReleaseError};
use crate::guard::ReleaseOutcome;
use crate::section::OnePermit;

/// A semaphore whose permits have a lease: [`leasehold::ExpirableSemaphore`](crate::ExpirableSemaphore). Cheap to clone.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let downloads = client.expirable_semaphore("downloads");
/// downloads.try_set_permits(3)?;
/// let permit = downloads.acquire()?; // waits while three are at it
/// permit.release()?; // or dropped
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ExpirableSemaphore(pub(super) crate::ExpirableSemaphore);

/// Permits of an [`ExpirableSemaphore`], returned when dropped: [`leasehold::Permits`](crate::Permits).
///
/// All that a [`Guard`] can do: they are held, renewed, lost and released together.
#[must_use = "dropping permits returns them at once"]
#[derive(Debug)]
pub struct Permits {
    guard: Guard,
    count: u32,
}

impl ExpirableSemaphore {
    /// The same semaphore with a fixed lease and no watchdog: [`ExpirableSemaphore::lease`](crate::ExpirableSemaphore::lease).
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// The same semaphore with another lease for the watchdog: [`ExpirableSemaphore::watchdog`](crate::ExpirableSemaphore::watchdog).
    #[must_use]
    pub fn watchdog(self, lease: Duration) -> Self {
        Self(self.0.watchdog(lease))
    }

    /// The same semaphore with a bound on how long permits are held: [`ExpirableSemaphore::max_hold`](crate::ExpirableSemaphore::max_hold).
    #[must_use]
    pub fn max_hold(self, most: Duration) -> Self {
        Self(self.0.max_hold(most))
    }

    /// The same semaphore with a bound on the number of renewals: [`ExpirableSemaphore::max_renewals`](crate::ExpirableSemaphore::max_renewals).
    #[must_use]
    pub fn max_renewals(self, most: u32) -> Self {
        Self(self.0.max_renewals(most))
    }

    /// The same semaphore with a least time for which permits are taken: [`ExpirableSemaphore::min_hold`](crate::ExpirableSemaphore::min_hold).
    #[must_use]
    pub fn min_hold(self, least: Duration) -> Self {
        Self(self.0.min_hold(least))
    }

    /// Sets how many permits there are, unless that was done before. `false` when it was.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::try_set_permits`](crate::ExpirableSemaphore::try_set_permits).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn try_set_permits(&self, permits: u32) -> Result<bool, OperationError> {
        park("ExpirableSemaphore::try_set_permits", self.0.try_set_permits(permits))
    }

    /// Sets how many permits there are, those that are taken included, and says how many are left.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::set_permits`](crate::ExpirableSemaphore::set_permits).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn set_permits(&self, permits: u32) -> Result<i64, OperationError> {
        park("ExpirableSemaphore::set_permits", self.0.set_permits(permits))
    }

    /// Changes how many permits there are, up or down, and says how many are left.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::add_permits`](crate::ExpirableSemaphore::add_permits).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn add_permits(&self, permits: i32) -> Result<i64, OperationError> {
        park("ExpirableSemaphore::add_permits", self.0.add_permits(permits))
    }

    /// Waits for a permit, for ever if need be.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::acquire`](crate::ExpirableSemaphore::acquire).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// They are lost together: see [`Guard`], which [`Permits`] are.
    #[track_caller]
    pub fn acquire(&self) -> Result<Permits, AcquireError> {
        park("ExpirableSemaphore::acquire", self.0.acquire()).map(Permits::from)
    }

    /// Waits for so many permits at once, for ever if need be.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::acquire_many`](crate::ExpirableSemaphore::acquire_many).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// They are lost together: see [`Guard`], which [`Permits`] are.
    #[track_caller]
    pub fn acquire_many(&self, permits: u32) -> Result<Permits, AcquireError> {
        park("ExpirableSemaphore::acquire_many", self.0.acquire_many(permits)).map(Permits::from)
    }

    /// Asks for a permit exactly once. `None` when there is none.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::try_acquire`](crate::ExpirableSemaphore::try_acquire).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// They are lost together: see [`Guard`], which [`Permits`] are.
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Permits>, AcquireError> {
        park("ExpirableSemaphore::try_acquire", self.0.try_acquire()).map(|held| held.map(Permits::from))
    }

    /// Asks for so many permits exactly once. `None` when there are fewer; none is taken then.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::try_acquire_many`](crate::ExpirableSemaphore::try_acquire_many).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// They are lost together: see [`Guard`], which [`Permits`] are.
    #[track_caller]
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Permits>, AcquireError> {
        park("ExpirableSemaphore::try_acquire_many", self.0.try_acquire_many(permits))
            .map(|held| held.map(Permits::from))
    }

    /// Waits for a permit for at most this long. `None` when there was none until then.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::try_acquire_for`](crate::ExpirableSemaphore::try_acquire_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// They are lost together: see [`Guard`], which [`Permits`] are.
    #[track_caller]
    pub fn try_acquire_for(&self, wait: Duration) -> Result<Option<Permits>, AcquireError> {
        park("ExpirableSemaphore::try_acquire_for", self.0.try_acquire_for(wait))
            .map(|held| held.map(Permits::from))
    }

    /// Waits for so many permits at once for at most this long. `None` when there were fewer until then.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::try_acquire_many_for`](crate::ExpirableSemaphore::try_acquire_many_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// They are lost together: see [`Guard`], which [`Permits`] are.
    #[track_caller]
    pub fn try_acquire_many_for(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<Option<Permits>, AcquireError> {
        park("ExpirableSemaphore::try_acquire_many_for", self.0.try_acquire_many_for(permits, wait))
            .map(|held| held.map(Permits::from))
    }

    /// Returns permits by their ids, all or none. `false` when the lease of one of them has ended.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::release_ids`](crate::ExpirableSemaphore::release_ids).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// Permits that their holder still holds are lost to it at its next renewal.
    #[track_caller]
    pub fn release_ids(&self, ids: &[PermitId]) -> Result<bool, OperationError> {
        park("ExpirableSemaphore::release_ids", self.0.release_ids(ids))
    }

    /// Sets the lease of a permit, counted from now. `false` when it is not taken any more.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::update_lease`](crate::ExpirableSemaphore::update_lease).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// As [`ExpirableSemaphore::update_lease`](crate::ExpirableSemaphore::update_lease).
    #[track_caller]
    pub fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool, OperationError> {
        park("ExpirableSemaphore::update_lease", self.0.update_lease(id, lease))
    }

    /// How long a permit is still taken, by the server's clock; `None` when it is not taken any more.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::lease_of`](crate::ExpirableSemaphore::lease_of).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn lease_of(&self, id: PermitId) -> Result<Option<Remaining>, InspectError> {
        park("ExpirableSemaphore::lease_of", self.0.lease_of(id))
    }

    /// How many permits are left, by the server's word.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::available`](crate::ExpirableSemaphore::available).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn available(&self) -> Result<i64, InspectError> {
        park("ExpirableSemaphore::available", self.0.available())
    }

    /// How many permits are taken, by the server's word.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::acquired`](crate::ExpirableSemaphore::acquired).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn acquired(&self) -> Result<u64, InspectError> {
        park("ExpirableSemaphore::acquired", self.0.acquired())
    }

    /// How many permits there are, left or taken, by the server's word.
    ///
    /// # Errors
    /// As [`ExpirableSemaphore::permits`](crate::ExpirableSemaphore::permits).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn permits(&self) -> Result<i64, InspectError> {
        park("ExpirableSemaphore::permits", self.0.permits())
    }

    /// A run of a body with a permit, at most so many at a time: [`ExpirableSemaphore::section`](crate::ExpirableSemaphore::section).
    pub fn section(&self, most: u32) -> Section<OnePermit> {
        Section::of(self.0.section(most))
    }
}

impl Permits {
    /// How many they are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Their ids, in Redisson's format: by these, other processes may release them or change their lease.
    #[must_use]
    pub fn ids(&self) -> Vec<PermitId> {
        PermitId::of(self.guard.wire_owner(), self.count).collect()
    }

    /// Returns them, and reports how it went.
    ///
    /// # Errors
    /// As [`Permits::release`](crate::Permits::release).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        park("Permits::release", self.guard.0.release())
    }

    /// Gives them up without a release, and returns their ids: [`Permits::keep`](crate::Permits::keep).
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

impl From<crate::Permits> for Permits {
    fn from(permits: crate::Permits) -> Self {
        Self { count: permits.count(), guard: Guard(permits.into()) }
    }
}

impl From<Permits> for crate::Permits {
    fn from(permits: Permits) -> Self {
        Self::new(permits.guard.0, permits.count)
    }
}

impl From<crate::ExpirableSemaphore> for ExpirableSemaphore {
    fn from(semaphore: crate::ExpirableSemaphore) -> Self {
        Self(semaphore)
    }
}

impl From<ExpirableSemaphore> for crate::ExpirableSemaphore {
    fn from(semaphore: ExpirableSemaphore) -> Self {
        semaphore.0
    }
}
