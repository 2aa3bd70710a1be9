//! The locks: one handle for all kinds.
//!
//! Invariant: a [`Lock`] is a name and terms, nothing more; what is held is known by guards and decided by the engine.
//! What the kinds differ in is each kind's own file; none uses another.
//! Called by: the client, which makes locks; users.

mod fair;
mod fenced;
mod kind;
mod look;
mod multi;
mod quorum;
mod read_write;
mod redlock;
mod reentrant;
mod run;
mod seats;
mod spin;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Owner;
use leasehold_proto::engine::{Request, Subject, Wait};

use crate::error::{self, About, AcquireError, AcquireErrorKind};
use crate::name::Named;
use crate::owner::of_caller;
use crate::shared::Handle;
use crate::terms::{Terms, acquire, wait_for};

pub use fair::Fair;
pub use fenced::{Fenced, FencedGuard};
use kind::Claimed;
pub use kind::{HoldGuard, Kind};
pub use multi::{Member, MultiGuard, MultiLock};
pub use quorum::QuorumLock;
pub use read_write::{Read, RwLock, Write};
pub use redlock::{Node, Redlock, RedlockBuilder};
pub use reentrant::Reentrant;
pub use seats::QuorumGuard;
pub use spin::Spin;

/// A lock: at most one owner holds it, over all processes, and that owner may take it again. Cheap to clone. Only of a
/// read lock ([`Read`]) there may be many holders.
///
/// Made by [`Client::lock`](crate::Client::lock) and its siblings for the other kinds. Unless a fixed
/// [`lease`](Self::lease) is given, a *watchdog* renews the hold for as long as its guard lives; a process that dies
/// loses the lock within one lease.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// let lock = client.lock("order:42");
/// let guard = lock.lock().await?; // waits
/// guard.release().await?;
///
/// if let Some(guard) = lock.try_lock_for(Duration::from_secs(10)).await? {
///     // ... work ...
/// } // dropped: released
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lock<K: Kind = Reentrant> {
    handle: Arc<Handle>,
    name: Named,
    owner: Option<Owner>,
    terms: Terms,
    reenters: bool,
    kind: K,
}

impl<K: Kind> Lock<K> {
    pub(crate) fn new(handle: &Arc<Handle>, name: Named, terms: Terms, kind: K) -> Self {
        let handle = Arc::clone(handle);
        Self { handle, name, owner: None, terms, reenters: true, kind }
    }

