//! The expirable semaphore: Redisson's `RPermitExpirableSemaphore`.
//!
//! Invariant: as every semaphore's.
//! Called by: the client, which makes semaphores; users.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::{Request, Subject, Wait};
use leasehold_proto::marker::{Operation, read_flag};
use leasehold_proto::recipe::expirable::{self, Census, PERMITS_MAX};
use leasehold_proto::recipe::{Remaining, semaphore};
use leasehold_proto::{Call, Lease, Name, Owner, PermitId, Reply};

use super::Permits;
use crate::error::{
    self, About, AcquireError, AcquireErrorKind, Cause, InspectError, InspectErrorKind, OperationError,
    OperationErrorKind, SubjectKind,
};
use crate::name::Named;
use crate::operation::change;
use crate::section::{OnePermit, Section};
use crate::shared::Handle;
use crate::terms::{Terms, acquire, wait_for};

/// For how long the number of permits is taken to be set once it was: what a server that lost its data, or a semaphore that
/// was deleted, can cost those that count on a section to set it.
const SET_AGAIN: Duration = Duration::from_secs(60);

/// A semaphore whose permits have a lease: so many, over all processes, and none is lost when its process dies. Cheap to
/// clone.
///
/// Made by [`Client::expirable_semaphore`](crate::Client::expirable_semaphore). Unless a fixed [`lease`](Self::lease) is
/// given, a *watchdog* renews the permits for as long as their [`Permits`] live. Leases go by the server's clock.
///
/// A semaphore has no permits until somebody sets their number; those who wait for one wait for that as well.
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
    terms: Terms,
}

impl ExpirableSemaphore {
    pub(crate) fn new(handle: &Arc<Handle>, name: Named, terms: Terms) -> Self {
        Self { handle: Arc::clone(handle), name, terms }
    }

    /// What an error is about.
    pub(crate) fn subject(&self) -> error::Subject {
        self.handle.subject(SubjectKind::ExpirableSemaphore, &self.name)
    }

    /// Changes it.
    async fn change<T>(
        &self,
        call: impl FnOnce(&Name, &Operation) -> Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, OperationError> {
        change(&self.handle, SubjectKind::ExpirableSemaphore, &self.name, call, read).await
    }

    /// Looks at it.
    async fn look<T>(
        &self,
        call: impl FnOnce(&Name) -> Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, InspectError> {
        let seen = async {
            let name = self.name.as_ref().map_err(|bad| InspectErrorKind::from(bad.clone()))?;
            self.handle.ask(call(name), read).await
        };
        seen.await.about(|| self.subject())
    }

    /// The same semaphore with a fixed lease, from 3 ms to 365 days, and no watchdog: permits end by themselves after it.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats").lease(Duration::from_secs(10));
    /// # seats.try_set_permits(1).await?;
    /// let permit = seats.acquire().await?; // ends after 10 s, come what may
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.fix(lease);
        self
    }

    /// The same semaphore with another lease for the watchdog (default 30 s), from 3 ms to 365 days: how long permits stay
    /// taken when this process dies. It is renewed every third.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats").watchdog(Duration::from_secs(5));
    /// # seats.try_set_permits(1).await?;
    /// let permit = seats.acquire().await?; // renewed for as long as it lives
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn watchdog(mut self, lease: Duration) -> Self {
        self.terms.watch(lease);
        self
    }

    /// The same semaphore with a bound on how long permits are held: [`Lock::max_hold`](crate::Lock::max_hold).
    #[must_use]
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.terms.max_hold = Some(most);
        self
    }

