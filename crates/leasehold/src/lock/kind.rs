//! The differences between the kinds of locks.
//!
//! Invariant: only this crate implements kinds, and users can name them.

use std::fmt;
use std::time::Duration;

use leasehold_proto::backoff::Backoff;
use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::reentrant::holders;
use leasehold_proto::recipe::{Holder, Holders, LockCalls, Recipe};
use leasehold_proto::{Call, ClientId, Name, Reply, WireOwner};

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

/// Implements [`Kind`] for kinds whose guard adds nothing to a hold.
macro_rules! plain_guard {
    ($($kind:ty),+) => {
        $(impl $crate::lock::kind::Kind for $kind {
            type Guard = $crate::lock::guard::Guard;

            fn guard($crate::lock::kind::Claimed(guard): $crate::lock::kind::Claimed) -> Self::Guard {
                guard
            }
        })+
    };
}

pub(crate) use plain_guard;

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

    /// Returns the rules by which one script acquires several locks of the kind, if there is one.
    #[doc(hidden)]
    fn joint_recipe(&self) -> Option<&'static Recipe> {
        None
    }

    /// Returns a name with the rules of the kind.
    #[doc(hidden)]
    fn subject(&self, name: &Name) -> Subject {
        Subject::new(name, self.recipe())
    }

    /// Creates the call that frees a lock of any holder.
    #[doc(hidden)]
    fn force_release(&self, name: &Name) -> Call {
        (self.lock_calls().force_release)(name)
    }

    /// Creates the call that inspects a lock.
    #[doc(hidden)]
    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call {
        (self.lock_calls().inspect)(name, owner)
    }

    /// Creates the call that reads who holds a lock.
    #[doc(hidden)]
    fn holder(&self, name: &Name) -> Call {
        holders(name)
    }

    /// Reads the reply of `holder`, of a client with this id.
    #[doc(hidden)]
    fn read_holder(&self, reply: &Reply, _: ClientId) -> Option<Option<Holder>> {
        Holders::read(reply).map(|holders| holders.holders.into_iter().next())
    }

    /// Returns the time that waiters leave to clients that poll.
    #[doc(hidden)]
    fn share(&self) -> Option<Duration> {
        None
    }

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
