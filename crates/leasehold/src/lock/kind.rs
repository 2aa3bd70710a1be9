//! The differences between the kinds of locks.
//!
//! Invariant: only this crate implements kinds, and users can name them.

use std::fmt;
use std::time::Duration;

use leasehold_proto::backoff::Backoff;
use leasehold_proto::recipe::{LockCalls, Recipe};

use crate::error::SubjectKind;
use crate::lock::guard::Guard;

/// A kind of lock. Only this crate's types implement it.
pub trait Kind: Sealed + Clone + fmt::Debug + Send + Sync + 'static {
    /// The guard of a hold of this kind.
    type Guard: HoldGuard;

    /// Wraps a claimed hold in the guard of this kind.
    #[doc(hidden)]
    fn guard(claimed: Claimed) -> Self::Guard;
}

/// A hold that its own kind has just claimed. Only this crate creates such a hold, so a guard cannot change its kind.
#[derive(Debug)]
pub struct Claimed(pub(crate) Guard);

/// The guard of any kind of lock: a [`Guard`], or a type that contains a guard.
pub trait HoldGuard: AsRef<Guard> + Into<Guard> + Send + Sync + 'static {}

impl<G: AsRef<Guard> + Into<Guard> + Send + Sync + 'static> HoldGuard for G {}

/// The private part of a kind.
pub trait Sealed {
    /// Returns the rules of the kind.
    #[doc(hidden)]
    fn recipe(&self) -> &'static Recipe;

    /// Returns the calls that inspect and free a lock of the kind.
    #[doc(hidden)]
    fn lock_calls(&self) -> &'static LockCalls;

    /// Returns the kind as errors name it.
    #[doc(hidden)]
    fn subject_kind(&self) -> SubjectKind;

    /// Returns the uptime that a server needs before its answer counts.
    #[doc(hidden)]
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the pauses between polls, for a kind whose waiters get no wake-ups.
    #[doc(hidden)]
    fn backoff(&self) -> Option<Backoff> {
        None
    }
}
