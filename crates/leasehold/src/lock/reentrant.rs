//! The reentrant lock: Redisson's `RLock`.
//!
//! Invariant: a [`Lock`] is a name and terms, nothing more; what is held is known by guards and decided by the engine.
//! Called by: the client, which makes locks; users.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use leasehold_proto::engine::{Event, Id, LostReason, Request, Settlement, Subject, Wait};
use leasehold_proto::recipe::reentrant::{self, Inspection, Reentrant, Remaining};
use leasehold_proto::{
    Applied, Call, LEASE_MIN, Lease, Name, NameError, Owner, Reply, StoreError, StoreErrorKind,
};

use crate::error::{AcquireError, InspectError, RunError};
use crate::guard::{Guard, Released};
use crate::owner::ambient;
use crate::shared::Handle;
use crate::ticket::Ticket;

/// The lease that the watchdog renews, unless another is given; Redisson's default.
const WATCHDOG_LEASE: Duration = Duration::from_secs(30);

/// A reentrant lock: at most one owner holds it, over all processes, and that owner may take it again. Cheap to clone.
///
/// Made by [`Client::lock`](crate::Client::lock). Unless a fixed [`lease`](Self::lease) is given, a *watchdog* renews the
/// hold for as long as its guard lives; a process that dies loses the lock within one lease.
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
pub struct Lock {
    handle: Arc<Handle>,
    name: Result<Name, NameError>,
    owner: Option<Owner>,
    terms: Terms,
}

/// What a hold is to be like.
#[derive(Clone, Copy)]
struct Terms {
    lease: Duration,
    watchdog: bool,
    max_renewals: Option<u32>,
    max_hold: Option<Duration>,
}

/// What can name a lock: text, or a [`Name`] that was made otherwise.
pub trait IntoName {
    /// The name, or why it cannot be used.
    ///
    /// # Errors
    /// [`NameError`] says which rule the text breaks.
    fn into_name(self) -> Result<Name, NameError>;
}

impl IntoName for Name {
    fn into_name(self) -> Result<Name, NameError> {
        Ok(self)
    }
}

impl IntoName for &str {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(self)
    }
}

impl IntoName for String {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(&self)
    }
}

impl IntoName for &String {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(self)
    }
}

impl Lock {
    pub(crate) fn new(handle: &Arc<Handle>, name: Result<Name, NameError>) -> Self {
        let terms = Terms { lease: WATCHDOG_LEASE, watchdog: true, max_renewals: None, max_hold: None };
        Self { handle: Arc::clone(handle), name, owner: None, terms }
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
        (self.terms.lease, self.terms.watchdog) = (lease, false);
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
        (self.terms.lease, self.terms.watchdog) = (lease, true);
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
    pub const fn max_hold(mut self, most: Duration) -> Self {
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
    pub const fn max_renewals(mut self, most: u32) -> Self {
        self.terms.max_renewals = Some(most);
        self
    }

    /// The same lock on behalf of an owner: acquires with equal owners re-enter each other. Without it the owner is that
    /// of the enclosing [`owner::scope`](crate::owner::scope), and outside a scope every acquire has its own.
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
    pub const fn owned_by(mut self, owner: &Owner) -> Self {
        self.owner = Some(*owner);
        self
    }

    /// Waits for the lock, for ever if need be.
    ///
    /// Waiters of one client are served in the order in which they came; between clients there is no order.
    ///
    /// # Errors
    /// [`AcquireError`] when the server has failed for the whole of the client's timeout, or cannot grant at all.
    /// Somebody else's hold is waited for, not an error.
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A grant on its way is undone; nothing stays locked.
    ///
    /// # Losing the lease
    /// See [`Guard`].
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
    pub async fn lock(&self) -> Result<Guard, AcquireError> {
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
    /// See [`Guard`].
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
    pub async fn try_lock(&self) -> Result<Option<Guard>, AcquireError> {
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
    /// See [`Guard`].
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
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        if wait.is_zero() {
            return self.try_lock().await;
        }
        self.acquire(|handle| Wait::Until(handle.now() + wait)).await
    }

    /// Runs a body under the lock: waits for it, renews it, and releases it. When the hold is lost the body is
    /// cancelled at its next await point.
    ///
    /// # Errors
    /// [`RunError::Acquire`] when there was no lock and so the body did not run; [`RunError::Lost`] when the hold was
    /// lost before the body had ended. A body that ended in time has its value returned even if the release could not
    /// be confirmed, since the lease ends the hold.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body and releases.
    ///
    /// # Examples
    /// ```
    /// # async fn charge(order: u64) -> Result<(), std::io::Error> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let receipt = client.lock("order:42").run(async |_guard| charge(42).await).await??;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T, F>(&self, body: F) -> Result<T, RunError>
    where
        F: AsyncFnOnce(&Guard) -> T,
    {
        let guard = self.lock().await?;
        let value = while_held(&guard, body(&guard)).await.map_err(|reason| RunError::Lost { reason })?;
        let lost = guard.lost().now_or_never();
        match guard.release().await {
            Ok(Released::NotHeld) => Err(RunError::Lost { reason: lost.unwrap_or(LostReason::Deleted) }),
            Ok(Released::Released) | Err(_) => Ok(value),
        }
    }

    /// Takes the lock away from whoever holds it, and wakes the waiters. The holder finds out at its next renewal.
    /// `false` when it was free.
    ///
    /// # Errors
    /// [`InspectError`]; when its `applied` is unknown the lock may have been freed.
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
    ///
    /// # Losing the lease
    /// The holder's guards are not told at once: they find out at their next renewal, and one with a fixed lease, or that
    /// is cut off, trusts its hold to the end of its lease. Until then a new holder may be valid beside it.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42");
    /// lock.lock().await?.keep(); // somebody who does not give it back
    /// assert!(lock.force_unlock().await?);
    /// assert!(!lock.force_unlock().await?, "it was free");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_unlock(&self) -> Result<bool, InspectError> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        self.look(reentrant::force_release(name), reentrant::read_force_release).await
    }

    /// Whether anybody holds the lock.
    ///
    /// # Errors
    /// [`InspectError`] when the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42");
    /// assert!(!lock.is_locked().await?);
    /// let guard = lock.lock().await?;
    /// assert!(lock.is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn is_locked(&self) -> Result<bool, InspectError> {
        Ok(self.inspect(None).await?.remaining.is_some())
    }

    /// How long the present hold lasts by the server's clock unless it is renewed; `None` when the lock is free.
    ///
    /// # Errors
    /// [`InspectError`] when the server did not answer, or the key has no expiry.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42");
    /// assert_eq!(lock.remaining().await?, None);
    /// let guard = lock.lock().await?;
    /// assert!(lock.remaining().await? > Some(guard.remaining()), "a client trusts it for less");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remaining(&self) -> Result<Option<Duration>, InspectError> {
        match self.inspect(None).await?.remaining {
            None => Ok(None),
            Some(Remaining::For(span)) => Ok(Some(span)),
            Some(Remaining::NoExpiry) => Err(InspectError::NoExpiry),
        }
    }