    /// The same lock with a fixed lease, from 3 ms to 365 days, and no watchdog: the hold ends by itself after it.
    ///
    /// For work whose length is known, and that must not outlive it. A lease that cannot be used is reported by the
    /// acquire.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let report = client.lock("report").lease(Duration::from_secs(10));
    /// let guard = report.lock().await?; // ends after 10 s, come what may
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.fix(lease);
        self
    }

    /// The same lock with another lease for the watchdog (default 30 s), from 3 ms to 365 days: how long others wait
    /// when this process dies. It is renewed every third.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42").watchdog(Duration::from_secs(5));
    /// let guard = lock.lock().await?; // renewed for as long as it lives
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn watchdog(mut self, lease: Duration) -> Self {
        self.terms.watch(lease);
        self
    }

    /// The same lock with a bound on the hold, at least 3 ms: the watchdog stops so that the hold ends this long after
    /// the grant. Bounds what a guard that is never dropped can block.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42").max_hold(Duration::from_secs(3600));
    /// let guard = lock.lock().await?; // lost after an hour
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.terms.max_hold = Some(most);
        self
    }

    /// The same lock with a bound on the number of renewals, after which the lease runs out.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42").max_renewals(10); // 10 s apart, then 30 s to the end
    /// let guard = lock.lock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.terms.max_renewals = Some(most);
        self
    }

    /// The same lock with a least time for the hold: when it is released before, the server keeps it for the rest, and
    /// nobody gets it, its owner included. For jobs that are done too soon to be seen by others who start them at the
    /// same time.
    ///
    /// If this process ends before the time is over, or its client is closed or dropped, whatever lease is left ends the
    /// hold: a release that was awaited, or confirmed by [`Client::close`](crate::Client::close), has seen to it that this
    /// is not too early; it is later where the lease is longer than the least time. A hold that is lost has no rest, so a
    /// fixed [`lease`](Self::lease) that is shorter is refused by the acquire.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let nightly = client.lock("nightly").min_hold(Duration::from_secs(300));
    /// nightly.lock().await?.release().await?; // a quick one
    /// assert!(nightly.try_lock().await?.is_none(), "for five minutes");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn min_hold(mut self, least: Duration) -> Self {
        self.terms.min_hold = Some(least);
        self
    }

    /// The same lock on behalf of an owner: acquires with equal owners re-enter each other. Without it the owner is that
    /// of the [`run`](Self::run) of the same lock around the caller, else that of the enclosing
    /// [`owner::scope`](crate::owner::scope); outside both every acquire has its own.
    ///
    /// An owner re-enters through one client. Its holds through another client exclude it, as anybody's do, and are not
    /// seen by this client.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let owner = client.owner();
    /// let lock = client.lock("order:42").owned_by(&owner);
    /// let outer = lock.lock().await?;
    /// let inner = lock.lock().await?; // a second hold, granted at once
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.owner = Some(*owner);
        self
    }

    /// The same lock, not to be taken twice: an acquire by an owner that holds it is
    /// [`AcquireErrorKind::AlreadyHeld`](crate::AcquireErrorKind::AlreadyHeld), and its hold stays as it is. Redisson's non-reentrant lock.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let owner = client.owner();
    /// let lock = client.lock("order:42").owned_by(&owner).non_reentrant();
    /// let guard = lock.lock().await?;
    /// assert_eq!(lock.lock().await.unwrap_err().kind, leasehold::AcquireErrorKind::AlreadyHeld);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn non_reentrant(mut self) -> Self {
        self.reenters = false;
        self
    }

    /// Waits for the lock, for ever if need be.
    ///
    /// Waiters of one client are served in the order in which they came; between clients only a [`Fair`] lock has an
    /// order.
    ///
    /// # Errors
    /// [`AcquireError`] when the server has failed for the whole of the client's timeout, or cannot grant at all.
    /// Somebody else's hold is waited for, not an error.
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A grant on its way is undone; nothing stays locked.
    ///
    /// # Losing the lease
    /// See [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.lock("order:42").lock().await?;
    /// assert!(guard.is_held());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock(&self) -> Result<K::Guard, AcquireError> {
        loop {
            // A wait without a deadline ends with a guard or an error; the loop has one turn.
            if let Some(guard) = self.acquire(|_| Wait::Forever).await? {
                return Ok(guard);
            }
        }
    }

    /// Asks exactly once: one call to the server, no wait. `None` when somebody else holds the lock.
    ///
    /// # Errors
    /// [`AcquireError`] when the server did not answer, or cannot grant at all.
    ///
    /// # Cancel safety
    /// Dropping the future undoes a grant on its way; nothing stays locked.
    ///
    /// # Losing the lease
    /// See [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// match client.lock("order:42").try_lock().await? {
    ///     Some(guard) => drop(guard),
    ///     None => println!("somebody else is at it"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<K::Guard>, AcquireError> {
        self.acquire(|_| Wait::Once).await
    }

    /// Waits for the lock for at most this long, counted from the first poll. `None` when it was somebody else's until
    /// then. A wait of nothing asks exactly once.
    ///
    /// # Errors
    /// [`AcquireError`] as for [`lock`](Self::lock), and when the wait ended with the server not answering.
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A grant on its way is undone; nothing stays locked.
    ///
    /// # Losing the lease
    /// See [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let wait = Duration::from_secs(10);
    /// if let Some(guard) = client.lock("order:42").try_lock_for(wait).await? {
    ///     guard.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<K::Guard>, AcquireError> {
        self.acquire(|handle| wait_for(handle, wait)).await
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The same lock with its kind changed.
    fn map_kind(self, change: impl FnOnce(K) -> K) -> Self {
        let kind = change(self.kind.clone());
        Self { kind, ..self }
    }

    /// What an error is about.
    pub(crate) fn subject(&self) -> error::Subject {
        self.handle.subject(self.kind.subject_kind(), &self.name)
    }

    async fn acquire(&self, wait: impl FnOnce(&Handle) -> Wait) -> Result<Option<K::Guard>, AcquireError> {
        self.ask(wait).await.about(|| self.subject())
    }

    async fn ask(&self, wait: impl FnOnce(&Handle) -> Wait) -> Result<Option<K::Guard>, AcquireErrorKind> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        let subject = Subject::new(name, self.kind.recipe());
        let owner = self.owner.unwrap_or_else(|| of_caller(self.handle.client(), name));
        let request = self.terms.request(subject, owner, wait(&self.handle))?;
        let (reenters, backoff, uptime) = (self.reenters, self.kind.backoff(), self.kind.uptime());
        let request = Request { reenters, backoff, uptime, ..request };
        let guard = acquire(&self.handle, request, self.kind.subject_kind()).await?;
        Ok(guard.map(|guard| K::guard(Claimed(guard))))
    }
}

impl<K: Kind> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}
