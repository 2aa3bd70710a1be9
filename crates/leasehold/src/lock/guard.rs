//! The guard: a value whose lifetime is a hold.
//!
//! While the guard lives, the lock is held or known to be lost.
//!
//! Invariant: a guard decides nothing about its hold. It names the hold, asks the engine, and reads the validity that
//! the engine publishes.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_proto::engine::{Event, Grant, Id, LostReason, Outcome, Subject};
use leasehold_proto::{Confirm, Engine, Name, Owner, WireOwner};

use crate::error::{
    self, About, EnsureError, EnsureErrorKind, Forked, ReleaseError, ReleaseErrorKind, SubjectKind,
};
use crate::runtime::shared::Handle;
use crate::runtime::signal::Signal;
use crate::runtime::ticket::Ticket;

/// A hold of a lock, released when dropped.
///
/// A guard is `Send + 'static`, so tasks and structs can own it. Dropping a guard never blocks and never panics, even
/// outside a runtime and during a panic, because the client's own thread sends the release. Locks have no poisoning,
/// and a panic releases the guard.
///
/// # Losing the lease
/// A hold can end without a release: the watchdog cannot renew it, a fixed lease runs out, or another client or an
/// operator deletes it on the server. [`is_held`](Self::is_held) and [`remaining`](Self::remaining) use a clock that
/// runs in suspend. They count from the send time of the last confirmed call and subtract the drift, the allowance for
/// the difference of two clocks. [`lost`](Self::lost) reports the loss. A process can pause for any time between a
/// check and the next statement, so an action that must not happen twice needs a check at the resource as well.
///
/// # Mistakes that compile
/// A guard holds the lock for exactly as long as it lives. Two ways to write the acquire drop the guard immediately,
/// and neither the compiler nor the lock can notice:
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
/// [`Lock::run`](crate::Lock::run) avoids both.
///
/// # Self-deadlock
/// Without an owner, two acquires of one lock have two owners, even in one task. The second waits for the first,
/// forever.
///
/// ```no_run
/// # async fn example(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// let _outer = client.lock("order:42").lock().await?;
/// let _inner = client.lock("order:42").lock().await?; // waits for `_outer`, and so for itself
/// # Ok(())
/// # }
/// ```
/// If code that holds a lock calls code that acquires it, run both in one [`owner::scope`](crate::owner::scope) or
/// under [`Lock::run`](crate::Lock::run), or pass the guard down. If that is not certain, limit the wait with
/// [`try_lock_for`](crate::Lock::try_lock_for).
#[must_use = "dropping a guard releases the lock at once"]
pub struct Guard {
    handle: Arc<Handle>,
    hold: Id,
    /// The signal by which the engine publishes the validity.
    signal: Arc<Signal>,
    kind: SubjectKind,
    name: Name,
    grant: Grant,
    spent: bool,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a release finds its hold or does not")]
pub enum ReleaseOutcome {
    /// The lock was held until now, and this hold of it is released.
    Released,
    /// The hold was lost before the release.
    NotHeld,
}

/// Who asks for a hold: [`Guard::asked`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asker(Arc<str>);

impl Asker {
    /// Returns what the asker says of itself. Anybody who may ask can write any text here.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Guard {
    /// Creates the guard of a hold that the caller has just claimed.
    pub(crate) fn new(
        handle: &Arc<Handle>,
        (hold, signal): (Id, Arc<Signal>),
        (kind, name): (SubjectKind, Name),
        grant: Grant,
    ) -> Self {
        Self { handle: Arc::clone(handle), hold, signal, kind, name, grant, spent: false }
    }

    /// Returns the object that errors name.
    pub(crate) fn subject(&self) -> error::Subject {
        error::Subject::new(self.kind, self.name())
    }

    /// Returns the replicas that confirm the hold, or `None` for the client's.
    pub(crate) fn confirmed_by(&self) -> Option<Confirm> {
        self.handle.read(|engine, _| engine.replicas_of(self.hold)).ok().flatten()
    }

