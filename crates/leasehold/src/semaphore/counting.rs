//! The semaphore, Redisson's `RSemaphore`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::{Group, Request, Subject, Wait};
use leasehold_proto::marker::{Operation, read_flag};
use leasehold_proto::recipe::Recipe;
use leasehold_proto::recipe::semaphore::{self, FIFO_SEMAPHORE, read_count};
use leasehold_proto::{Call, LEASE_MAX, Lease, Name, Owner, Reply};

use crate::error::{
    self, About, AcquireError, AcquireErrorKind, Cause, InspectError, InspectErrorKind, OperationError,
    OperationErrorKind, SubjectKind,
};
use crate::lock::acquire::acquire;
use crate::lock::guard::Guard;
use crate::name::Named;
use crate::runtime::operation::change;
use crate::runtime::shared::Handle;
use crate::runtime::ticket::wait_for;

/// The nominal lease of a grant of permits, which have none. It only limits the time in which the caller must claim the
/// grant.
const NOMINAL_LEASE: Duration = Duration::from_secs(30);
/// The shortest lifetime of a semaphore, and the unit in which the server counts it.
const LIFETIME_MIN: Duration = Duration::from_millis(1);

/// A semaphore: a number of permits, shared by all processes. Cheap to clone.
///
/// [`Client::semaphore`](crate::Client::semaphore) creates it. Its permits have no lease. If a process dies or stays
/// disconnected, its permits stay acquired until another process [releases](Self::release) that number. If that
/// matters, use [`Client::expirable_semaphore`](crate::Client::expirable_semaphore).
///
/// A semaphore has no permits until a client sets their number. Waiters wait for this number as well.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// let downloads = client.semaphore("downloads");
/// downloads.try_set_permits(3).await?;
/// let permit = downloads.acquire().await?; // waits while three are at it
/// // ... work ...
/// permit.release().await?; // or dropped
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    handle: Arc<Handle>,
    name: Named,
    fifo: bool,
    /// The group of the name for observers, or `None` for the one by the client's rule.
    group: Option<&'static Group>,
}

impl Semaphore {
    pub(crate) fn new(handle: &Arc<Handle>, name: Named) -> Self {
        Self { handle: Arc::clone(handle), name, fifo: false, group: None }
    }

