//! The fenced lock, Redisson's `RFencedLock`.
//!
//! Invariant: a fenced guard has its token from the reply of the grant, never from a second request.

use std::fmt;

use leasehold_proto::recipe::fenced::{self, Tokens};
use leasehold_proto::recipe::{LockCalls, Recipe, reentrant};

use super::handle::Lock;
use super::kind::{Claimed, Kind, Sealed};
use crate::error::{ReleaseError, SubjectKind};
use crate::lock::guard::{Guard, ReleaseOutcome, guard_inside};

/// The fenced kind. Each grant has a *fencing token*, a number higher than the tokens of all earlier grants of the
/// lock.
///
/// A resource that remembers the highest token it has seen, and refuses lower ones, is safe from a holder that was
/// paused past its lease. A lock alone cannot give that safety. Re-entry keeps the token of the hold.
///
/// Tokens can have gaps. A client with several waiting tasks reserves some at once and passes the hold on among them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fenced(Tokens);

impl Sealed for Fenced {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::FencedLock
    }

    fn recipe(&self) -> &'static Recipe {
        fenced::with_tokens(self.0)
    }

    fn lock_calls(&self) -> &'static LockCalls {
        &reentrant::LOCK_CALLS
    }
}

impl Kind for Fenced {
    type Guard = FencedGuard;

    fn guard(Claimed(guard): Claimed) -> FencedGuard {
        FencedGuard(guard)
    }
}

impl Lock<Fenced> {
    /// Sets the source of the tokens (default: Redisson's counter).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.fenced_lock("order:42").tokens(leasehold::lock::Tokens::Hybrid);
    /// let guard = lock.lock().await?;
    /// assert!(guard.token() > 1_000_000, "microseconds since 1970");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.kind = Fenced(tokens);
        self
    }
}

/// A hold of a fenced lock: a [`Guard`] with a token. Only a fenced lock creates this guard, so the token always
/// exists:
///
/// ```compile_fail,E0277
/// # async fn example(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// let plain = client.lock("order:42").lock().await?;
/// let fenced = leasehold::FencedGuard::from(plain); // a plain lock has no tokens
/// # Ok(())
/// # }
/// ```
///
/// # Losing the lease
/// As for every [`Guard`]. A resource that checks the token stays safe even after a loss.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// let guard = client.fenced_lock("order:42").lock().await?;
/// let token = guard.token(); // goes with every write to the database
/// guard.release().await?;
/// let guard = client.fenced_lock("order:42").lock().await?;
/// assert!(guard.token() > token);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard releases the lock at once"]
pub struct FencedGuard(Guard);

impl FencedGuard {
    /// Creates the guard of a hold with a token.
    pub(crate) const fn of(guard: Guard) -> Self {
        Self(guard)
    }

    /// Returns the fencing token of this grant.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.0.token().expect("a fenced grant has a token")
    }

    /// Releases the lock and reports the outcome.
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// Dropping the future discards the report and does not cancel the release.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let first = client.fenced_lock("stock:42").lock().await?;
    /// let token = first.token();
    /// first.release().await?;
    /// let second = client.fenced_lock("stock:42").lock().await?; // free again, with a higher token
    /// assert!(second.token() > token);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        self.0.release().await
    }

    /// Consumes the guard without a release, as [`Guard::detach`] does.
    pub fn detach(self) {
        self.0.detach();
    }
}

guard_inside!(FencedGuard.0: Guard);

impl fmt::Debug for FencedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedGuard").field("token", &self.token()).field("guard", &self.0).finish()
    }
}
