//! A hold, in the hands of blocking code.
//!
//! Invariant: a blocking guard is the async one and nothing more: dropping it never blocks.
//! Called by: the locks, which make guards; users.

use std::time::Duration;

use leasehold_proto::WireOwner;
use leasehold_proto::engine::LostReason;

use super::park::park;
use crate::error::{EnsureError, ReleaseError};
use crate::guard::ReleaseOutcome;

/// A hold of a lock, released when dropped: [`leasehold::Guard`](crate::Guard).
///
/// It can be moved to another thread and dropped there; until then the hold stays that of the thread which took it.
/// Dropping it never blocks. For code that is async it converts `into` the other guard.
///
/// # Losing the lease
/// As of [`leasehold::Guard`](crate::Guard). Nothing stops a thread when the hold is lost: look at
/// [`is_held`](Self::is_held), or [`ensure`](Self::ensure), before each step that needs it.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let guard = client.lock("order:42").lock()?;
/// guard.ensure(Duration::from_secs(5))?;
/// // ... what takes less than 5 s ...
/// std::thread::spawn(move || drop(guard)); // released there
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard releases the lock at once"]
#[derive(Debug)]
pub struct Guard(pub(super) crate::Guard);

impl Guard {
    /// Whether the hold may be trusted now, by the clock. Costs no round trip.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// For how long the hold may be trusted unless it is renewed; zero when it is lost. Costs no round trip.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Waits until the hold is lost, and says why. Nobody can end this wait: a thread of its own is the place for it.
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn lost(&self) -> LostReason {
        park("Guard::lost", self.0.lost())
    }

    /// Makes sure that the hold may be trusted for at least this long.
    ///
    /// # Errors
    /// As [`Guard::ensure`](crate::Guard::ensure).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn ensure(&self, least: Duration) -> Result<(), EnsureError> {
        park("Guard::ensure", self.0.ensure(least))
    }

    /// Releases, and reports how it went.
    ///
    /// # Errors
    /// As [`Guard::release`](crate::Guard::release).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        park("Guard::release", self.0.release())
    }

    /// Gives the guard up without a release: [`Guard::detach`](crate::Guard::detach).
    pub fn detach(self) {
        self.0.detach();
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// What stands on the server for this hold: the field of the lock's hash.
    #[must_use]
    pub const fn wire_owner(&self) -> WireOwner {
        self.0.wire_owner()
    }
}

impl From<crate::Guard> for Guard {
    fn from(guard: crate::Guard) -> Self {
        Self(guard)
    }
}

impl From<Guard> for crate::Guard {
    fn from(guard: Guard) -> Self {
        guard.0
    }
}

impl AsRef<Self> for Guard {
    fn as_ref(&self) -> &Self {
        self
    }
}
