//! The locks, for threads that block, with one handle for all kinds.
//!
//! Invariant: a blocking lock wraps the async lock and adds no state.

use std::time::Duration;

use leasehold_proto::Owner;
use leasehold_proto::recipe::fenced::Tokens;

use super::fenced::FencedGuard;
use super::forward::{convert, forward};
use super::guard::Guard;
use crate::error::{AcquireError, InspectError, TicketError};
use crate::lock::{
    Fair, Fenced, FencedPlain, Holder, Plain, PlainFormat, Read, Reentrant, Spin, Ticket, Write,
};
use crate::name::IntoName;
use crate::redlock::Node;
use crate::terms::{HoldTerms, hold_options};

/// A kind of lock, and the type of its guard in blocking code. Only this crate's kinds implement it.
pub trait Kind: crate::lock::Kind {
    /// The type of a guard of this kind.
    type BlockingGuard: From<Self::Guard> + AsRef<Guard> + Into<Guard> + Send + Sync + 'static;
}

macro_rules! kinds {
    ($guard:ident: $($kind:ident),+) => {
        $(impl Kind for $kind {
            type BlockingGuard = $guard;
        })+
    };
}

kinds!(Guard: Reentrant, Fair, Spin, Plain, Read, Write, Node);
kinds!(FencedGuard: Fenced, FencedPlain);

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
    forward! { Lock as crate::Lock;
        /// Acquires the lock, waiting as long as it takes.
        wait fn lock(&self) -> Result<K::BlockingGuard, AcquireError>;
        /// Tries to acquire the lock with exactly one call to the server. Returns `None` if another owner holds the
        /// lock, such as another thread.
        attempt fn try_lock(&self) -> Result<Option<K::BlockingGuard>, AcquireError>;
        /// Acquires the lock, waiting for at most `wait`. Returns `None` if another owner held the lock until then.
        attempt fn try_lock_for(&self, wait: Duration) -> Result<Option<K::BlockingGuard>, AcquireError>;
        /// Adopts the hold of a ticket.
        wait fn adopt(&self, ticket: &Ticket) -> Result<K::BlockingGuard, TicketError>;
        /// Sets the owner, in place of the calling thread.
        set fn owned_by(self, owner: &Owner) -> Self;
        /// Refuses a second acquire by the same owner, and so by the same thread.
        set fn non_reentrant(self) -> Self;
        /// Says what the holds are for.
        set fn note(self, note: &str) -> Self;
        /// Releases the lock by force, for any holder. Returns `false` if it was free.
        wait fn force_unlock(&self) -> Result<bool, InspectError>;
        /// Returns who holds the lock, as the server reports it, or `None` if it is free.
        wait fn holder(&self) -> Result<Option<Holder>, InspectError>;
        /// Returns true if an owner holds the lock, as the server reports it.
        wait fn is_locked(&self) -> Result<bool, InspectError>;
        /// Returns the remaining lease of the current hold, by the server's clock, or `None` if the lock is free.
        wait fn remaining(&self) -> Result<Option<Duration>, InspectError>;
        /// Returns true if this owner holds the lock, as the server reports it. [`blocking::owner`](super::owner) is
        /// the owner of the calling thread.
        wait fn is_held_by(&self, owner: &Owner) -> Result<bool, InspectError>;
        /// Returns the hold count of this owner, as the server reports it.
        wait fn hold_count(&self, owner: &Owner) -> Result<u32, InspectError>;
    }

    /// Sets the time for which the lock passes from waiter to waiter of this client without a call. See
    /// [`Lock::hand_off`](crate::Lock::hand_off).
    #[must_use]
    pub fn hand_off(self, bound: Duration) -> Self {
        self.map_terms(|terms| terms.hand_off(bound))
    }

    pub(super) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        Self(self.0.map_terms(change))
    }
}

hold_options!(Lock<K> where K: Kind);

impl Lock<Fenced> {
    forward! { Lock as crate::Lock;
        /// Sets the origin of the fencing tokens.
        set fn tokens(self, tokens: Tokens) -> Self;
    }
}

impl Lock<Spin> {
    forward! { Lock as crate::Lock;
        /// Sets the pauses between two attempts of a waiter.
        set fn backoff(self, first: Duration, longest: Duration) -> Self;
    }
}

impl Lock<Plain> {
    forward! { Lock as crate::Lock;
        /// Sets the library with which the lock is shared.
        set fn format(self, format: PlainFormat) -> Self;
        /// Leaves clients of other libraries, which poll, a share of a busy lock.
        set fn share_with_pollers(self, interval: Duration) -> Self;
        /// Sets the value of the key, for a hold that another program releases or renews by the same value.
        ///
        /// # Panics
        /// Panics if the value is empty, or is `1`.
        set fn token(self, value: &str) -> Self;
    }

    /// Adds fencing tokens: each grant raises the counter of this key. See [`Lock::fenced`](crate::Lock::fenced).
    #[must_use]
    pub fn fenced(self, counter: impl IntoName) -> Lock<FencedPlain> {
        Lock(self.0.fenced(counter))
    }
}

convert!(Lock<K> = crate::Lock<K> where K: Kind);
