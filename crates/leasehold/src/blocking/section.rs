//! A body under a lock, on the calling thread.
//!
//! Invariant: a thread cannot be stopped, so a body that has begun runs to its end, and the result reports a loss
//! afterwards.

use std::fmt;
use std::time::Duration;

use super::guard::Guard;
use super::lock::{Kind, Lock};
use super::park::park;
use crate::error::RunError;
use crate::lock::holding::Holding;
use crate::lock::section::{OnFinish, OnLost, SectionOptions};
use crate::owner::BodyContext;

/// A type under which a body can run: a [`Lock`] of any kind, a [`MultiLock`](super::MultiLock), a
/// [`QuorumLock`](super::QuorumLock), or a [`OnePermit`](crate::lock::OnePermit) of a semaphore. Only this crate's types
/// implement it.
pub trait Acquirable: Sealed {
    /// The async type.
    #[doc(hidden)]
    type Async: crate::lock::Acquirable;

    /// The guard that the body receives.
    type Guard: From<<Self::Async as crate::lock::Acquirable>::Guard> + Wraps;
}

/// The supertrait that only this crate's types implement.
pub trait Sealed {}

/// A guard that wraps an async guard.
pub trait Wraps: Send + Sync + 'static {
    #[doc(hidden)]
    type Inner: Holding;

    #[doc(hidden)]
    fn inner(&self) -> &Self::Inner;

    #[doc(hidden)]
    fn into_inner(self) -> Self::Inner;
}

impl<G: AsRef<Guard> + Into<Guard> + Send + Sync + 'static> Wraps for G {
    type Inner = crate::Guard;

    fn inner(&self) -> &crate::Guard {
        &self.as_ref().0
    }

    fn into_inner(self) -> crate::Guard {
        self.into().0
    }
}

impl<K: Kind> Sealed for Lock<K> {}

impl<K: Kind> Acquirable for Lock<K> {
    type Async = crate::Lock<K>;
    type Guard = K::BlockingGuard;
}

/// The options of one run of a body under a lock: [`leasehold::lock::Section`](crate::lock::Section).
///
/// Made by the method `section` of a lock, a multi-lock, a quorum lock and an expirable semaphore.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// use leasehold::{OnFinish, RunError};
///
/// let report = client.lock("daily-report").lease(Duration::from_secs(3600));
/// let section = report.section().wait(Duration::ZERO).on_finish(OnFinish::Detach);
/// section.run(|_guard| println!("the report"))?;
///
/// // No other thread makes another one within the hour.
/// let other = report.clone().owned_by(&client.owner());
/// let again = other.section().wait(Duration::ZERO).run(|_guard| ());
/// assert!(matches!(again, Err(RunError::Busy { .. })));
/// # Ok(())
/// # }
/// ```
#[must_use = "a section does nothing until it is run or entered"]
pub struct Section<A: Acquirable>(crate::lock::Section<A::Async>);

impl<A: Acquirable> Section<A> {
    pub(super) const fn of(section: crate::lock::Section<A::Async>) -> Self {
        Self(section)
    }

    /// Sets the longest wait for the lock (default: no limit). See [`Section::wait`](crate::lock::Section::wait).
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// Sets the end of the hold after the body. See [`Section::on_finish`](crate::lock::Section::on_finish).
    pub fn on_finish(self, on_finish: OnFinish) -> Self {
        Self(self.0.on_finish(on_finish))
    }

    /// Sets the reaction to a loss of the hold. [`OnLost::Cancel`], the default, cannot stop a body that has begun. The
    /// body runs to its end, and its result is dropped then.
    pub fn on_lost(self, on_lost: OnLost) -> Self {
        Self(self.0.on_lost(on_lost))
    }

    /// Acquires the lock, runs the body, and ends the hold.
    ///
    /// # Errors
    /// As [`Section::run`](crate::lock::Section::run).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if the body panics, which releases the lock.
    #[track_caller]
    pub fn run<T, F>(self, body: F) -> Result<T, RunError>
    where
        F: FnOnce(&A::Guard) -> T,
    {
        self.run_as("Section::run", body)
    }

