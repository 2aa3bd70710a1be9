//! The handle of a lock of any kind.
//!
//! Invariant: a [`Lock`] consists of a name and terms only. Guards identify holds, and the engine decides.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Owner;
use leasehold_proto::engine::{Request, Wait};

use super::acquire::acquire;
use super::guard::Guard;
use super::kind::{Claimed, Kind};
use super::reentrant::Reentrant;
use crate::error::{self, About, AcquireError, AcquireErrorKind};
use crate::name::Named;
use crate::owner::of_caller;
use crate::runtime::shared::Handle;
use crate::runtime::ticket::wait_for;
use crate::terms::{HoldTerms, hold_options};

/// A lock that at most one owner holds at a time, across all processes. Cheap to clone.
///
/// The holder may acquire the lock again (re-entry). Only a read lock ([`Read`](crate::lock::Read)) can have several
/// holders.
///
/// [`Client::lock`](crate::Client::lock) and its siblings for the other kinds create a lock. Unless a fixed
/// [`lease`](Self::lease) is set, a *watchdog* renews the hold for as long as its guard lives. A process that dies
/// loses the lock within one lease. [`ClientBuilder::defaults`](crate::ClientBuilder::defaults) changes the defaults of
/// the settings below for all locks of a client.
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
    pub(crate) handle: Arc<Handle>,
    pub(crate) name: Named,
    pub(crate) owner: Option<Owner>,
    pub(crate) terms: HoldTerms,
    pub(crate) reenters: bool,
    pub(crate) note: Option<Arc<str>>,
    pub(crate) kind: K,
}

impl<K: Kind> Lock<K> {
    pub(crate) fn new(handle: &Arc<Handle>, name: Named, terms: HoldTerms, kind: K) -> Self {
        let handle = Arc::clone(handle);
        Self { handle, name, owner: None, terms, reenters: true, note: None, kind }
    }

    /// Acquires the lock, waiting as long as it takes.
    ///
    /// The waiters of one client are served in the order of their arrival. Only a [`Fair`](crate::lock::Fair) lock has
    /// an order between clients.
    ///
    /// # Errors
    /// [`AcquireError`] if the server fails for the whole of the client's timeout, or if it cannot grant at all. A hold
    /// of another owner is not an error, and the call waits for its end.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, so nothing stays
    /// locked.
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
            // A wait without a deadline ends with a guard or an error, so the loop runs once.
            if let Some(guard) = self.acquire(|_| Wait::Forever).await? {
                return Ok(guard);
            }
        }
    }

    /// Tries to acquire the lock with exactly one call to the server, without waiting. Returns `None` if another owner
    /// holds the lock.
    ///
    /// # Errors
    /// [`AcquireError`] if the server does not answer, or if it cannot grant at all.
    ///
    /// # Cancel safety
    /// If the future is dropped, the client undoes a grant in flight, so nothing stays locked.
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
    ///     None => println!("another owner holds it"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<K::Guard>, AcquireError> {
        self.acquire(|_| Wait::Once).await
    }

    /// Acquires the lock, waiting for at most `wait`, counted from the first poll. Returns `None` if another owner
    /// held the lock until then. A `wait` of zero makes exactly one attempt.
    ///
    /// # Errors
    /// [`AcquireError`] as for [`lock`](Self::lock), or if the server does not answer by the end of the wait.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, so nothing stays
    /// locked.
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

    /// Sets the owner of the acquires. Acquires with equal owners re-enter each other.
    ///
    /// By default, an acquire inside [`run`](Self::run) of the same lock takes the owner from there, and one inside
    /// [`owner::scope`](crate::owner::scope) takes the owner of the scope. Outside both, each acquire has its own owner.
    ///
    /// An owner re-enters through one client only. Its holds through another client exclude it like the holds of any
    /// other owner, and this client does not see them.
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

    /// Forbids re-entry, as Redisson's non-reentrant lock does.
    ///
    /// An acquire by an owner that already holds the lock fails with
    /// [`AcquireErrorKind::AlreadyHeld`]. The existing hold stays as it is.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let owner = client.owner();
    /// let lock = client.lock("order:42").owned_by(&owner).non_reentrant();
    /// let guard = lock.lock().await?;
    /// assert_eq!(lock.lock().await.unwrap_err().kind, leasehold::error::AcquireErrorKind::AlreadyHeld);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn non_reentrant(mut self) -> Self {
        self.reenters = false;
        self
    }

    /// Says what the holds are for, as [`Guard::note`](crate::Guard::note) does for one of them.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("import").note("import of 2026-11-26");
    /// lock.run(async |_guard| {
    ///     assert!(client.holds().next().expect("a hold").note.is_some());
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Sets the time after a grant of the server for which the lock passes from one waiter of this client to the next
    /// without a call (default: the client's, 2 ms). [`Duration::ZERO`] turns it off. See
    /// [`ClientBuilder::hand_off`](crate::ClientBuilder::hand_off).
    #[must_use]
    pub fn hand_off(self, bound: Duration) -> Self {
        self.map_terms(|terms| terms.hand_off(bound))
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(crate) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        Self { terms: change(self.terms), ..self }
    }

    /// Changes the kind of the lock.
    pub(crate) fn map_kind(self, change: impl FnOnce(K) -> K) -> Self {
        let kind = change(self.kind.clone());
        Self { kind, ..self }
    }

    /// Returns the object that errors name.
    pub(crate) fn subject(&self) -> error::Subject {
        self.handle.subject(self.kind.subject_kind(), &self.name)
    }

    /// Returns what spans have in place of the name.
    pub(crate) fn shown_name(&self) -> Cow<'_, str> {
        self.name.as_ref().map(|name| self.handle.shown(name, None)).unwrap_or_default()
    }

    /// Gives a new hold the note of this handle.
    pub(super) fn note_on(&self, guard: &Guard) {
        if let Some(note) = &self.note {
            guard.note(note);
        }
    }

    async fn acquire(&self, wait: impl FnOnce(&Handle) -> Wait) -> Result<Option<K::Guard>, AcquireError> {
        let acquired = async {
            let request = self.request(wait)?;
            let guard = acquire(&self.handle, request, self.kind.subject_kind()).await?;
            guard.iter().for_each(|guard| self.note_on(guard));
            Ok::<_, AcquireErrorKind>(guard.map(|guard| K::guard(Claimed(guard))))
        };
        acquired.await.about(|| self.subject())
    }

    /// Creates the request of an acquire.
    pub(crate) fn request(&self, wait: impl FnOnce(&Handle) -> Wait) -> Result<Request, AcquireErrorKind> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        let subject = self.kind.subject(name);
        let owner = self.owner.unwrap_or_else(|| of_caller(self.handle.client(), name));
        let request = self.terms.request(subject, owner, wait(&self.handle))?;
        let (reenters, backoff, uptime) = (self.reenters, self.kind.backoff(), self.kind.uptime());
        Ok(Request { reenters, backoff, uptime, share: self.kind.share(), ..request })
    }
}

hold_options!(Lock<K> where K: Kind);

impl<K: Kind> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}
