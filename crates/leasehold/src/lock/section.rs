//! Sections, which run a body under a lock, with options for the wait, the loss of the hold and the end of the body.
//!
//! Invariant: the body runs only while the hold is valid, unless [`OnLost::Finish`] lets it finish.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use leasehold_proto::engine::LostReason;

use super::holding::Holding;
use crate::error::{RunError, Subject};
use crate::lock::guard::{Guard, ReleaseOutcome};
use crate::observe::in_section;
use crate::owner::BodyContext;

/// The end of the hold after the body has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFinish {
    /// Releases the hold.
    #[default]
    Release,
    /// [Detaches](Guard::detach) the hold. Renewal stops, and other owners can acquire the lock when the current lease
    /// has run out. With a fixed lease this makes an interval, in which no other process runs the body. A [minimum
    /// hold](crate::Lock::min_hold) applies to a release and has no effect here.
    Detach,
}

/// The effect of a lost hold on the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// Drops the body at its next await point, and the run fails.
    #[default]
    Cancel,
    /// Lets the body run to its end, and returns its value as if the hold were not lost. Use it for a body that does
    /// more harm if it stops half-way than if two bodies run.
    Finish,
}

/// The options of one run of a body under a lock. The method `section` of a lock, a multi-lock, a quorum lock and an
/// expirable semaphore creates it.
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
/// // No other process makes another one within the hour.
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
    options: SectionOptions,
}

/// What a body can run under: a [`Lock`](crate::Lock) of any kind, a [`MultiLock`](crate::MultiLock), a
/// [`QuorumLock`](crate::QuorumLock), or a [`OnePermit`](crate::lock::OnePermit) of a semaphore. Only this crate's types
/// implement it.
pub trait Acquirable: Sealed<Held = Self::Guard> + Clone + fmt::Debug + Send + Sync + 'static {
    /// The guard that the body gets.
    type Guard: Holding;
}

/// The private part of an acquirable.
pub trait Sealed {
    /// The guard of the acquirable.
    type Held;

    /// Returns the object that errors name.
    #[doc(hidden)]
    fn subject(&self) -> Subject;

    /// Acquires within `wait`, or without a limit if it is `None`. Returns the guard with the re-entry context of the
    /// body.
    #[doc(hidden)]
    fn acquire(
        &self,
        wait: Option<Duration>,
    ) -> impl Future<Output = Result<Option<Acquired<Self::Held>>, RunError>> + Send;
}

/// A guard with the re-entry context of its body.
#[doc(hidden)]
#[derive(Debug)]
pub struct Acquired<G> {
    pub(crate) guard: G,
    pub(crate) context: BodyContext,
}

/// The options for the end of a body and of its hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SectionOptions {
    on_finish: OnFinish,
    on_lost: OnLost,
}

impl<A: Acquirable> Section<A> {
    pub(crate) fn of(acquirable: A) -> Self {
        Self { acquirable, wait: None, options: SectionOptions::default() }
    }

    /// Limits the wait for the lock (default: no limit). A wait of zero makes exactly one attempt.
    ///
    /// # Examples
    /// See [`Section`].
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// Sets whether the hold is released or detached after the body (default: [`OnFinish::Release`]).
    ///
    /// # Examples
    /// See [`Section`].
    pub fn on_finish(mut self, on_finish: OnFinish) -> Self {
        self.options.on_finish = on_finish;
        self
    }

    /// Sets whether the body is dropped or continues when the hold is lost (default: [`OnLost::Cancel`]).
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options.on_lost = on_lost;
        self
    }

    /// Acquires the lock, runs the body, and ends the hold.
    ///
    /// Code that the body calls re-enters its lock, because it has the body's owner. Tasks that the body spawns do
    /// not. For tasks that the body polls on an executor of its own, see
    /// [`owner::independent`](crate::owner::independent).
    ///
    /// # Errors
    /// [`RunError`] if the lock was not acquired, so that the body did not run, or if the hold was lost before the
    /// body ended. If the body ended in time, its value is returned even if the server did not confirm the release,
    /// since the lease ends the hold.
    ///
    /// # Cancel safety
    /// Dropping the future during the wait gives up the place in the wait queue, and nothing stays locked. Dropping it
    /// later drops the body and releases the lock.
    ///
    /// # Examples
    /// See [`Section`].
    pub async fn run<T, F>(self, body: F) -> Result<T, RunError>
    where
        F: AsyncFnOnce(&A::Guard) -> T,
    {
        let SectionGuard { acquired: Acquired { guard, context }, options } = self.enter().await?;
        let value = options.during(&guard, context.future(body(&guard))).await?;
        options.end(guard, value).await
    }

    /// Acquires the lock, and leaves the body to the caller, who passes it to [`SectionGuard::run`].
    ///
    /// # Errors
    /// As [`run`](Self::run), for the errors that can occur before a body runs.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, so nothing stays
    /// locked.
    ///
    /// # Losing the lease
    /// As for [`SectionGuard`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let section_guard = client.fenced_lock("order:42").section().enter().await?;
    /// let token = section_guard.guard().token();
    /// let paid = section_guard.run(async move { token > 0 }).await?;
    /// assert!(paid);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enter(self) -> Result<SectionGuard<A>, RunError> {
        let acquired = self.acquirable.acquire(self.wait).await?;
        let busy =
            || RunError::Busy { subject: self.acquirable.subject(), wait: self.wait.unwrap_or_default() };
        Ok(SectionGuard { acquired: acquired.ok_or_else(busy)?, options: self.options })
    }
}

