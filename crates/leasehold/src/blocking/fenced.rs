//! Fencing tokens, for threads that block.
//!
//! Invariant: a blocking guard wraps the async guard and adds no state.

use std::time::Duration;

use leasehold_proto::{Confirm, Reply};

use super::forward::forward;
use super::guard::Guard;
use super::park::park;
use crate::error::{FencedWriteError, ReleaseError, TicketError};
use crate::fenced_writes::FencedScript;
use crate::lock::Ticket;
use crate::lock::guard::{ReleaseOutcome, guard_inside};
use crate::name::IntoName;

/// A hold of a fenced lock, a [`Guard`] with a token: [`leasehold::FencedGuard`](crate::FencedGuard).
///
/// # Losing the lease
/// As for every [`Guard`]. A resource that checks the token is safe even after a loss.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let guard = client.fenced_lock("stock:42").lock()?;
/// guard.fenced().set("stock:42:left", "16")?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard releases the lock at once"]
#[derive(Debug)]
pub struct FencedGuard {
    guard: Guard,
    token: u64,
}

/// Writes that the server refuses once a newer token has written: [`leasehold::fenced_writes::FencedWrites`](crate::fenced_writes::FencedWrites).
///
/// # Examples
/// See [`FencedGuard`].
#[derive(Clone, Debug)]
pub struct FencedWrites(pub(super) crate::fenced_writes::FencedWrites);

impl FencedGuard {
    /// Returns the token of this grant.
    #[must_use]
    pub const fn token(&self) -> u64 {
        self.token
    }

    /// Returns writes with the token of this grant.
    #[must_use]
    pub fn fenced(&self) -> FencedWrites {
        FencedWrites(crate::fenced_writes::FencedWrites::of(&self.guard.0, self.token))
    }

    /// Releases the lock, and reports the outcome.
    ///
    /// # Errors
    /// As [`FencedGuard::release`](crate::FencedGuard::release).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        park("FencedGuard::release", self.guard.0.release())
    }

    /// Gives the hold away, and returns the ticket with which another process can adopt it.
    ///
    /// # Errors
    /// As [`FencedGuard::into_ticket`](crate::FencedGuard::into_ticket).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn into_ticket(self, valid: Duration) -> Result<Ticket, TicketError> {
        park("FencedGuard::into_ticket", self.guard.0.into_ticket(valid))
    }

    /// Leaves the hold to its lease. See [`Guard::detach`](crate::Guard::detach).
    pub fn detach(self) {
        self.guard.detach();
    }
}

impl FencedWrites {
    forward! { FencedWrites as crate::fenced_writes::FencedWrites;
        /// Sets the replicas that must acknowledge each write.
        set fn replicas(self, policy: Confirm) -> Self;
        /// Sets a key to a value.
        wait fn set(&self, key: impl IntoName, value: impl AsRef<[u8]>) -> Result<(), FencedWriteError>;
        /// Sets a field of a hash to a value.
        wait fn hset(&self, key: impl IntoName, field: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), FencedWriteError>;
    }

    /// Runs a script of your own, once, and returns its reply.
    ///
    /// # Errors
    /// As [`FencedWrites::run`](crate::fenced_writes::FencedWrites::run).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if there are no keys.
    #[track_caller]
    pub fn run<N: IntoName, A: AsRef<[u8]>>(
        &self,
        script: &FencedScript,
        keys: impl IntoIterator<Item = N>,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Reply, FencedWriteError> {
        park("FencedWrites::run", self.0.run(script, keys, args))
    }
}

guard_inside!(FencedGuard.guard: Guard);

impl From<crate::FencedGuard> for FencedGuard {
    fn from(guard: crate::FencedGuard) -> Self {
        Self { token: guard.token(), guard: Guard(guard.into()) }
    }
}

impl From<FencedGuard> for crate::FencedGuard {
    fn from(guard: FencedGuard) -> Self {
        Self::of(guard.guard.0)
    }
}

impl From<crate::fenced_writes::FencedWrites> for FencedWrites {
    fn from(writes: crate::fenced_writes::FencedWrites) -> Self {
        Self(writes)
    }
}
