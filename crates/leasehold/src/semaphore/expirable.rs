//! The expirable semaphore, Redisson's `RPermitExpirableSemaphore`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::{Request, Subject, Wait};
use leasehold_proto::marker::{Operation, read_flag};
use leasehold_proto::recipe::expirable::{self, Census, PERMITS_MAX};
use leasehold_proto::recipe::{Remaining, semaphore};
use leasehold_proto::{Call, Lease, Name, Owner, PermitId, Reply};

use super::permits::Permits;
use crate::error::{
    self, About, AcquireError, AcquireErrorKind, InspectError, InspectErrorKind, OperationError,
    OperationErrorKind, PermitsError, SubjectKind,
};
use crate::lock::acquire::acquire;
use crate::name::Named;
use crate::runtime::operation::change;
use crate::runtime::shared::Handle;
use crate::runtime::ticket::wait_for;
use crate::terms::{HoldTerms, hold_options};

/// The time for which a client assumes that the number of permits stays set. If the server loses its data, or a client
/// deletes the semaphore, sections can wait for this long until the number is set again.
const SET_AGAIN: Duration = Duration::from_secs(60);

/// A semaphore whose permits have a lease: a number of permits, shared by all processes. The lease returns the permits
/// of a process that dies. Cheap to clone.
///
/// [`Client::expirable_semaphore`](crate::Client::expirable_semaphore) creates it. Unless a fixed
/// [`lease`](Self::lease) is set, a *watchdog* renews the permits for as long as their [`Permits`] live. The server's
/// clock decides when a lease ends.
///
/// A semaphore has no permits until a client sets their number. Waiters wait for this number as well.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// let downloads = client.expirable_semaphore("downloads");
/// downloads.try_set_permits(3).await?;
/// let permit = downloads.acquire().await?; // waits while three are at it
/// // ... work ...
/// permit.release().await?; // or dropped
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ExpirableSemaphore {
    handle: Arc<Handle>,
    name: Named,
    terms: HoldTerms,
}

impl ExpirableSemaphore {
    pub(crate) fn new(handle: &Arc<Handle>, name: Named, terms: HoldTerms) -> Self {
        Self { handle: Arc::clone(handle), name, terms }
    }

