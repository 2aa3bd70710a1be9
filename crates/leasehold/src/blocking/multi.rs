//! Several locks at once, for threads that block.
//!
//! Invariant: a blocking multi-lock wraps the async multi-lock and adds no state.

use std::time::Duration;

use leasehold_proto::engine::LostReason;

use super::forward::{convert, forward};
use super::lock::{Kind, Lock};
use super::section::{Acquirable, Sealed, Section, Wraps};
use crate::error::{AcquireError, EnsureError, ReleaseError, RunError};
use crate::lock::guard::{Asker, ReleaseOutcome};

/// Several locks that are acquired together, all or none: [`leasehold::MultiLock`](crate::MultiLock). Cheap to clone.
///
/// The calling thread may hold members already. The members are therefore acquired one after the other, in the order
/// that all multi-locks follow, and not in one step as for an acquire without an owner.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// use leasehold::blocking::MultiLock;
///
/// let transfer = MultiLock::of([client.lock("account:1").into(), client.fair_lock("account:2").into()]);
/// let guard = transfer.lock()?; // both
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock(crate::MultiLock);

/// A lock as a member of a [`MultiLock`], of any kind and client.
#[derive(Clone, Debug)]
pub struct Member(crate::multi::Member);

/// A hold of all members of a [`MultiLock`], released when dropped: [`leasehold::MultiGuard`](crate::MultiGuard).
///
/// # Losing the lease
/// As for a [`Guard`](super::Guard). The hold is lost as soon as one member is lost.
#[must_use = "dropping a guard releases the locks at once"]
#[derive(Debug)]
pub struct MultiGuard(crate::MultiGuard);

impl<K: Kind> From<Lock<K>> for Member {
    fn from(lock: Lock<K>) -> Self {
        Self(lock.0.into())
    }
}

impl<K: Kind> From<&Lock<K>> for Member {
    fn from(lock: &Lock<K>) -> Self {
        lock.clone().into()
    }
}

impl MultiLock {
    forward! { MultiLock as crate::MultiLock;
        /// Acquires all members, waiting as long as it takes.
        wait fn lock(&self) -> Result<MultiGuard, AcquireError>;
        /// Tries to acquire each member once. Returns `None` if another owner holds one of them.
        attempt fn try_lock(&self) -> Result<Option<MultiGuard>, AcquireError>;
        /// Acquires all members, waiting for at most `wait` in total. Returns `None` if another owner held one of them
        /// until then.
        attempt fn try_lock_for(&self, wait: Duration) -> Result<Option<MultiGuard>, AcquireError>;
    }

    /// Runs a body on this thread under all members. See [`MultiLock::run`](crate::MultiLock::run), except that a body that has
    /// begun runs to its end.
    ///
    /// # Errors
    /// As [`MultiLock::run`](crate::MultiLock::run).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if the body panics, which releases the members.
    #[track_caller]
    pub fn run<T>(&self, body: impl FnOnce(&MultiGuard) -> T) -> Result<T, RunError> {
        self.section().run_as("MultiLock::run", body)
    }

    /// Creates a section, which runs a body under all members. See [`MultiLock::section`](crate::MultiLock::section).
    pub fn section(&self) -> Section<Self> {
        Section::of(self.0.section())
    }

    /// Combines these locks.
    ///
    /// # Panics
    /// Panics if `members` is empty.
    #[must_use]
    #[track_caller]
    pub fn of(members: impl IntoIterator<Item = Member>) -> Self {
        Self(crate::MultiLock::of(members.into_iter().map(|member| member.0)))
    }
}

impl MultiGuard {
    forward! { MultiGuard as crate::MultiGuard;
        /// Returns true if all members may be trusted now, by the client's clock.
        get fn is_held(&self) -> bool;
        /// Returns the time for which all members may be trusted unless they are renewed, which is the shortest of
        /// their times.
        get fn remaining(&self) -> Duration;
        /// Waits until the first member is lost, and returns the reason.
        until fn lost(&self) -> LostReason;
        /// Waits until somebody asks for a member.
        until fn asked(&self) -> Asker;
        /// Ensures that all members may be trusted for at least this long. Renews them if necessary.
        wait fn ensure(&self, least: Duration) -> Result<(), EnsureError>;
        /// Extends the hold: gives it a lease of this length, counted from now.
        wait fn extend(&self, lease: Duration) -> Result<(), EnsureError>;
        /// Releases all members, and reports the outcome.
        wait fn release(self) -> Result<ReleaseOutcome, ReleaseError>;
    }

    /// Shows that the holder is alive. See [`Guard::beat`](crate::Guard::beat).
    pub fn beat(&self) {
        self.0.beat();
    }

    /// Leaves the holds to their leases. See [`MultiGuard::detach`](crate::MultiGuard::detach).
    pub fn detach(self) {
        self.0.detach();
    }
}

/// Returns the async guards of the locks. Locks that were acquired in one step share one guard.
impl AsRef<[crate::Guard]> for MultiGuard {
    fn as_ref(&self) -> &[crate::Guard] {
        self.0.as_ref()
    }
}

convert!(MultiLock = crate::MultiLock);

impl Sealed for MultiLock {}

impl Acquirable for MultiLock {
    type Async = crate::MultiLock;
    type Guard = MultiGuard;
}

impl Wraps for MultiGuard {
    type Inner = crate::MultiGuard;

    fn inner(&self) -> &crate::MultiGuard {
        &self.0
    }

    fn into_inner(self) -> crate::MultiGuard {
        self.0
    }
}

convert!(MultiGuard = crate::MultiGuard);
