//! The expirable semaphore, for threads that block.
//!
//! Invariant: a blocking semaphore wraps the async semaphore and adds no state. No thread owns a permit.

use std::time::Duration;

use leasehold_proto::PermitId;
use leasehold_proto::recipe::Remaining;

use super::forward::{convert, forward};
use super::guard::Guard;
use super::park::park;
use super::section::{Acquirable, Sealed, Section};
use crate::error::{AcquireError, InspectError, OperationError, PermitsError, ReleaseError};
use crate::lock::guard::{ReleaseOutcome, guard_inside};
use crate::semaphore::section::OnePermit;
use crate::terms::{HoldTerms, hold_options};

/// A semaphore whose permits have a lease: [`leasehold::ExpirableSemaphore`](crate::ExpirableSemaphore). Cheap to clone.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let downloads = client.expirable_semaphore("downloads");
/// downloads.try_set_permits(3)?;
/// let permit = downloads.acquire()?; // waits while three permits are acquired
/// permit.release()?; // or dropped
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ExpirableSemaphore(pub(super) crate::ExpirableSemaphore);

/// Permits of an [`ExpirableSemaphore`], released when dropped: [`leasehold::Permits`](crate::Permits).
///
/// They dereference to one [`Guard`], and are held, renewed, lost and released together.
#[must_use = "dropping permits returns them at once"]
#[derive(Debug)]
pub struct Permits {
    guard: Guard,
    count: u32,
}

impl ExpirableSemaphore {
    forward! { ExpirableSemaphore as crate::ExpirableSemaphore;
        /// Sets the number of permits if it was never set. Returns `false` if it was set before.
        wait fn try_set_permits(&self, permits: u32) -> Result<bool, OperationError>;
        /// Sets the total number of permits, acquired ones included, and returns the number of available permits.
        wait fn set_permits(&self, permits: u32) -> Result<i64, OperationError>;
        /// Adds permits, or removes them if `permits` is negative, and returns the number of available permits.
        wait fn add_permits(&self, permits: i32) -> Result<i64, OperationError>;
        /// Acquires a permit, waiting as long as it takes.
        wait fn acquire(&self) -> Result<Permits, AcquireError>;
        /// Acquires this many permits together, waiting as long as it takes.
        wait fn acquire_many(&self, permits: u32) -> Result<Permits, AcquireError>;
        /// Tries to acquire a permit with exactly one call to the server. Returns `None` if none is available.
        attempt fn try_acquire(&self) -> Result<Option<Permits>, AcquireError>;
        /// Tries to acquire this many permits with exactly one call to the server. Returns `None`, and acquires none,
        /// if fewer are available.
        attempt fn try_acquire_many(&self, permits: u32) -> Result<Option<Permits>, AcquireError>;
        /// Acquires a permit, waiting for at most `wait`. Returns `None` if none was available until then.
        attempt fn try_acquire_for(&self, wait: Duration) -> Result<Option<Permits>, AcquireError>;
        /// Acquires this many permits together, waiting for at most `wait`. Returns `None`, and acquires none, if fewer
        /// were available until then.
        attempt fn try_acquire_many_for(&self, permits: u32, wait: Duration) -> Result<Option<Permits>, AcquireError>;
        /// Releases permits by their ids, all or none. Returns `false` if the lease of one of them has ended.
        wait fn release_ids(&self, ids: &[PermitId]) -> Result<bool, PermitsError>;
        /// Sets the lease of a permit, counted from now. Returns `false` if the permit is not acquired any more.
        wait fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool, PermitsError>;
        /// Returns the remaining lease of a permit, by the server's clock, or `None` if the permit is not acquired any
        /// more.
        wait fn lease_of(&self, id: PermitId) -> Result<Option<Remaining>, InspectError>;
        /// Returns the number of available permits, as the server reports it.
        wait fn available(&self) -> Result<i64, InspectError>;
        /// Returns the number of acquired permits, as the server reports it.
        wait fn acquired(&self) -> Result<u64, InspectError>;
        /// Returns the total number of permits, available or acquired, as the server reports it.
        wait fn permits(&self) -> Result<i64, InspectError>;
    }

    pub(super) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        Self(self.0.map_terms(change))
    }

    /// Creates a section, which runs a body with one permit, at most `most` bodies at a time. See
    /// [`ExpirableSemaphore::section`](crate::ExpirableSemaphore::section).
    pub fn section(&self, most: u32) -> Section<OnePermit> {
        Section::of(self.0.section(most))
    }
}

hold_options!(ExpirableSemaphore);

impl Permits {
    /// Returns the number of these permits.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the ids of the permits, in Redisson's format. Other processes can release the permits, or change their
    /// lease, by these ids.
    #[must_use]
    pub fn ids(&self) -> Vec<PermitId> {
        PermitId::of(self.guard.wire_owner(), self.count).collect()
    }

    /// Releases the permits, and reports the outcome.
    ///
    /// # Errors
    /// As [`Permits::release`](crate::Permits::release).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        park("Permits::release", self.guard.0.release())
    }

    /// Leaves the permits to their lease, and returns their ids. See [`Permits::detach`](crate::Permits::detach).
    #[must_use = "without the ids, the permits stay acquired until their lease ends"]
    pub fn detach(self) -> Vec<PermitId> {
        let ids = self.ids();
        self.guard.detach();
        ids
    }
}

guard_inside!(Permits.guard: Guard);

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

impl Sealed for OnePermit {}

impl Acquirable for OnePermit {
    type Async = Self;
    type Guard = Permits;
}

convert!(ExpirableSemaphore = crate::ExpirableSemaphore);
