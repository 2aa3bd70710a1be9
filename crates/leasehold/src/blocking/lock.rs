//! The locks, for threads that block: one handle for all kinds.
//!
//! Invariant: a blocking lock is the async one and nothing more.
//! Called by: the client, which makes locks; users.

use std::time::Duration;

use leasehold_proto::Owner;
use leasehold_proto::recipe::fenced::Tokens;

use super::park::park;
use super::{FencedGuard, Guard};
use crate::error::{AcquireError, InspectError};
use crate::lock::{Fair, Fenced, Node, Read, Reentrant, Spin, Write};

/// A kind of lock, and what a hold of it is in the hands of blocking code. The crate's own kinds implement it.
pub trait Kind: crate::Kind {
    /// What a hold of this kind is in the user's hands.
    type BlockingGuard: From<Self::Guard> + AsRef<Guard> + Into<Guard> + Send + Sync + 'static;
}

impl Kind for Reentrant {
    type BlockingGuard = Guard;
}

impl Kind for Fair {
    type BlockingGuard = Guard;
}

impl Kind for Fenced {
    type BlockingGuard = FencedGuard;
}

impl Kind for Spin {
    type BlockingGuard = Guard;
}

impl Kind for Read {
    type BlockingGuard = Guard;
}

impl Kind for Write {
    type BlockingGuard = Guard;
}

impl Kind for Node {
    type BlockingGuard = Guard;
}

/// A lock of any kind, for threads that block: [`leasehold::Lock`](crate::Lock). Cheap to clone.
///
/// Without an [owner](Self::owned_by) of its own an acquire is the calling thread's, which may take the same lock again.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let lock = client.lock("order:42");
/// let outer = lock.lock()?; // waits
/// let inner = lock.lock()?; // the same thread: a second hold, granted at once
/// drop((outer, inner)); // released
///
/// if let Some(guard) = lock.try_lock_for(Duration::from_secs(10))? {
///     guard.release()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lock<K: Kind = Reentrant>(pub(super) crate::Lock<K>);

impl<K: Kind> Lock<K> {
    /// The same lock with a fixed lease and no watchdog: [`Lock::lease`](crate::Lock::lease).
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// The same lock with another lease for the watchdog: [`Lock::watchdog`](crate::Lock::watchdog).
    #[must_use]
    pub fn watchdog(self, lease: Duration) -> Self {
        Self(self.0.watchdog(lease))
    }

    /// The same lock with a bound on the hold: [`Lock::max_hold`](crate::Lock::max_hold).
    #[must_use]
    pub fn max_hold(self, most: Duration) -> Self {
        Self(self.0.max_hold(most))
    }

    /// The same lock with a bound on the number of renewals: [`Lock::max_renewals`](crate::Lock::max_renewals).
    #[must_use]
    pub fn max_renewals(self, most: u32) -> Self {
        Self(self.0.max_renewals(most))
    }

    /// The same lock with a least time for the hold: [`Lock::min_hold`](crate::Lock::min_hold).
    #[must_use]
    pub fn min_hold(self, least: Duration) -> Self {
        Self(self.0.min_hold(least))
    }

    /// The same lock on behalf of an owner, instead of the calling thread: [`Lock::owned_by`](crate::Lock::owned_by).
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self(self.0.owned_by(owner))
    }

    /// The same lock, not to be taken twice, by one thread either: [`Lock::non_reentrant`](crate::Lock::non_reentrant).
    #[must_use]
    pub fn non_reentrant(self) -> Self {
        Self(self.0.non_reentrant())
    }

    /// Waits for the lock, for ever if need be.
    ///
    /// # Errors
    /// As [`Lock::lock`](crate::Lock::lock).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn lock(&self) -> Result<K::BlockingGuard, AcquireError> {
        park("Lock::lock", self.0.lock()).map(K::BlockingGuard::from)
    }

    /// Asks exactly once. `None` when somebody else holds the lock, another thread for instance.
    ///
    /// # Errors
    /// As [`Lock::try_lock`](crate::Lock::try_lock).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_lock(&self) -> Result<Option<K::BlockingGuard>, AcquireError> {
        park("Lock::try_lock", self.0.try_lock()).map(|held| held.map(K::BlockingGuard::from))
    }

    /// Waits for the lock for at most this long. `None` when it was somebody else's until then.
    ///
    /// # Errors
    /// As [`Lock::try_lock_for`](crate::Lock::try_lock_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_lock_for(&self, wait: Duration) -> Result<Option<K::BlockingGuard>, AcquireError> {
        park("Lock::try_lock_for", self.0.try_lock_for(wait)).map(|held| held.map(K::BlockingGuard::from))
    }

    /// Takes the lock away from whoever holds it. `false` when it was free.
    ///
    /// # Errors
    /// As [`Lock::force_unlock`](crate::Lock::force_unlock).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// The holder's guards find out at their next renewal.
    #[track_caller]
    pub fn force_unlock(&self) -> Result<bool, InspectError> {
        park("Lock::force_unlock", self.0.force_unlock())
    }

    /// Whether anybody holds the lock.
    ///
    /// # Errors
    /// As [`Lock::is_locked`](crate::Lock::is_locked).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn is_locked(&self) -> Result<bool, InspectError> {
        park("Lock::is_locked", self.0.is_locked())
    }

    /// How long the present hold lasts by the server's clock unless it is renewed; `None` when the lock is free.
    ///
    /// # Errors
    /// As [`Lock::remaining`](crate::Lock::remaining).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn remaining(&self) -> Result<Option<Duration>, InspectError> {
        park("Lock::remaining", self.0.remaining())
    }

    /// Whether this owner holds the lock, by the server's word; [`blocking::owner`](super::owner) is the calling thread's.
    ///
    /// # Errors
    /// As [`Lock::is_held_by`](crate::Lock::is_held_by).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn is_held_by(&self, owner: &Owner) -> Result<bool, InspectError> {
        park("Lock::is_held_by", self.0.is_held_by(owner))
    }

    /// How often this owner holds the lock, by the server's word.
    ///
    /// # Errors
    /// As [`Lock::hold_count`](crate::Lock::hold_count).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn hold_count(&self, owner: &Owner) -> Result<u32, InspectError> {
        park("Lock::hold_count", self.0.hold_count(owner))
    }
}

impl Lock<Fenced> {
    /// The same lock with tokens that come from elsewhere: [`Lock::tokens`](crate::Lock::tokens).
    #[must_use]
    pub fn tokens(self, tokens: Tokens) -> Self {
        Self(self.0.tokens(tokens))
    }
}

impl Lock<Spin> {
    /// The same lock with other pauses between questions: [`Lock::backoff`](crate::Lock::backoff).
    #[must_use]
    pub fn backoff(self, first: Duration, longest: Duration) -> Self {
        Self(self.0.backoff(first, longest))
    }
}

impl<K: Kind> From<crate::Lock<K>> for Lock<K> {
    fn from(lock: crate::Lock<K>) -> Self {
        Self(lock)
    }
}

impl<K: Kind> From<Lock<K>> for crate::Lock<K> {
    fn from(lock: Lock<K>) -> Self {
        lock.0
    }
}