    /// Whether this owner holds the lock, by the server's word.
    ///
    /// Only holds through this client are seen: the same owner's through another one are somebody else's.
    ///
    /// # Errors
    /// [`InspectError`] when the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let owner = client.owner();
    /// let lock = client.lock("order:42").owned_by(&owner);
    /// let guard = lock.lock().await?;
    /// assert!(lock.is_held_by(&owner).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn is_held_by(&self, owner: &Owner) -> Result<bool, InspectError> {
        Ok(self.hold_count(owner).await? > 0)
    }

    /// How often this owner holds the lock, by the server's word.
    ///
    /// Only holds through this client are seen: the same owner's through another one are somebody else's.
    ///
    /// # Errors
    /// [`InspectError`] when the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let owner = client.owner();
    /// let lock = client.lock("order:42").owned_by(&owner);
    /// let (outer, inner) = (lock.lock().await?, lock.lock().await?);
    /// assert_eq!(lock.hold_count(&owner).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hold_count(&self, owner: &Owner) -> Result<u32, InspectError> {
        Ok(self.inspect(Some(*owner)).await?.hold_count)
    }

    async fn acquire(&self, wait: impl FnOnce(&Handle) -> Wait) -> Result<Option<Guard>, AcquireError> {
        let name = self.name.clone()?;
        let request = self.request(&name, wait(&self.handle))?;
        let ticket = Ticket::new(&self.handle, |id: Id| Event::Acquire(id, request));
        let hold = ticket.id();
        match ticket.await? {
            Settlement::Acquired(Ok(owner)) => Ok(Some(Guard::new(&self.handle, hold, name, owner))),
            Settlement::Acquired(Err(failure)) => AcquireError::of(failure).map_or(Ok(None), Err),
            other => unreachable!("an acquire settled as {other:?}"),
        }
    }

    fn request(&self, name: &Name, wait: Wait) -> Result<Request, AcquireError> {
        if let Some(given) = self.terms.max_hold.filter(|most| *most < LEASE_MIN) {
            return Err(AcquireError::MaxHold { given });
        }
        Ok(Request {
            subject: subject(name),
            owner: self.owner.or_else(ambient).unwrap_or_else(Owner::unique),
            lease: Lease::new(self.terms.lease)?,
            watchdog: self.terms.watchdog,
            max_renewals: self.terms.max_renewals,
            max_hold: self.terms.max_hold,
            wait,
        })
    }

    async fn inspect(&self, owner: Option<Owner>) -> Result<Inspection, InspectError> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        let wire = match owner {
            Some(owner) => self.handle.read(|engine, _| engine.wire_owner_of(&subject(name), owner))?,
            None => None,
        };
        self.look(reentrant::inspect(name, wire), reentrant::read_inspect).await
    }

    async fn look<T>(&self, call: Call, read: impl FnOnce(&Reply) -> Option<T>) -> Result<T, InspectError> {
        let (verb, key) = (call.verb(), call.subject());
        let reply = self.handle.look(call).await?.ok_or(InspectError::Closed)??;
        read(&reply)
            .ok_or_else(|| StoreError::new(StoreErrorKind::Malformed, verb, key, Applied::Unknown).into())
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lock").field(&self.name).finish()
    }
}

fn subject(name: &Name) -> Subject {
    Subject { name: name.clone(), recipe: &Reentrant }
}

/// Runs a body for as long as the hold may be trusted. A body that ends at the very moment of the loss has lost.
async fn while_held<T>(guard: &Guard, body: impl Future<Output = T>) -> Result<T, LostReason> {
    let mut body = pin!(body);
    let mut lost = pin!(guard.lost());
    poll_fn(|cx| {
        if let Poll::Ready(reason) = lost.as_mut().poll(cx) {
            return Poll::Ready(Err(reason));
        }
        let Poll::Ready(value) = body.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        match lost.as_mut().poll(cx) {
            Poll::Ready(reason) => Poll::Ready(Err(reason)),
            Poll::Pending => Poll::Ready(Ok(value)),
        }
    })
    .await
}
