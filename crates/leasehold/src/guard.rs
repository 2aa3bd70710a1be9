//! A hold, as a value: while it lives, the lock is held or known to be lost.
//!
//! Invariant: a guard keeps no state of its own. It names a hold, and asks the engine, which goes by the clock.
//! Called by: the locks, which make guards; users.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_proto::engine::{Event, Grant, Id, LostReason, Outcome, Subject};
use leasehold_proto::{Engine, Name, Owner, WireOwner};

use crate::error::{self, About, EnsureError, EnsureErrorKind, ReleaseError, ReleaseErrorKind, SubjectKind};
use crate::shared::{Forked, Handle};
use crate::ticket::Ticket;

/// A hold of a lock, released when dropped.
///
/// `Send + 'static`: it can be moved into tasks and structs. Dropping it never blocks and never panics, outside a
/// runtime and during a panic too: the release is queued and done by the client's own thread. There is no poisoning:
/// a panic releases.
///
/// # Losing the lease
/// A hold ends without its holder's doing when the watchdog cannot renew it, when a fixed lease runs out, or when
/// somebody deletes it on the server. [`is_held`](Self::is_held) and [`remaining`](Self::remaining) go by a clock that
/// does not stand still in suspend, counted from before the last confirmed call was sent, less what clocks may differ;
/// [`lost`](Self::lost) tells you. Between a check and what follows it a process can be paused for any time: what must
/// not happen twice needs a check at the resource as well.
///
/// # Slips that compile
/// A guard holds the lock for exactly as long as it lives. Two ways to write the acquire drop it at once, and neither the
/// compiler nor the lock can tell:
///
/// ```
/// # use leasehold::Lock;
/// # async fn work() {}
/// # async fn example(lock: Lock) -> Result<(), leasehold::Error> {
/// let _ = lock.lock().await?; // wrong: `_` binds nothing, the lock is released before the next line
/// work().await;
///
/// let _guard = lock.lock().await?; // right: held to the end of the scope
/// work().await;
/// # Ok(())
/// # }
/// ```
/// ```
/// # use leasehold::Lock;
/// # async fn work() {}
/// # async fn example(lock: Lock) -> Result<(), leasehold::Error> {
/// if lock.try_lock().await?.is_some() {
///     work().await; // wrong: the guard was dropped with the condition
/// }
///
/// if let Some(_guard) = lock.try_lock().await? {
///     work().await; // right: held to the end of the block
/// }
/// # Ok(())
/// # }
/// ```
/// [`Lock::run`](crate::Lock::run) leaves no room for either.
///
/// # A deadlock of one's own
/// Without an owner, two acquires of one lock are two owners, also in one task: the second waits for the first, forever.
///
/// ```no_run
/// # async fn example(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// let _outer = client.lock("order:42").lock().await?;
/// let _inner = client.lock("order:42").lock().await?; // waits for `_outer`, and so for itself
/// # Ok(())
/// # }
/// ```
/// Where code that holds a lock calls code that takes it, run both in one [`owner::scope`](crate::owner::scope) or under
/// [`Lock::run`](crate::Lock::run), or hand the guard down. A wait that may be such a one is better bounded, by
/// [`try_lock_for`](crate::Lock::try_lock_for).
#[must_use = "dropping a guard releases the lock at once"]
pub struct Guard {
    handle: Arc<Handle>,
    hold: Id,
    kind: SubjectKind,
    name: Name,
    grant: Grant,
    spent: bool,
}

/// How a release went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a release finds its hold or does not")]
pub enum ReleaseOutcome {
    /// The lock was held until now and this hold of it is given back.
    Released,
    /// The lock was not this holder's any more: it had been lost before the release.
    NotHeld,
}

impl Guard {
    /// Of a hold that was just claimed.
    pub(crate) fn new(
        handle: &Arc<Handle>,
        hold: Id,
        (kind, name): (SubjectKind, Name),
        grant: Grant,
    ) -> Self {
        Self { handle: Arc::clone(handle), hold, kind, name, grant, spent: false }
    }

    /// What an error is about.
    pub(crate) fn subject(&self) -> error::Subject {
        error::Subject::new(self.kind, self.name())
    }

