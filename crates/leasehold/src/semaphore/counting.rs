//! The semaphore: Redisson's `RSemaphore`.
//!
//! Invariant: as every semaphore's.
//! Called by: the client, which makes semaphores; users.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::{Request, Subject, Wait};
use leasehold_proto::marker::{Operation, read_flag};
use leasehold_proto::recipe::Recipe;
use leasehold_proto::recipe::semaphore::{self, FifoSemaphore, read_count};
use leasehold_proto::{Call, Lease, Name, Owner, Reply};

use crate::error::{
    self, About, AcquireError, AcquireErrorKind, InspectError, InspectErrorKind, OperationError, SubjectKind,
};
use crate::guard::Guard;
use crate::name::Named;
use crate::operation::change;
use crate::shared::Handle;
use crate::terms::{acquire, wait_for};

/// What paces the claim of a grant, since there is no lease.
const NOMINAL_LEASE: Duration = Duration::from_secs(30);

/// A semaphore: so many permits, over all processes. Cheap to clone.
///
/// Made by [`Client::semaphore`](crate::Client::semaphore). Its permits have no lease: what a process has taken when it
/// dies, or when it is cut off for ever, stays taken until somebody [releases](Self::release) it by number. Where that
/// matters use [`Client::expirable_semaphore`](crate::Client::expirable_semaphore).
///
/// A semaphore has no permits until somebody sets their number; those who wait for one wait for that as well.
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
}

impl Semaphore {
    pub(crate) fn new(handle: &Arc<Handle>, name: Named) -> Self {
        Self { handle: Arc::clone(handle), name, fifo: false }
    }

    /// What an error is about.
    fn subject(&self) -> error::Subject {
        self.handle.subject(SubjectKind::Semaphore, &self.name)
    }

    /// Changes it.
    async fn change<T>(
        &self,
        call: impl FnOnce(&Name, &Operation) -> Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, OperationError> {
        change(&self.handle, SubjectKind::Semaphore, &self.name, call, read).await
    }

    /// The same semaphore, for waiters that are served in the order in which they came, over all processes.
    ///
    /// They stand in a queue on the server. One that has not shown itself for five seconds, since its process has died, is
    /// passed by. Those who wait without a queue, as Java clients do, and those who ask once, do not stand there: a Java
    /// client takes what is free before those in the queue do. A waiter for many permits keeps those behind it waiting
    /// until it has them, so it does not starve.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.semaphore("seats").fifo();
    /// seats.try_set_permits(2).await?;
    /// let permit = seats.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fifo(mut self) -> Self {
        self.fifo = true;
        self
    }

    /// Sets how many permits there are, unless that was done before. `false` when it was.
    ///
    /// # Errors
    /// [`OperationError`]; [`OperationErrorKind::Unknown`](crate::OperationErrorKind::Unknown) when the server has not answered.
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
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

    /// The same for a semaphore that is gone after this time, at least a millisecond, with whatever was taken of it.
    /// [`add_permits`](Self::add_permits) and [`drain`](Self::drain) make it stay for ever, as in Redisson.
    ///
    /// # Errors
    /// As [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
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
        self.try_set(permits, Some(lifetime)).await
    }

    async fn try_set(&self, permits: u32, lifetime: Option<Duration>) -> Result<bool, OperationError> {
        let call = |name: &_, operation: &_| semaphore::try_set(name, operation, permits, lifetime);
        self.change(call, read_flag).await
    }

    /// Waits for a permit, for ever if need be.
    ///
    /// # Errors
    /// [`AcquireError`] when the server has failed for the whole of the client's timeout, or cannot grant at all. After
    /// [`AcquireErrorKind::Unknown`] the permit is given back when the server answers again; no lease bounds that.
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A permit on its way is given back.
    ///
    /// # Losing the lease
    /// A permit has none: it is lost only when the client is closed.
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

    /// Waits for so many permits at once, for ever if need be. No permits at all are granted at once.
    ///
    /// Those of this client that wait behind it wait until it has them.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. Permits on their way are given back.
    ///
    /// # Losing the lease
    /// Permits have none: they are lost only when the client is closed.
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
            // A wait without a deadline ends with a guard or an error; the loop has one turn.
            if let Some(guard) = self.ask(permits, |_| Wait::Forever).await? {
                return Ok(guard);
            }
        }
    }

    /// Asks for a permit exactly once: one call to the server, no wait. `None` when there is none.
    ///
    /// # Errors
    /// [`AcquireError`] when the server did not answer, or cannot grant at all.
    ///
    /// # Cancel safety
    /// Dropping the future gives back a permit on its way.
    ///
    /// # Losing the lease
    /// A permit has none: it is lost only when the client is closed.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.semaphore("seats");
    /// assert!(seats.try_acquire().await?.is_none(), "nobody has set how many there are");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        self.try_acquire_many(1).await
    }

    /// Asks for so many permits exactly once. `None` when there are fewer; none is taken then.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    /// Dropping the future gives back permits on their way.
    ///
    /// # Losing the lease
    /// Permits have none: they are lost only when the client is closed.
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
        self.ask(permits, |_| Wait::Once).await
    }

    /// Waits for a permit for at most this long, counted from the first poll. `None` when there was none until then. A
    /// wait of nothing asks exactly once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and when the wait ended with the server not answering.
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A permit on its way is given back.
    ///
    /// # Losing the lease
    /// A permit has none: it is lost only when the client is closed.
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

    /// Waits for so many permits at once for at most this long, counted from the first poll. `None` when there were fewer
    /// until then; none is taken then.
    ///
    /// # Errors
    /// As [`try_acquire_for`](Self::try_acquire_for).
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. Permits on their way are given back.
    ///
    /// # Losing the lease
    /// Permits have none: they are lost only when the client is closed.
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
        self.ask(permits, |handle| wait_for(handle, wait)).await
    }

    async fn ask(
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
        let recipe: &'static dyn Recipe = if self.fifo { &FifoSemaphore } else { &semaphore::Semaphore };
        let subject = Subject::new(self.name.as_ref().map_err(Clone::clone)?, recipe);
        // Nobody need wait for nothing, and the server grants it.
        let wait = if permits == 0 { Wait::Once } else { wait(&self.handle) };
        let request = Request::new(subject, Owner::unique(), Lease::clamped(NOMINAL_LEASE), wait);
        let request = Request { units: permits, watchdog: false, ..request };
        acquire(&self.handle, request, SubjectKind::Semaphore).await
    }

    /// Changes how many permits there are, up or down, and says how many are left. That may be less than nothing: then so
    /// many have to be returned before the next one can be taken.
    ///
    /// # Errors
    /// As [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
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

    /// Takes all permits that are left, for good, and says how many they were. When they were less than nothing they
    /// are nothing afterwards, as in Redisson.
    ///
    /// # Errors
    /// As [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
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

    /// Returns permits by number, whoever took them, and says how many are left. As in Redisson nobody checks that they
    /// were taken.
    ///
    /// For permits that were handed over: the taker [keeps](Guard::detach) its guard, and whoever is done with what it was
    /// for, in whatever process, releases.
    ///
    /// # Errors
    /// As [`try_set_permits`](Self::try_set_permits).
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
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
        self.change(|name, operation| semaphore::put_back(name, operation, permits), read_count).await
    }

    /// How many permits are left, by the server's word; less than nothing when their number was reduced below what is
    /// taken, and 0 when it was never set.
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
            self.handle.ask(semaphore::inspect(name), read_count).await
        };
        available.await.about(|| self.subject())
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