    /// Returns true if the hold is valid now, by the clock. Makes no round trip, and takes no lock: it reads the clock
    /// and an atomic, so a hot loop can call it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns the validity, which is the time for which the hold can be trusted without a renewal, or zero if it is
    /// lost. Costs as little as [`is_held`](Self::is_held).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        remaining(&self.handle, &self.signal)
    }

    /// Returns a function that reads the validity, for other tasks and threads.
    pub(crate) fn reader(&self) -> impl Fn() -> Duration + Send + Sync + 'static {
        let (handle, signal) = (Arc::clone(&self.handle), Arc::clone(&self.signal));
        move || remaining(&handle, &signal)
    }

    /// Completes when the hold is lost, and returns the reason. The local clock is sufficient, so this needs no answer
    /// of the server.
    ///
    /// # Cancel safety
    /// This method is cancel safe. It can be called any number of times, and completes immediately if the hold is
    /// already lost. In a forked process it completes immediately with [`LostReason::Closed`].
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

    /// Completes when somebody asks for the hold, and returns who: an operator with `leasehold release NAME --ask`. The request
    /// is a message and nothing else: the hold goes on, and the holder decides. Never completes once the hold is over.
    ///
    /// A client that is not [visible](crate::ClientBuilder::visible) cannot be asked.
    ///
    /// # Cancel safety
    /// This method is cancel safe. It can be called any number of times, and completes immediately once somebody has asked.
    ///
    /// # Losing the lease
    /// Says nothing about the loss. Wait for [`lost`](Self::lost) beside it.
    ///
    /// # Examples
    /// ```
    /// # async fn next_batch() -> bool { false }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.lock("rebuild-index").lock().await?;
    /// loop {
    ///     tokio::select! {
    ///         asker = guard.asked() => {
    ///             println!("stopping early for {asker}");
    ///             break;
    ///         }
    ///         more = next_batch() => if !more { break },
    ///     }
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn asked(&self) -> Asker {
        self.asking().await
    }

    /// Completes when somebody asks for the hold, without borrowing the guard.
    pub(crate) fn asking(&self) -> impl Future<Output = Asker> + Send + 'static + use<> {
        let (handle, hold) = (Arc::clone(&self.handle), self.hold);
        let watch = Watch { hold, listener: handle.next_id(), signal: Arc::default(), handle };
        poll_fn(move |cx| match watch.handle.asked_as((hold, watch.listener), &watch.signal, cx.waker()) {
            Ok(Some(by)) => Poll::Ready(Asker(by)),
            // A forked process holds nothing, so nobody asks it.
            Ok(None) | Err(Forked) => Poll::Pending,
        })
    }

    /// Completes when the hold is lost or the guard is gone, without borrowing the guard.
    pub(crate) fn watch(&self) -> impl Future<Output = LostReason> + Send + 'static + use<> {
        let (handle, hold) = (Arc::clone(&self.handle), self.hold);
        let watch = Watch { hold, listener: handle.next_id(), signal: Arc::default(), handle };
        async move {
            poll_fn(|cx| {
                let read = |engine: &Engine, now| engine.lost(hold, now);
                match watch.handle.read_as((hold, watch.listener), &watch.signal, cx.waker(), read) {
                    Ok(Some(reason)) => Poll::Ready(reason),
                    Ok(None) => Poll::Pending,
                    Err(Forked) => Poll::Ready(LostReason::Closed),
                }
            })
            .await
        }
    }

    /// Ensures that the hold stays valid for at least this long. Renews the hold now if less time remains.
    ///
    /// # Errors
    /// [`EnsureError`] if the hold is lost, if no renewal can reach this time, or if the renewal is not confirmed
    /// within the client's timeout.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the hold as it is. A renewal that was sent may still extend it.
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

    /// Does the same as [`ensure`](Self::ensure), without borrowing the guard.
    pub(crate) fn ensuring(
        &self,
        least: Duration,
    ) -> impl Future<Output = Result<(), EnsureError>> + Send + 'static {
        let hold = self.hold;
        let ticket = Ticket::new(&self.handle, |id| Event::Ensure { id, hold, least });
        self.ensured_by(ticket)
    }

    /// Completes when the hold has the validity that a ticket asks for.
    fn ensured_by(&self, ticket: Ticket) -> impl Future<Output = Result<(), EnsureError>> + Send + 'static {
        let subject = self.subject();
        async move {
            let outcome = match ticket.await {
                Ok(Outcome::Ensured(outcome)) => outcome.map_err(EnsureErrorKind::from),
                Err(forked) => Err(forked.into()),
                Ok(other) => unreachable!("an ensure completed as {other:?}"),
            };
            outcome.about(|| subject)
        }
    }

    /// Extends the hold: gives it a lease of this length, counted from now, as if it were acquired with it. Use it for a hold
    /// with a fixed [`lease`](crate::Lock::lease), which nothing else renews.
    ///
    /// A lease that lasts longer stays as it is, and nothing is sent then. The lease is for once. A hold that the watchdog
    /// renews is held for at least this long even if this process loses the server meanwhile, and the watchdog goes on with
    /// its own lease. So a released lock is free at once, but the lock of a process that dies is closed for the whole time.
    ///
    /// # Errors
    /// [`EnsureError`] if the hold is lost, if `lease` exceeds 365 days or the rest of the hold's
    /// [`max_hold`](crate::Lock::max_hold), or if the server does not confirm it within the client's timeout. The hold may
    /// then have the lease on the server, but it is not trusted for longer than before.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the hold as it is. A call that was sent may still extend it.
    ///
    /// # Losing the lease
    /// A lost hold is never extended, and extending never takes a lock.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.lock("import").lease(Duration::from_secs(60)).lock().await?;
    /// // ... the file is larger than usual ...
    /// guard.extend(Duration::from_secs(600)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(590));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, lease: Duration) -> Result<(), EnsureError> {
        self.extending(lease).await
    }

    /// Does the same as [`extend`](Self::extend), without borrowing the guard.
    pub(crate) fn extending(
        &self,
        by: Duration,
    ) -> impl Future<Output = Result<(), EnsureError>> + Send + 'static {
        let hold = self.hold;
        let ticket = Ticket::new(&self.handle, |id| Event::Extend { id, hold, by });
        self.ensured_by(ticket)
    }

    /// Shows that the holder is alive. Only a lock with [`silent_for`](crate::Lock::silent_for) needs it: its watchdog renews a
    /// hold only as long as beats come. Makes no round trip, unless a renewal is overdue, and never waits for one.
    ///
    /// # Losing the lease
    /// A beat after the loss does nothing.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let rows = [1, 2, 3];
    /// let guard = client.lock("import").silent_for(Duration::from_secs(60)).lock().await?;
    /// for row in rows {
    ///     guard.beat();
    ///     println!("row {row}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn beat(&self) {
        // A forked process holds nothing.
        let _ = self.handle.step(Event::Beat(self.hold));
    }

    /// Releases the hold and reports the outcome.
    ///
    /// # Errors
    /// [`ReleaseErrorKind::Unconfirmed`](crate::error::ReleaseErrorKind::Unconfirmed) if the server does not answer within
    /// the client's timeout. A release that waits behind other calls of the client counts the timeout from their last
    /// answer, up to two timeouts. The client keeps trying in the background until the lease has ended.
    ///
    /// # Cancel safety
    /// Dropping the future discards the report and does not cancel the release.
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
            Ok(other) => unreachable!("a release completed as {other:?}"),
        };
        outcome.about(|| self.subject())
    }

    /// Consumes the guard without a release. Renewal stops, and the lock becomes free when the current lease runs out.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("daily-report").lease(Duration::from_secs(600));
    /// if let Some(guard) = lock.try_lock().await? {
    ///     guard.detach(); // no other process makes it for ten minutes
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(mut self) {
        self.spent = self.handle.step(Event::Detach(self.hold)).is_ok();
    }

    /// Sets the minimum hold time of a running hold.
    pub(crate) fn hold_at_least(&self, least: Duration) {
        // A forked process holds nothing.
        let _ = self.handle.step(Event::SetMinHold(self.hold, least));
    }

    /// Says what the hold is for, for example `import of 2026-11-26`, in place of what was said before. Operators see it in
    /// `leasehold list`, and the program in [`Client::holds`](crate::Client::holds). It stays in the client until somebody
    /// asks. At most 512 bytes of it are shown, with spaces for control characters.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.lock("import").lock().await?;
    /// for day in ["2026-11-25", "2026-11-26"] {
    ///     guard.note(&format!("import of {day}"));
    ///     // ... work ...
    /// }
    /// # let hold = client.holds().next().expect("a hold");
    /// assert_eq!(hold.note.as_deref(), Some("import of 2026-11-26"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn note(&self, note: &str) {
        self.handle.note(self.hold, note.into());
    }

    /// Returns the name of the lock, without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.defaults().as_written(&self.name)
    }

    /// Returns what spans have in place of the name.
    pub(crate) fn shown_name(&self) -> Cow<'_, str> {
        self.handle.shown(&self.name, None)
    }

    /// Returns the wire owner of this hold, which is the field of the lock's hash on the server. Two successive guards of
    /// a client show the same one if the hold passed from one to the other
    /// ([`ClientBuilder::hand_off`](crate::ClientBuilder::hand_off)).
    #[must_use]
    pub const fn wire_owner(&self) -> WireOwner {
        self.grant.wire
    }

    /// Returns the subject and the owner of the hold, if it belongs to this client.
    pub(crate) fn held(&self, client: &Arc<Handle>) -> Result<Option<(Subject, Owner)>, Forked> {
        let held = self.handle.read(|engine, _| engine.held(self.hold))?;
        Ok(held.filter(|_| Arc::ptr_eq(&self.handle, client)))
    }

    /// Returns the engine's number of the hold.
    pub(crate) const fn id(&self) -> Id {
        self.hold
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Returns the kind of what is held.
    pub(crate) const fn subject_kind(&self) -> SubjectKind {
        self.kind
    }

    /// Returns the fencing token, if the kind has tokens.
    pub(crate) const fn token(&self) -> Option<u64> {
        self.grant.token
    }
}