    /// Acquires a permit, waiting as long as it takes.
    ///
    /// # Errors
    /// [`AcquireError`] if the server fails for the whole of the client's timeout, or if it cannot grant at all. After
    /// [`AcquireErrorKind::Unknown`], the client returns the permit when the server answers again. No lease bounds that
    /// time.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, which returns
    /// the permit.
    ///
    /// # Losing the lease
    /// A permit has no lease. It is lost only when the client is closed.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # client.semaphore("seats").try_set_permits(10).await?;
    /// let permit = client.semaphore("seats").acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_many(1).await
    }

    /// Acquires this many permits together, waiting as long as it takes. A request for zero permits is granted
    /// immediately.
    ///
    /// Waiters of this client behind this one wait until it has its permits.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, which returns
    /// the permits.
    ///
    /// # Losing the lease
    /// Permits have no lease. They are lost only when the client is closed.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # client.semaphore("seats").try_set_permits(10).await?;
    /// let table_of_four = client.semaphore("seats").acquire_many(4).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_many(&self, permits: u32) -> Result<Guard, AcquireError> {
        loop {
            // A wait without a deadline ends with a guard or an error, so the loop runs once.
            if let Some(guard) = self.request(permits, |_| Wait::Forever).await? {
                return Ok(guard);
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
    /// A permit has no lease. It is lost only when the client is closed.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.semaphore("seats");
    /// assert!(seats.try_acquire().await?.is_none(), "the number of permits is not set");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        self.try_acquire_many(1).await
    }

    /// Tries to acquire this many permits with exactly one call to the server. Returns `None`, and acquires none, if
    /// fewer are available.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// If the future is dropped, the client undoes a grant in flight, which returns the permits.
    ///
    /// # Losing the lease
    /// Permits have no lease. They are lost only when the client is closed.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.semaphore("seats");
    /// seats.try_set_permits(3).await?;
    /// assert!(seats.try_acquire_many(4).await?.is_none());
    /// assert!(seats.try_acquire_many(3).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>, AcquireError> {
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
    /// A permit has no lease. It is lost only when the client is closed.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.semaphore("seats");
    /// assert!(seats.try_acquire_for(Duration::from_millis(200)).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Guard>, AcquireError> {
        self.try_acquire_many_for(1, wait).await
    }

    /// Acquires this many permits together, waiting for at most `wait`, counted from the first poll. Returns `None`,
    /// and acquires none, if fewer were available until then.
    ///
    /// # Errors
    /// As [`try_acquire_for`](Self::try_acquire_for).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the wait queue. The client undoes a grant in flight, which returns
    /// the permits.
    ///
    /// # Losing the lease
    /// Permits have no lease. They are lost only when the client is closed.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.semaphore("seats");
    /// seats.try_set_permits(4).await?;
    /// assert!(seats.try_acquire_many_for(4, Duration::from_secs(10)).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire_many_for(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<Option<Guard>, AcquireError> {
        self.request(permits, |handle| wait_for(handle, wait)).await
    }

    /// Returns this many permits to the semaphore, whichever client acquired them, and returns the number of available
    /// permits. As in Redisson, the server does not check that they were acquired.
    ///
    /// Use it to hand permits over. The acquirer [detaches](Guard::detach) its guard, and the process that finishes the
    /// work releases the permit.
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
    /// let room = client.semaphore("queue:room");
    /// room.try_set_permits(10).await?;
    /// room.acquire().await?.detach(); // the producer takes a permit ...
    /// assert_eq!(room.release(1).await?, 10); // ... and the consumer returns it
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(&self, permits: u32) -> Result<i64, OperationError> {
        self.change(|name, operation| semaphore::return_permits(name, operation, permits), read_count).await
    }

    /// Sets the number of permits if it was never set. Returns `false` if it was set before.
    ///
    /// # Errors
    /// [`OperationError`], with [`OperationErrorKind::Unknown`](crate::error::OperationErrorKind::Unknown) if the server does
    /// not answer.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.semaphore("seats");
    /// assert!(seats.try_set_permits(10).await?);
    /// assert!(!seats.try_set_permits(20).await?, "there are ten");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, OperationError> {
        self.try_set(permits, None).await
    }

    /// Sets the number of permits as [`try_set_permits`](Self::try_set_permits) does, and a lifetime of 1 ms to 365 days.
    /// The server deletes the semaphore after the lifetime, including its acquired permits.
    ///
    /// [`add_permits`](Self::add_permits) and [`drain`](Self::drain) remove the lifetime, as in Redisson.
    ///
    /// # Errors
    /// Returns the errors of [`try_set_permits`](Self::try_set_permits), and [`OperationErrorKind::Lifetime`] for a
    /// lifetime outside these bounds.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let today = client.semaphore("calls:2026-08-21");
    /// today.try_set_permits_for(1000, Duration::from_secs(24 * 3600)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_set_permits_for(
        &self,
        permits: u32,
        lifetime: Duration,
    ) -> Result<bool, OperationError> {
        // The script reads a lifetime of 0 ms as none, so a shorter one would make the semaphore permanent.
        if !(LIFETIME_MIN..=LEASE_MAX).contains(&lifetime) {
            return Err(OperationErrorKind::Lifetime { given: lifetime }.of(self.subject()));
        }
        self.try_set(permits, Some(lifetime)).await
    }

    /// Adds permits, or removes them if `permits` is negative, and returns the number of available permits.
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
    /// let seats = client.semaphore("seats");
    /// seats.try_set_permits(10).await?;
    /// assert_eq!(seats.add_permits(5).await?, 15);
    /// assert_eq!(seats.add_permits(-20).await?, -5);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add_permits(&self, permits: i32) -> Result<i64, OperationError> {
        self.change(|name, operation| semaphore::add(name, operation, permits), read_count).await
    }

    /// Removes all available permits and returns their number. A negative number of available permits becomes 0, as in
    /// Redisson.
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
    /// let seats = client.semaphore("seats");
    /// seats.try_set_permits(10).await?;
    /// assert_eq!(seats.drain().await?, 10);
    /// assert_eq!(seats.available().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drain(&self) -> Result<i64, OperationError> {
        self.change(semaphore::drain, read_count).await
    }

    /// Returns the number of available permits, as the server reports it. The number is negative if the total was
    /// reduced below the acquired permits, and 0 if it was never set.
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
    /// let seats = client.semaphore("seats");
    /// seats.try_set_permits(10).await?;
    /// let permit = seats.acquire().await?;
    /// assert_eq!(seats.available().await?, 9);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn available(&self) -> Result<i64, InspectError> {
        let available = async {
            let name = self.name.as_ref().map_err(|bad| InspectErrorKind::from(bad.clone()))?;
            self.handle.query(semaphore::inspect(name), read_count).await
        };
        available.await.about(|| self.subject())
    }

    /// Serves waiters in the order of their arrival, across all processes (default: no order between clients).
    ///
    /// The waiters form a queue on the server. The queue passes a waiter that has not polled for 5 s, because its
    /// process is dead. Java clients, waiters without this setting and `try_acquire` calls are not in the queue. A Java
    /// client can acquire a free permit before the queue does. A waiter for many permits keeps the waiters behind it
    /// waiting until it has its permits, so it does not starve.
    #[must_use]
    pub fn fifo(mut self) -> Self {
        self.fifo = true;
        self
    }

    /// Sets the group of the name, which observers are told. See [`Lock::group`](crate::Lock::group).
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(crate::observe::group::group(group));
        self
    }

    /// Returns the object that errors name.
    fn subject(&self) -> error::Subject {
        self.handle.subject(SubjectKind::Semaphore, &self.name)
    }

    /// Performs an operation that changes the semaphore.
    async fn change<T>(
        &self,
        call: impl FnOnce(&Name, &Operation) -> Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, OperationError> {
        change(&self.handle, SubjectKind::Semaphore, &self.name, call, read).await
    }

    async fn try_set(&self, permits: u32, lifetime: Option<Duration>) -> Result<bool, OperationError> {
        let call = |name: &_, operation: &_| semaphore::try_set(name, operation, permits, lifetime);
        self.change(call, read_flag).await
    }

    async fn request(
        &self,
        permits: u32,
        wait: impl FnOnce(&Handle) -> Wait,
    ) -> Result<Option<Guard>, AcquireError> {
        self.granted(permits, wait).await.about(|| self.subject())
    }

    async fn granted(
        &self,
        permits: u32,
        wait: impl FnOnce(&Handle) -> Wait,
    ) -> Result<Option<Guard>, AcquireErrorKind> {
        let recipe: &'static Recipe = if self.fifo { &FIFO_SEMAPHORE } else { &semaphore::SEMAPHORE };
        let subject = Subject::new(self.name.as_ref().map_err(Clone::clone)?, recipe);
        let subject = Subject { group: self.group, ..subject };
        // The server grants a request for zero permits immediately, so it never waits.
        let wait = if permits == 0 { Wait::Once } else { wait(&self.handle) };
        let request = Request::new(subject, Owner::unique(), Lease::clamped(NOMINAL_LEASE), wait);
        let request = Request { units: permits, watchdog: false, ..request };
        acquire(&self.handle, request, SubjectKind::Semaphore).await
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("name", &self.name)
            .field("fifo", &self.fifo)
            .finish_non_exhaustive()
    }
}
