//! What the kinds of locks differ in.
//!
//! Invariant: the kinds are the crate's own; users name them, and cannot add to them.
//! Called by: the lock, for every operation.

use std::fmt;
use std::time::Duration;

use leasehold_proto::backoff::Backoff;
use leasehold_proto::recipe::LockRecipe;

use crate::error::SubjectKind;
use crate::guard::Guard;

/// A kind of lock. The crate's own types implement it.
pub trait Kind: Sealed + Clone + fmt::Debug + Send + Sync + 'static {
    /// What a hold of this kind is in the user's hands.
    type Guard: HoldGuard;

    /// The guard of a hold of this kind.
    #[doc(hidden)]
    fn guard(claimed: Claimed) -> Self::Guard;
}

/// A hold that was just claimed by its own kind. Only the crate makes one, so no guard becomes one of another kind.
#[derive(Debug)]
pub struct Claimed(pub(super) Guard);

/// A guard of any kind of lock: a [`Guard`], or more than that.
pub trait HoldGuard: AsRef<Guard> + Into<Guard> + Send + Sync + 'static {}

impl<G: AsRef<Guard> + Into<Guard> + Send + Sync + 'static> HoldGuard for G {}

/// What only this crate says of a kind.
pub trait Sealed {
    /// Its rules.
    #[doc(hidden)]
    fn recipe(&self) -> &'static dyn LockRecipe;

    /// What errors call it.
    #[doc(hidden)]
    fn subject_kind(&self) -> SubjectKind;

    /// For how long a server must have been up for its word to count.
    #[doc(hidden)]
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }

    /// Its pauses, when nothing wakes its waiters.
    #[doc(hidden)]
    fn backoff(&self) -> Option<Backoff> {
        None
    }
}
