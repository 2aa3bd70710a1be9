//! A body under a lock: how to wait for it, what a loss means to the body, and what its end means to the hold.
//!
//! Invariant: the body runs only while the hold may be trusted, unless it was said that it may finish.
//! Called by: users, through [`Lock::run`] and [`Lock::section`]; the code that the attribute writes.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use leasehold_proto::engine::LostReason;

use crate::error::{RunError, Subject};
use crate::guard::{Guard, ReleaseOutcome};
use crate::lock::{Kind, Lock};
use crate::owner::Under;
use crate::semaphore::{ExpirableSemaphore, Permits};

/// What becomes of the hold when the body has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFinish {
    /// It is released.
    #[default]
    Release,
    /// It is [kept](Guard::detach): renewal stops, and others get it when the present lease has run out. With a fixed
    /// lease that makes an interval: nobody else runs the body until it is over. A
    /// [least time](Lock::min_hold) is that of a release, and does not count here.
    Detach,
}

/// What becomes of the body when the hold is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// It is dropped at its next await point, and the run fails.
    #[default]
    Cancel,
    /// It goes on to its end, and its value is returned as if nothing had happened. For bodies that do more harm when
    /// they stop half-way than when two of them run.
    Finish,
}

/// One run of a body under a lock, before it begins. Made by [`Lock::section`] and [`ExpirableSemaphore::section`].
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// use leasehold::{OnFinish, RunError};
///
/// let report = client.lock("daily-report").lease(Duration::from_secs(3600));
/// let section = report.section().wait(Duration::ZERO).on_finish(OnFinish::Detach);
/// section.run(async |_guard| println!("the report")).await?;
///
/// // Nobody makes another one within the hour.
/// let again = report.section().wait(Duration::ZERO).run(async |_guard| ()).await;
/// assert!(matches!(again, Err(RunError::Busy { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a section does nothing until it is run or entered"]
pub struct Section<A: Acquirable> {
    acquirable: A,
    wait: Option<Duration>,
    manners: Manners,
}

/// What a body can run under: a [`Lock`] of any kind, or a [`OnePermit`] at a semaphore. The crate's own types implement it.
pub trait Acquirable: Sealed<Held = Self::Guard> + Clone + fmt::Debug + Send + Sync + 'static {
    /// What the body is given.
    type Guard: AsRef<Guard> + Into<Guard> + Send + Sync + 'static;
}

/// What only this crate does with it.
pub trait Sealed {
    /// Its guard.
    type Held;

    /// What errors are about.
    #[doc(hidden)]
    fn subject(&self) -> Subject;

    /// Takes it within this time, if one is given, and says what a body runs under then.
    #[doc(hidden)]
    fn take(
        &self,
        wait: Option<Duration>,
    ) -> impl Future<Output = Result<Option<Taken<Self::Held>>, RunError>> + Send;
}

/// A guard, and what its body runs under.
#[doc(hidden)]
#[derive(Debug)]
pub struct Taken<G> {
    guard: G,
    under: Under,
}

/// How a body and its hold end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    on_finish: OnFinish,
    on_lost: OnLost,
}

impl<A: Acquirable> Section<A> {
    pub(crate) fn of(acquirable: A) -> Self {
        Self { acquirable, wait: None, manners: Manners::default() }
    }

    /// The same, waiting for at most this long; without it, for ever. A wait of nothing asks exactly once.
    ///
    /// # Examples
    /// See [`Section`].
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// The same with another end of the hold (default: it is released).
    ///
    /// # Examples
    /// See [`Section`].
    pub fn on_finish(mut self, on_finish: OnFinish) -> Self {
        self.manners.on_finish = on_finish;
        self
    }

    /// The same with another answer to a loss of the hold (default: the body is cancelled).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let section = client.lock("archive").section().on_lost(leasehold::OnLost::Finish);
    /// section.run(async |guard| if !guard.is_held() { println!("nobody keeps others out any more") }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.manners.on_lost = on_lost;
        self
    }

    /// Waits, runs the body, and ends the hold.
    ///
    /// What the body calls re-enters its lock: it has the body's owner. What the body spawns does not; for tasks
    /// that the body polls on an executor of its own see [`owner::independent`](crate::owner::independent).
    ///
    /// # Errors
    /// [`RunError`]: when the lock was not acquired, and so the body did not run; and when the hold was lost before the
    /// body had ended. A body that ended in time has its value returned even if the release could not be confirmed,
    /// since the lease ends the hold.
    ///
    /// # Cancel safety
    /// Dropping the future while it waits loses the place in line, and nothing stays locked; later it drops the body and
    /// releases.
    ///
    /// # Examples
    /// See [`Section`].
    pub async fn run<T, F>(self, body: F) -> Result<T, RunError>
    where
        F: AsyncFnOnce(&A::Guard) -> T,
    {
        let Entered { taken: Taken { guard, under }, manners } = self.enter().await?;
        let value = manners.during(guard.as_ref(), under.future(body(&guard))).await?;
        manners.end(guard.into(), value).await
    }

    /// Waits, and leaves the body to the caller: [`Entered::run`].
    ///
    /// # Errors
    /// As [`run`](Self::run), as long as there is no body.
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A grant on its way is undone; nothing stays locked.
    ///
    /// # Losing the lease
    /// As of [`Entered`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let entered = client.fenced_lock("order:42").section().enter().await?;
    /// let token = entered.guard().token();
    /// let paid = entered.run(async move { token > 0 }).await?;
    /// assert!(paid);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enter(self) -> Result<Entered<A>, RunError> {
        let taken = self.acquirable.take(self.wait).await?;
        let busy =
            || RunError::Busy { subject: self.acquirable.subject(), wait: self.wait.unwrap_or_default() };
        Ok(Entered { taken: taken.ok_or_else(busy)?, manners: self.manners })
    }
}