    /// Runs the body for the public method of this name.
    #[track_caller]
    pub(super) fn run_as<T>(self, method: &str, body: impl FnOnce(&A::Guard) -> T) -> Result<T, RunError> {
        SectionGuard::<A>::of(park(method, self.0.enter())?).run_as(method, body)
    }

    /// Acquires the lock, and leaves the body to the caller, who passes it to [`SectionGuard::run`].
    ///
    /// # Errors
    /// As [`Section::enter`](crate::lock::Section::enter).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// As for [`SectionGuard`].
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::blocking::Client::connect("memory://")?;
    /// let section_guard = client.fenced_lock("order:42").section().enter()?;
    /// let token = section_guard.guard().token();
    /// let paid = section_guard.run(|| token > 0)?;
    /// assert!(paid);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn enter(self) -> Result<SectionGuard<A>, RunError> {
        park("Section::enter", self.0.enter()).map(SectionGuard::of)
    }
}

/// A section whose lock is held and whose body has not begun: [`leasehold::lock::SectionGuard`](crate::lock::SectionGuard).
/// Dropping it releases the lock.
///
/// # Losing the lease
/// As for its guard. After a loss no body begins, not even with [`OnLost::Finish`].
#[must_use = "dropping it releases the lock at once"]
pub struct SectionGuard<A: Acquirable> {
    guard: A::Guard,
    context: BodyContext,
    options: SectionOptions,
}

impl<A: Acquirable> SectionGuard<A> {
    fn of(section_guard: crate::lock::SectionGuard<A::Async>) -> Self {
        let (guard, context, options) = section_guard.into_parts();
        Self { guard: A::Guard::from(guard), context, options }
    }

    /// Returns the guard of the hold.
    #[must_use]
    pub const fn guard(&self) -> &A::Guard {
        &self.guard
    }

    /// Runs the body, and ends the hold.
    ///
    /// # Errors
    /// As [`SectionGuard::run`](crate::lock::SectionGuard::run).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if the body panics, which releases the lock.
    ///
    /// # Examples
    /// See [`Section::enter`].
    #[track_caller]
    pub fn run<T>(self, body: impl FnOnce() -> T) -> Result<T, RunError> {
        self.run_as("SectionGuard::run", |_| body())
    }

    #[track_caller]
    fn run_as<T>(self, method: &str, body: impl FnOnce(&A::Guard) -> T) -> Result<T, RunError> {
        let Self { guard, context, options } = self;
        SectionOptions::admit(guard.inner())?;
        let value = context.closure(|| body(&guard));
        park(method, options.end(guard.into_inner(), value))
    }
}

impl<K: Kind> Lock<K> {
    /// Acquires the lock, runs the body while the watchdog renews, and releases the lock.
    ///
    /// A body whose hold is lost runs to its end, since a thread cannot be stopped, and its result is dropped then. If
    /// the body must stop earlier, let it check the guard before each step.
    ///
    /// # Errors
    /// As [`Lock::run`](crate::Lock::run).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if the body panics, which releases the lock.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # fn charge(order: u64) -> u64 { order }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::blocking::Client::connect("memory://")?;
    /// let receipt = client.lock("order:42").run(|guard| {
    ///     guard.ensure(Duration::from_secs(5))?; // enough for what follows
    ///     Ok::<_, leasehold::EnsureError>(charge(42))
    /// })??;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn run<T, F>(&self, body: F) -> Result<T, RunError>
    where
        F: FnOnce(&K::BlockingGuard) -> T,
    {
        self.section().run_as("Lock::run", body)
    }

    /// Creates a section, which runs a body under the lock, with options for the wait, a loss and the end of the hold.
    /// See [`Lock::section`](crate::Lock::section).
    pub fn section(&self) -> Section<Self> {
        Section(self.0.section())
    }
}

impl<A: Acquirable> Clone for Section<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A: Acquirable> fmt::Debug for Section<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<A: Acquirable> fmt::Debug for SectionGuard<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SectionGuard").field("subject", &self.guard.inner().subject()).finish_non_exhaustive()
    }
}