    /// Whether the hold may be trusted now, by the clock. Costs no round trip.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.handle.read(|engine, now| engine.is_held(self.hold, now)).unwrap_or(false)
    }

    /// For how long the hold may be trusted unless it is renewed; zero when it is lost. Costs no round trip.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.handle.read(|engine, now| engine.remaining(self.hold, now)).unwrap_or(Duration::ZERO)
    }

    /// Completes when the hold is lost, and says why. By the local clock alone: no server has to answer for it.
    ///
    /// # Cancel safety
    /// Cancel safe; it may be called any number of times, and at once when the hold is lost already. In a forked
    /// process it completes at once, as [`LostReason::Closed`].
    ///
    /// # Examples
    /// ```
    /// # async fn work() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let guard = client.lock("order:42").lock().await?;
    /// tokio::select! {
    ///     () = work() => {}
    ///     reason = guard.lost() => eprintln!("stopped: {reason}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LostReason {
        self.watch().await
    }

    /// Completes when the hold is lost or the guard has gone, without keeping the guard.
    pub(crate) fn watch(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let (handle, hold) = (Arc::clone(&self.handle), self.hold);
        let watch = Watch { hold, listener: handle.next_id(), handle };
        async move {
            poll_fn(|cx| {
                let look = |engine: &Engine, now| engine.lost(hold, now);
                match watch.handle.read_as(hold, watch.listener, cx.waker(), look) {
                    Ok(Some(reason)) => Poll::Ready(reason),
                    Ok(None) => Poll::Pending,
                    Err(Forked) => Poll::Ready(LostReason::Closed),
                }
            })
            .await
        }
    }

    /// Makes sure that the hold may be trusted for at least this long: renews it now if less is left.
    ///
    /// # Errors
    /// [`EnsureError`] when the hold is lost, when no renewal can give so much, or when the renewal was not confirmed,
    /// at the latest after the client's timeout.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the hold as it is; a renewal that was sent may still extend it.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let guard = client.lock("order:42").lock().await?;
    /// guard.ensure(Duration::from_secs(5)).await?;
    /// // ... what takes less than 5 s ...
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ensure(&self, least: Duration) -> Result<(), EnsureError> {
        self.ensuring(least).await
    }

    /// The same without keeping the guard.
    pub(crate) fn ensuring(
        &self,
        least: Duration,
    ) -> impl Future<Output = Result<(), EnsureError>> + Send + 'static {
        let (hold, subject) = (self.hold, self.subject());
        let ticket = Ticket::new(&self.handle, |id| Event::Ensure { id, hold, least });
        async move {
            let outcome = match ticket.await {
                Ok(Outcome::Ensured(outcome)) => outcome.map_err(EnsureErrorKind::from),
                Err(forked) => Err(forked.into()),
                Ok(other) => unreachable!("an ensure settled as {other:?}"),
            };
            outcome.about(|| subject)
        }
    }

    /// Releases, and reports how it went.
    ///
    /// # Errors
    /// [`ReleaseErrorKind::Unconfirmed`](crate::ReleaseErrorKind::Unconfirmed) when the server has not answered within the client's timeout. The release goes on
    /// being tried without anybody waiting, until the lease has ended.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the release, it only gives up the report.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let guard = client.lock("order:42").lock().await?;
    /// match guard.release().await? {
    ///     leasehold::ReleaseOutcome::Released => {}
    ///     leasehold::ReleaseOutcome::NotHeld => println!("it was lost before"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(mut self) -> Result<ReleaseOutcome, ReleaseError> {
        let hold = self.hold;
        let ticket = Ticket::new(&self.handle, |id| Event::Release { hold, report: Some(id) });
        self.spent = true;
        let outcome = match ticket.await {
            Ok(Outcome::Released(Ok(true))) => Ok(ReleaseOutcome::Released),
            Ok(Outcome::Released(Ok(false))) => Ok(ReleaseOutcome::NotHeld),
            Ok(Outcome::Released(Err(failure))) => Err(ReleaseErrorKind::from(failure)),
            Err(forked) => Err(forked.into()),
            Ok(other) => unreachable!("a release settled as {other:?}"),
        };
        outcome.about(|| self.subject())
    }

    /// Gives the guard up without a release: renewal stops, and the lock is free when the present lease has run out.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("daily-report").lease(Duration::from_secs(600));
    /// if let Some(guard) = lock.try_lock().await? {
    ///     guard.detach(); // nobody else makes it for ten minutes
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(mut self) {
        self.spent = self.handle.step(Event::Detach(self.hold)).is_ok();
    }

    /// From now on it is to last at least so long.
    pub(crate) fn hold_at_least(&self, least: Duration) {
        // In a forked process there is nothing held.
        let _ = self.handle.step(Event::AtLeast(self.hold, least));
    }

    /// The name of the lock, without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.defaults().as_written(&self.name)
    }

    /// What stands on the server for this hold: the field of the lock's hash.
    #[must_use]
    pub const fn wire_owner(&self) -> WireOwner {
        self.grant.wire
    }

    /// What it holds and whose it is, if it is a hold of this client.
    pub(crate) fn held(&self, client: &Arc<Handle>) -> Result<Option<(Subject, Owner)>, Forked> {
        let held = self.handle.read(|engine, _| engine.held(self.hold))?;
        Ok(held.filter(|_| Arc::ptr_eq(&self.handle, client)))
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The fencing token, of the kinds that have them.
    pub(crate) const fn token(&self) -> Option<u64> {
        self.grant.token
    }
}

impl AsRef<Self> for Guard {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// One who waits for the loss; a guard that is held for long may have any number of them, one after the other.
struct Watch {
    handle: Arc<Handle>,
    hold: Id,
    listener: Id,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // In a forked process there is nobody to forget.
        let _ = self.handle.forget_listener(self.hold, self.listener);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // In a forked process the hold is the parent's.
        if !self.spent {
            let _ = self.handle.step(Event::Release { hold: self.hold, report: None });
        }
        let _ = self.handle.forget(self.hold);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name)
            .field("owner", &self.grant.wire)
            .finish_non_exhaustive()
    }
}