/// The guard of a section whose lock is acquired and whose body has not begun. Dropping it releases the lock.
///
/// # Losing the lease
/// As for its guard. After a loss, no body begins, not even with [`OnLost::Finish`].
#[must_use = "dropping it releases the lock at once"]
pub struct SectionGuard<A: Acquirable> {
    acquired: Acquired<A::Guard>,
    options: SectionOptions,
}

impl<A: Acquirable> SectionGuard<A> {
    /// Returns the guard of the hold.
    #[must_use]
    pub fn guard(&self) -> &A::Guard {
        &self.acquired.guard
    }

    /// Runs the body, and ends the hold.
    ///
    /// # Errors
    /// [`RunError::Lost`] if the hold was lost before the body ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body and releases the lock.
    ///
    /// # Examples
    /// See [`Section::enter`].
    #[expect(clippy::manual_async_fn, reason = "an `async fn` drops its arguments in another order")]
    pub fn run<T, B: Future<Output = T>>(
        self,
        body: B,
    ) -> impl Future<Output = Result<T, RunError>> + use<T, A, B> {
        // A future that was never polled drops what it owns in the order in which its code first names it.
        async move {
            let context_of_body = |context: BodyContext| context.future(body);
            let Self { acquired: Acquired { guard, context }, options } = self;
            let value = options.during(&guard, context_of_body(context)).await?;
            options.end(guard, value).await
        }
    }

    /// Splits the section guard into its parts, for a blocking body.
    #[cfg(feature = "blocking")]
    pub(crate) fn into_parts(self) -> (A::Guard, BodyContext, SectionOptions) {
        (self.acquired.guard, self.acquired.context, self.options)
    }
}

impl<A: Acquirable> fmt::Debug for SectionGuard<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SectionGuard")
            .field("subject", &self.acquired.guard.subject())
            .finish_non_exhaustive()
    }
}

impl SectionOptions {
    /// Runs the body for as long as it may run.
    async fn during<T>(self, guard: &impl Holding, body: impl Future<Output = T>) -> Result<T, RunError> {
        let body = in_section(|| guard.scene(), body);
        match self.on_lost {
            OnLost::Cancel => {
                while_held(guard.lost(), body).await.map_err(|reason| lost_in_run(guard, reason))
            }
            OnLost::Finish => {
                Self::admit(guard)?;
                Ok(body.await)
            }
        }
    }

    /// Returns an error if the hold is lost, since no body may begin then, not even with [`OnLost::Finish`].
    pub(crate) fn admit(guard: &impl Holding) -> Result<(), RunError> {
        guard.lost().now_or_never().map_or(Ok(()), |reason| Err(lost_in_run(guard, reason)))
    }

    /// Ends the hold. Returns the body's value, or an error if the hold was lost and the body may not finish after a
    /// loss.
    pub(crate) async fn end<T>(self, guard: impl Holding, value: T) -> Result<T, RunError> {
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

/// Returns the error of a run whose hold is lost.
fn lost_in_run(guard: &impl Holding, reason: LostReason) -> RunError {
    RunError::Lost { subject: guard.subject(), reason }
}

impl Guard {
    /// Runs a body while the hold is valid. Not an `async fn`, whose future would have the body twice.
    pub(crate) fn while_held<T>(
        &self,
        body: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, LostReason>> {
        while_held(self.lost(), body)
    }
}

/// Runs a body until a loss. If the body ends at the moment of the loss, the loss wins.
pub(crate) async fn while_held<T>(
    lost: impl Future<Output = LostReason>,
    body: impl Future<Output = T>,
) -> Result<T, LostReason> {
    let (mut lost, mut body) = (pin!(lost), pin!(body));
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