    /// Acquires a permit, waiting as long as it takes.
    ///
    /// # Errors
    /// [`AcquireError`] if the server fails for the whole of the client's timeout, or if it cannot grant at all.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, which returns
    /// the permit.
    ///
    /// # Losing the lease
    /// As for a lock. [`Permits`] dereference to a [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # client.expirable_semaphore("seats").try_set_permits(10).await?;
    /// let permit = client.expirable_semaphore("seats").acquire().await?;
    /// assert!(permit.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<Permits, AcquireError> {
        self.acquire_many(1).await
    }

    /// Acquires this many permits together, at most [`PERMITS_MAX`](crate::semaphore::PERMITS_MAX) (4096), waiting as long as it
    /// takes. A request for zero permits is granted immediately.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`AcquireErrorKind::TooManyPermits`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, which returns
    /// the permits.
    ///
    /// # Losing the lease
    /// All permits of one acquire are lost together, since [`Permits`] dereference to one [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # client.expirable_semaphore("seats").try_set_permits(10).await?;
    /// let table_of_four = client.expirable_semaphore("seats").acquire_many(4).await?;
    /// assert_eq!(table_of_four.count(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_many(&self, permits: u32) -> Result<Permits, AcquireError> {
        loop {
            // A wait without a deadline ends with permits or an error, so the loop runs once.
            if let Some(permits) = self.request(permits, |_| Wait::Forever).await? {
                return Ok(permits);
            }
        }
    }

    /// Tries to acquire a permit with exactly one call to the server, without waiting. Returns `None` if none is
    /// available.
    ///
    /// # Errors
    /// [`AcquireError`] if the server does not answer, or if it cannot grant at all.
    ///
    /// # Cancel safety
    /// If the future is dropped, the client undoes a grant in flight, which returns the permit.
    ///
    /// # Losing the lease
    /// As for a lock. [`Permits`] dereference to a [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// assert!(seats.try_acquire().await?.is_none(), "the number of permits is not set");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Permits>, AcquireError> {
        self.try_acquire_many(1).await
    }

    /// Tries to acquire this many permits with exactly one call to the server. Returns `None`, and acquires none, if
    /// fewer are available.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire), and [`AcquireErrorKind::TooManyPermits`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the client undoes a grant in flight, which returns the permits.
    ///
    /// # Losing the lease
    /// All permits of one acquire are lost together, since [`Permits`] dereference to one [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// seats.try_set_permits(3).await?;
    /// assert!(seats.try_acquire_many(4).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Permits>, AcquireError> {
        self.request(permits, |_| Wait::Once).await
    }

    /// Acquires a permit, waiting for at most `wait`, counted from the first poll. Returns `None` if none was
    /// available until then. A `wait` of zero makes exactly one attempt.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), or if the server does not answer by the end of the wait.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, which returns
    /// the permit.
    ///
    /// # Losing the lease
    /// As for a lock. [`Permits`] dereference to a [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// assert!(seats.try_acquire_for(Duration::from_millis(200)).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Permits>, AcquireError> {
        self.try_acquire_many_for(1, wait).await
    }

    /// Acquires this many permits together, waiting for at most `wait`, counted from the first poll. Returns `None`,
    /// and acquires none, if fewer were available until then.
    ///
    /// # Errors
    /// As [`try_acquire_for`](Self::try_acquire_for), and [`AcquireErrorKind::TooManyPermits`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, which returns
    /// the permits.
    ///
    /// # Losing the lease
    /// All permits of one acquire are lost together, since [`Permits`] dereference to one [`Guard`](crate::Guard).
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// seats.try_set_permits(4).await?;
    /// assert!(seats.try_acquire_many_for(4, Duration::from_secs(10)).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire_many_for(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<Option<Permits>, AcquireError> {
        self.request(permits, |handle| wait_for(handle, wait)).await
    }

    /// Sets the number of permits if it was never set. Returns `false` if it was set before.
    ///
    /// # Errors
    /// [`OperationError`], with [`OperationErrorKind::Unknown`] if the server does not answer.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// assert!(seats.try_set_permits(10).await?);
    /// assert!(!seats.try_set_permits(20).await?, "there are ten");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, OperationError> {
        let call = |name: &_, operation: &_| semaphore::try_set(name, operation, permits, None);
        self.change(call, read_flag).await
    }

    /// Sets the total number of permits, acquired ones included, and returns the number of available permits.
    ///
    /// The result can be negative. That many permits then have to be returned before the next permit can be acquired.
    ///
    /// # Errors
    /// Returns the errors of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// assert_eq!(seats.set_permits(10).await?, 10);
    /// let permits = seats.acquire_many(4).await?;
    /// assert_eq!(seats.set_permits(3).await?, -1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_permits(&self, permits: u32) -> Result<i64, OperationError> {
        let call = |name: &_, operation: &_| expirable::set(name, operation, permits);
        self.change(call, semaphore::read_count).await
    }

    /// Adds permits, or removes them if `permits` is negative, and returns the number of available permits.
    ///
    /// # Errors
    /// Returns the errors of [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// seats.try_set_permits(10).await?;
    /// assert_eq!(seats.add_permits(-3).await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add_permits(&self, permits: i32) -> Result<i64, OperationError> {
        let call = |name: &_, operation: &_| expirable::add(name, operation, permits);
        self.change(call, semaphore::read_count).await
    }

    /// Releases permits by their ids, all or none, at most [`PERMITS_MAX`](crate::semaphore::PERMITS_MAX) (4096) at once. Returns
    /// `false`, and releases none, if the lease of a permit has ended or a permit was released before.
    ///
    /// Use it for permits that [`Permits::detach`] or a Java client handed over.
    ///
    /// # Errors
    /// Returns the errors of [`try_set_permits`](Self::try_set_permits), and [`PermitsError::TooMany`].
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Losing the lease
    /// A client that still holds these permits learns of the loss at its next renewal.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats").lease(Duration::from_secs(60));
    /// seats.try_set_permits(10).await?;
    /// let ids = seats.acquire_many(2).await?.detach();
    /// assert!(seats.release_ids(&ids).await?);
    /// assert!(!seats.release_ids(&ids).await?, "they are returned");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release_ids(&self, ids: &[PermitId]) -> Result<bool, PermitsError> {
        if ids.is_empty() {
            let name = self.name.as_ref().map_err(|bad| OperationErrorKind::from(bad.clone()));
            return Ok(name.map(|_| true).about(|| self.subject())?);
        }
        let given = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        if given > PERMITS_MAX {
            return Err(PermitsError::TooMany { subject: self.subject(), given });
        }
        let call = |name: &_, operation: &_| expirable::release_ids(name, operation, ids);
        Ok(self.change(call, semaphore::read_count).await? > 0)
    }

    /// Sets the lease of a permit, from 3 ms to 365 days counted from now, which can extend or shorten the lease.
    /// Returns `false` if the permit is not acquired any more.
    ///
    /// # Errors
    /// Returns the errors of [`try_set_permits`](Self::try_set_permits), and [`PermitsError::Lease`].
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Losing the lease
    /// A holder learns of a shortened lease at its next renewal, which extends the lease again. Without renewals, the
    /// holder learns of it at its release.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats").lease(Duration::from_secs(60));
    /// seats.try_set_permits(10).await?;
    /// let ids = seats.acquire().await?.detach();
    /// assert!(seats.update_lease(ids[0], Duration::from_secs(3600)).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool, PermitsError> {
        let lease =
            Lease::new(lease).map_err(|source| PermitsError::Lease { subject: self.subject(), source })?;
        let call = |name: &_, operation: &_| expirable::update_lease(name, operation, id, lease);
        Ok(self.change(call, read_flag).await?)
    }

    /// Returns the remaining lease of a permit, by the server's clock, or `None` if the permit is not acquired any
    /// more.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::lock::Remaining;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats").lease(Duration::from_secs(60));
    /// seats.try_set_permits(10).await?;
    /// let id = seats.acquire().await?.detach()[0];
    /// let lease = seats.lease_of(id).await?;
    /// assert!(matches!(lease, Some(Remaining::For(left)) if left <= Duration::from_secs(60)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lease_of(&self, id: PermitId) -> Result<Option<Remaining>, InspectError> {
        self.inspect(|name| expirable::lease_of(name, id), expirable::read_lease_of).await
    }

    /// Returns the number of available permits, as the server reports it, including permits whose lease has ended. The
    /// number is negative if the total was reduced below the acquired permits, and 0 if it was never set.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// seats.try_set_permits(10).await?;
    /// let permit = seats.acquire().await?;
    /// assert_eq!(seats.available().await?, 9);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn available(&self) -> Result<i64, InspectError> {
        Ok(self.census().await?.available)
    }

    /// Returns the number of acquired permits, as the server reports it.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// seats.try_set_permits(10).await?;
    /// let permit = seats.acquire().await?;
    /// assert_eq!(seats.acquired().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquired(&self) -> Result<u64, InspectError> {
        Ok(self.census().await?.acquired)
    }

    /// Returns the total number of permits, available plus acquired, as the server reports it, or 0 if the number was
    /// never set.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// seats.try_set_permits(10).await?;
    /// let permit = seats.acquire().await?;
    /// assert_eq!(seats.permits().await?, 10);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn permits(&self) -> Result<i64, InspectError> {
        let census = self.census().await?;
        let acquired = i64::try_from(census.acquired).unwrap_or(i64::MAX);
        Ok(if census.is_set { census.available.saturating_add(acquired) } else { 0 })
    }

    /// Returns the object that errors name.
    pub(crate) fn subject(&self) -> error::Subject {
        self.handle.subject(SubjectKind::ExpirableSemaphore, &self.name)
    }

    /// Performs an operation that changes the semaphore.
    async fn change<T>(
        &self,
        call: impl FnOnce(&Name, &Operation) -> Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, OperationError> {
        let call = |name: &_, operation: &_| call(name, operation).confirmed_by(self.terms.confirmed_by());
        change(&self.handle, SubjectKind::ExpirableSemaphore, &self.name, call, read).await
    }

    /// Performs a read of the semaphore.
    async fn inspect<T>(
        &self,
        call: impl FnOnce(&Name) -> Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, InspectError> {
        let inspected = async {
            let name = self.name.as_ref().map_err(|bad| InspectErrorKind::from(bad.clone()))?;
            self.handle.query(call(name).confirmed_by(self.terms.confirmed_by()), read).await
        };
        inspected.await.about(|| self.subject())
    }

    pub(crate) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        Self { terms: change(self.terms), ..self }
    }

    /// Sets the number of permits as [`try_set_permits`](Self::try_set_permits) does, but not again for [`SET_AGAIN`],
    /// to save a round trip without effect.
    pub(crate) async fn set_permits_once(&self, permits: u32) -> Result<(), OperationError> {
        let Ok(name) = &self.name else { return self.try_set_permits(permits).await.map(drop) };
        let now = self.handle.now();
        if !self.handle.was_set_recently(name, now) {
            self.try_set_permits(permits).await?;
            self.handle.note_set(name, now + SET_AGAIN);
        }
        Ok(())
    }

    async fn request(
        &self,
        permits: u32,
        wait: impl FnOnce(&Handle) -> Wait,
    ) -> Result<Option<Permits>, AcquireError> {
        self.granted(permits, wait).await.about(|| self.subject())
    }

    async fn granted(
        &self,
        permits: u32,
        wait: impl FnOnce(&Handle) -> Wait,
    ) -> Result<Option<Permits>, AcquireErrorKind> {
        let name = self.name.as_ref().map_err(Clone::clone)?;
        if permits > PERMITS_MAX {
            return Err(AcquireErrorKind::TooManyPermits { given: permits });
        }
        let subject = Subject::new(name, &expirable::EXPIRABLE_SEMAPHORE);
        // The server grants a request for zero permits immediately, so it never waits.
        let wait = if permits == 0 { Wait::Once } else { wait(&self.handle) };
        let request = Request { units: permits, ..self.terms.request(subject, Owner::unique(), wait)? };
        let guard = acquire(&self.handle, request, SubjectKind::ExpirableSemaphore).await?;
        Ok(guard.map(|guard| Permits::new(guard, permits)))
    }

    async fn census(&self) -> Result<Census, InspectError> {
        self.inspect(expirable::inspect, expirable::read_inspect).await
    }
}

hold_options!(ExpirableSemaphore);

impl fmt::Debug for ExpirableSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirableSemaphore").field("name", &self.name).finish_non_exhaustive()
    }
}