    /// The same semaphore with a bound on the number of renewals: [`Lock::max_renewals`](crate::Lock::max_renewals).
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.terms.max_renewals = Some(most);
        self
    }

    /// The same semaphore with a least time for which permits are taken: [`Lock::min_hold`](crate::Lock::min_hold).
    #[must_use]
    pub fn min_hold(mut self, least: Duration) -> Self {
        self.terms.min_hold = Some(least);
        self
    }

    /// Sets how many permits there are, unless that was done before. `false` when it was.
    ///
    /// # Errors
    /// [`OperationError`]; [`OperationErrorKind::Unknown`] when the server has not answered.
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
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

    /// Sets how many permits there are, those that are taken included, and says how many are left. That may be less than
    /// nothing: then so many have to be returned before the next one can be taken.
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

    /// Changes how many permits there are, up or down, and says how many are left.
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

    /// Waits for a permit, for ever if need be.
    ///
    /// # Errors
    /// [`AcquireError`] when the server has failed for the whole of the client's timeout, or cannot grant at all.
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. A permit on its way is given back.
    ///
    /// # Losing the lease
    /// As for a lock: see [`Guard`](crate::Guard), which [`Permits`] are.
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

    /// Waits for so many permits at once, for ever if need be: at most [`PERMITS_MAX`](crate::PERMITS_MAX), 4096. No
    /// permits at all are granted at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`AcquireErrorKind::TooManyPermits`].
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. Permits on their way are given back.
    ///
    /// # Losing the lease
    /// They are lost together: see [`Guard`](crate::Guard), which [`Permits`] are.
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
            // A wait without a deadline ends with permits or an error; the loop has one turn.
            if let Some(permits) = self.ask(permits, |_| Wait::Forever).await? {
                return Ok(permits);
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
    /// As for a lock: see [`Guard`](crate::Guard), which [`Permits`] are.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let seats = client.expirable_semaphore("seats");
    /// assert!(seats.try_acquire().await?.is_none(), "nobody has set how many there are");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Permits>, AcquireError> {
        self.try_acquire_many(1).await
    }

    /// Asks for so many permits exactly once. `None` when there are fewer; none is taken then.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire), and [`AcquireErrorKind::TooManyPermits`].
    ///
    /// # Cancel safety
    /// Dropping the future gives back permits on their way.
    ///
    /// # Losing the lease
    /// They are lost together: see [`Guard`](crate::Guard), which [`Permits`] are.
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
    /// As for a lock: see [`Guard`](crate::Guard), which [`Permits`] are.
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

    /// Waits for so many permits at once for at most this long, counted from the first poll. `None` when there were fewer
    /// until then; none is taken then.
    ///
    /// # Errors
    /// As [`try_acquire_for`](Self::try_acquire_for), and [`AcquireErrorKind::TooManyPermits`].
    ///
    /// # Cancel safety
    /// Dropping the future loses the place in line. Permits on their way are given back.
    ///
    /// # Losing the lease
    /// They are lost together: see [`Guard`](crate::Guard), which [`Permits`] are.
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
        self.ask(permits, |handle| wait_for(handle, wait)).await
    }

    /// A run of a body with a permit, at most so many at a time over all processes: sets their number unless that was
    /// done before, and takes one. To set it is a call to the server, which each client makes once a minute at most.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let downloads = client.expirable_semaphore("downloads");
    /// downloads.section(3).run(async |_permit| println!("one of three at most")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn section(&self, most: u32) -> Section<OnePermit> {
        Section::of(OnePermit::new(self.clone(), most))
    }

    /// As [`try_set_permits`](Self::try_set_permits), but not again for [`SET_AGAIN`]: a round trip that comes to nothing.
    pub(crate) async fn set_permits_once(&self, permits: u32) -> Result<(), OperationError> {
        let Ok(name) = &self.name else { return self.try_set_permits(permits).await.map(drop) };
        let now = self.handle.now();
        if !self.handle.was_set(name, now) {
            self.try_set_permits(permits).await?;
            self.handle.is_set(name, now + SET_AGAIN);
        }
        Ok(())
    }

    async fn ask(
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
        let subject = Subject::new(name, &expirable::ExpirableSemaphore);
        // Nobody need wait for nothing, and the server grants it.
        let wait = if permits == 0 { Wait::Once } else { wait(&self.handle) };
        let request = Request { units: permits, ..self.terms.request(subject, Owner::unique(), wait)? };
        let guard = acquire(&self.handle, request, SubjectKind::ExpirableSemaphore).await?;
        Ok(guard.map(|guard| Permits::new(guard, permits)))
    }

    /// Returns permits by their ids, all or none: `false` when the lease of one of them has ended, or it was returned
    /// before. At most [`PERMITS_MAX`](crate::PERMITS_MAX), 4096, at once.
    ///
    /// For permits that were handed over by [`Permits::keep`], or by a Java client.
    ///
    /// # Errors
    /// As [`try_set_permits`](Self::try_set_permits), and [`OperationErrorKind::TooManyPermits`].
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
    ///
    /// # Losing the lease
    /// Permits that their holder still holds are lost to it at its next renewal.
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
    pub async fn release_ids(&self, ids: &[PermitId]) -> Result<bool, OperationError> {
        if ids.is_empty() {
            let name = self.name.as_ref().map_err(|bad| OperationErrorKind::from(bad.clone()));
            return name.map(|_| true).about(|| self.subject());
        }
        let given = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        if given > PERMITS_MAX {
            return Err(OperationErrorKind::TooManyPermits { given }.of(self.subject()));
        }
        let call = |name: &_, operation: &_| expirable::release_ids(name, operation, ids);
        Ok(self.change(call, semaphore::read_count).await? > 0)
    }

    /// Sets the lease of a permit, from 3 ms to 365 days counted from now, whether that makes it longer or shorter.
    /// `false` when it is not taken any more.
    ///
    /// # Errors
    /// As [`try_set_permits`](Self::try_set_permits), and [`OperationErrorKind::Lease`].
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
    ///
    /// # Losing the lease
    /// A holder whose permit is made shorter finds out at its next renewal, which makes it longer again, or not before
    /// its release when nothing renews it.
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
    pub async fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool, OperationError> {
        let lease = Lease::new(lease).map_err(OperationErrorKind::from).about(|| self.subject())?;
        let call = |name: &_, operation: &_| expirable::update_lease(name, operation, id, lease);
        self.change(call, read_flag).await
    }

    /// How long a permit is still taken, by the server's clock; `None` when it is not taken any more.
    ///
    /// # Errors
    /// [`InspectError`] when the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::Remaining;
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
        self.look(|name| expirable::lease_of(name, id), expirable::read_lease_of).await
    }

    /// How many permits are left, by the server's word, those whose lease has ended included; less than nothing when their
    /// number was reduced below what is taken, and 0 when it was never set.
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

    /// How many permits are taken, by the server's word.
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

    /// How many permits there are, left or taken, by the server's word; 0 when their number was never set.
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
    /// let seats = client.expirable_semaphore("seats");
    /// seats.try_set_permits(10).await?;
    /// let permit = seats.acquire().await?;
    /// assert_eq!(seats.permits().await?, 10);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn permits(&self) -> Result<i64, InspectError> {
        let census = self.census().await?;
        let taken = i64::try_from(census.acquired).unwrap_or(i64::MAX);
        Ok(if census.is_set { census.available.saturating_add(taken) } else { 0 })
    }

    async fn census(&self) -> Result<Census, InspectError> {
        self.look(expirable::inspect, expirable::read_inspect).await
    }
}

impl fmt::Debug for ExpirableSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirableSemaphore").field("name", &self.name).finish_non_exhaustive()
    }
}