/// A section whose lock is held and whose body has not begun. Dropping it releases.
///
/// # Losing the lease
/// As of its guard; after a loss no body begins, also none that may [finish](OnLost::Finish) after one.
#[must_use = "dropping it releases the lock at once"]
pub struct Entered<A: Acquirable> {
    taken: Taken<A::Guard>,
    manners: Manners,
}

impl<A: Acquirable> Entered<A> {
    /// The guard of the hold.
    #[must_use]
    pub fn guard(&self) -> &A::Guard {
        &self.taken.guard
    }

    /// Runs the body, and ends the hold.
    ///
    /// # Errors
    /// [`RunError::Lost`] when the hold was lost before the body had ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body and releases.
    ///
    /// # Examples
    /// See [`Section::enter`].
    pub async fn run<T>(self, body: impl Future<Output = T>) -> Result<T, RunError> {
        let Self { taken: Taken { guard, under }, manners } = self;
        let value = manners.during(guard.as_ref(), under.future(body)).await?;
        manners.end(guard.into(), value).await
    }

    /// What it consists of, for a body that is not async.
    #[cfg(feature = "blocking")]
    pub(crate) fn into_parts(self) -> (A::Guard, Under, Manners) {
        (self.taken.guard, self.taken.under, self.manners)
    }
}

impl<A: Acquirable> fmt::Debug for Entered<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").field("guard", self.taken.guard.as_ref()).finish_non_exhaustive()
    }
}

impl Manners {
    /// The body, for as long as it may run.
    async fn during<T>(self, guard: &Guard, body: impl Future<Output = T>) -> Result<T, RunError> {
        match self.on_lost {
            OnLost::Cancel => guard.while_held(body).await.map_err(|reason| guard.lost_in_run(reason)),
            OnLost::Finish => {
                Self::admit(guard)?;
                Ok(body.await)
            }
        }
    }

    /// A body does not begin without the lock, also one that may finish without it.
    pub(crate) fn admit(guard: &Guard) -> Result<(), RunError> {
        guard.lost().now_or_never().map_or(Ok(()), |reason| Err(guard.lost_in_run(reason)))
    }

    /// The end of the hold, and what it means for the body's value.
    pub(crate) async fn end<T>(self, guard: Guard, value: T) -> Result<T, RunError> {
        let (lost, subject) = (guard.lost().now_or_never(), guard.subject());
        let held = match self.on_finish {
            OnFinish::Release => {
                !matches!(guard.release().await, Ok(ReleaseOutcome::NotHeld)) && lost.is_none()
            }
            OnFinish::Detach => {
                guard.detach();
                lost.is_none()
            }
        };
        if held || self.on_lost == OnLost::Finish {
            Ok(value)
        } else {
            Err(RunError::Lost { subject, reason: lost.unwrap_or(LostReason::Deleted) })
        }
    }
}

impl Guard {
    /// The error of a run whose hold is gone.
    fn lost_in_run(&self, reason: LostReason) -> RunError {
        RunError::Lost { subject: self.subject(), reason }
    }

    /// Runs a body for as long as the hold may be trusted. A body that ends at the very moment of the loss has lost.
    pub(crate) async fn while_held<T>(&self, body: impl Future<Output = T>) -> Result<T, LostReason> {
        let mut body = pin!(body);
        let mut lost = pin!(self.lost());
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
}

impl<K: Kind> Sealed for Lock<K> {
    type Held = K::Guard;

    fn subject(&self) -> Subject {
        Self::subject(self)
    }

    async fn take(&self, wait: Option<Duration>) -> Result<Option<Taken<K::Guard>>, RunError> {
        let (lock, under) = self.for_a_body()?;
        let guard = match wait {
            None => Some(lock.lock().await?),
            Some(wait) => lock.try_lock_for(wait).await?,
        };
        Ok(guard.map(|guard| Taken { guard, under }))
    }
}

impl<K: Kind> Acquirable for Lock<K> {
    type Guard = K::Guard;
}

/// A permit of an [`ExpirableSemaphore`] for a body to run under. Permits do not re-enter: a body that takes another one
/// of the same semaphore takes a second one.
#[derive(Clone, Debug)]
pub struct OnePermit {
    semaphore: ExpirableSemaphore,
    most: u32,
}

impl OnePermit {
    pub(crate) const fn new(semaphore: ExpirableSemaphore, most: u32) -> Self {
        Self { semaphore, most }
    }
}

impl Sealed for OnePermit {
    type Held = Permits;

    fn subject(&self) -> Subject {
        self.semaphore.subject()
    }

    async fn take(&self, wait: Option<Duration>) -> Result<Option<Taken<Permits>>, RunError> {
        self.semaphore.set_permits_once(self.most).await?;
        let guard = match wait {
            None => Some(self.semaphore.acquire().await?),
            Some(wait) => self.semaphore.try_acquire_for(wait).await?,
        };
        Ok(guard.map(|guard| Taken { guard, under: Under::nothing() }))
    }
}

impl Acquirable for OnePermit {
    type Guard = Permits;
}
