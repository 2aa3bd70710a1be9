//! The locks, for threads that block, with one handle for all kinds.
//!
//! Invariant: a blocking lock wraps the async lock and adds no state.

use std::time::Duration;

use leasehold_proto::Owner;
use leasehold_proto::recipe::fenced::Tokens;

use super::park::park;
use super::{FencedGuard, Guard};
use crate::error::{AcquireError, InspectError};
use crate::lock::{Fair, Fenced, Read, Reentrant, Spin, Write};
use crate::redlock::Node;
use crate::terms::{HoldTerms, hold_options};

/// A kind of lock, and the type of its guard in blocking code. Only this crate's kinds implement it.
pub trait Kind: crate::lock::Kind {
    /// The type of a guard of this kind.
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
/// The calling thread is the owner of an acquire and can acquire the same lock again, unless
/// [`owned_by`](Self::owned_by) sets another owner.
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
    pub(super) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        Self(self.0.map_terms(change))
    }

    /// Sets the owner, in place of the calling thread. See [`Lock::owned_by`](crate::Lock::owned_by).
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self(self.0.owned_by(owner))
    }

    /// Refuses a second acquire by the same owner, and so by the same thread. See
    /// [`Lock::non_reentrant`](crate::Lock::non_reentrant).
    #[must_use]
    pub fn non_reentrant(self) -> Self {
        Self(self.0.non_reentrant())
    }

    /// Acquires the lock, waiting as long as it takes.
    ///
    /// # Errors
    /// As [`Lock::lock`](crate::Lock::lock).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn lock(&self) -> Result<K::BlockingGuard, AcquireError> {
        park("Lock::lock", self.0.lock()).map(K::BlockingGuard::from)
    }

    /// Tries to acquire the lock with exactly one call to the server. Returns `None` if another owner holds the lock,
    /// such as another thread.
    ///
    /// # Errors
    /// As [`Lock::try_lock`](crate::Lock::try_lock).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_lock(&self) -> Result<Option<K::BlockingGuard>, AcquireError> {
        park("Lock::try_lock", self.0.try_lock()).map(|held| held.map(K::BlockingGuard::from))
    }

    /// Acquires the lock, waiting for at most `wait`. Returns `None` if another owner held the lock until then.
    ///
    /// # Errors
    /// As [`Lock::try_lock_for`](crate::Lock::try_lock_for).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    #[track_caller]
    pub fn try_lock_for(&self, wait: Duration) -> Result<Option<K::BlockingGuard>, AcquireError> {
        park("Lock::try_lock_for", self.0.try_lock_for(wait)).map(|held| held.map(K::BlockingGuard::from))
    }

    /// Releases the lock by force, for any holder. Returns `false` if it was free.
    ///
    /// # Errors
    /// As [`Lock::force_unlock`](crate::Lock::force_unlock).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// The holder's guards learn of the loss at their next renewal.
    #[track_caller]
    pub fn force_unlock(&self) -> Result<bool, InspectError> {
        park("Lock::force_unlock", self.0.force_unlock())
    }

    /// Returns true if an owner holds the lock, as the server reports it.
    ///
    /// # Errors
    /// As [`Lock::is_locked`](crate::Lock::is_locked).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn is_locked(&self) -> Result<bool, InspectError> {
        park("Lock::is_locked", self.0.is_locked())
    }

    /// Returns the remaining lease of the present hold, by the server's clock, or `None` if the lock is free.
    ///
    /// # Errors
    /// As [`Lock::remaining`](crate::Lock::remaining).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn remaining(&self) -> Result<Option<Duration>, InspectError> {
        park("Lock::remaining", self.0.remaining())
    }

    /// Returns true if this owner holds the lock, as the server reports it. [`blocking::owner`](super::owner) is the
    /// owner of the calling thread.
    ///
    /// # Errors
    /// As [`Lock::is_held_by`](crate::Lock::is_held_by).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn is_held_by(&self, owner: &Owner) -> Result<bool, InspectError> {
        park("Lock::is_held_by", self.0.is_held_by(owner))
    }

    /// Returns the hold count of this owner, as the server reports it.
    ///
    /// # Errors
    /// As [`Lock::hold_count`](crate::Lock::hold_count).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn hold_count(&self, owner: &Owner) -> Result<u32, InspectError> {
        park("Lock::hold_count", self.0.hold_count(owner))
    }
}

hold_options!(Lock<K> where K: Kind);

impl Lock<Fenced> {
    /// Sets the origin of the fencing tokens. See [`Lock::tokens`](crate::Lock::tokens).
    #[must_use]
    pub fn tokens(self, tokens: Tokens) -> Self {
        Self(self.0.tokens(tokens))
    }
}

impl Lock<Spin> {
    /// Sets the pauses between two attempts of a waiter. See [`Lock::backoff`](crate::Lock::backoff).
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