impl AsRef<Self> for Guard {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Implements the conversions of a type to the guard in its field.
macro_rules! guard_inside {
    ($type:ident.$field:tt: $guard:ty) => {
        impl ::std::ops::Deref for $type {
            type Target = $guard;

            fn deref(&self) -> &$guard {
                &self.$field
            }
        }

        impl AsRef<$guard> for $type {
            fn as_ref(&self) -> &$guard {
                &self.$field
            }
        }

        impl From<$type> for $guard {
            fn from(outer: $type) -> Self {
                outer.$field
            }
        }
    };
}

pub(crate) use guard_inside;

/// A waiter for the loss, or for somebody who asks. It deregisters when dropped, because a long hold can have any number of waiters, one after
/// the other.
struct Watch {
    handle: Arc<Handle>,
    hold: Id,
    listener: Id,
    signal: Arc<Signal>,
}

fn remaining(handle: &Handle, signal: &Signal) -> Duration {
    match handle.check_process() {
        Ok(()) => signal.trusted_until().since(handle.now()),
        Err(Forked) => Duration::ZERO,
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A forked process has no listener to remove.
        let _ = self.handle.forget_listener(self.hold, self.listener);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.spent {
            // A forked process releases nothing, because the hold belongs to the parent.
            let _ = self.handle.step(Event::Release { hold: self.hold, report: None });
        }
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
