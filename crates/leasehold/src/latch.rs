//! The count-down latch, Redisson's `RCountDownLatch`.
//!
//! Invariant: a latch consists of a name only, and a wait changes nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::{AcquireFailure, Event, Group, Outcome, Request, Subject, Wait};
use leasehold_proto::marker::{Operation, read_flag};
use leasehold_proto::recipe::latch::{self, LATCH};
use leasehold_proto::{Call, LEASE_MAX, Lease, Name, Owner, Reply};

use crate::error::{
    self, About, InspectError, InspectErrorKind, OperationError, SubjectKind, WaitError, WaitErrorKind,
};
use crate::name::Named;
use crate::runtime::operation::change;
use crate::runtime::shared::Handle;
use crate::runtime::ticket::{Ticket, wait_for};

/// A count-down latch. One client sets a count, any client counts it down, and all waiters continue when the count is
/// zero. The latch works across all processes, and is cheap to clone.
///
/// [`Client::count_down_latch`](crate::Client::count_down_latch) creates it. A latch without a count is open, as in
/// Redisson, so set the count before any client waits.
///
/// When a latch has reached zero or was deleted, its count can be set again, which begins a new round. This can happen at
/// once: each waiter learns how its own round ended, and does not wait for the next one. There is one exception. A Java
/// client that ends a round leaves no note of it, so a waiter that has not asked before the count is set again waits for
/// the next zero. If Java clients count down, use a new latch for each round.
///
/// A name with braces does not work with sharded channels, because the channel of such a latch belongs to another slot
/// of a cluster.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// let parts = client.count_down_latch("import:parts");
/// parts.try_set_count(2).await?;
/// parts.count_down().await?; // each importer when it is done
/// parts.count_down().await?;
/// parts.wait().await?; // the process that continues
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CountDownLatch {
    handle: Arc<Handle>,
    name: Named,
    /// The group of the name for observers, or `None` for the one by the client's rule.
    group: Option<&'static Group>,
}

impl CountDownLatch {
    pub(crate) fn new(handle: &Arc<Handle>, name: Named) -> Self {
        Self { handle: Arc::clone(handle), name, group: None }
    }

    /// Sets the count if the latch has none. Returns `false` if it has a count, which stays as it is.
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
    /// let latch = client.count_down_latch("import");
    /// assert!(latch.try_set_count(3).await?);
    /// assert!(!latch.try_set_count(5).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_set_count(&self, count: u32) -> Result<bool, OperationError> {
        self.change(|name, operation| latch::try_set(name, operation, count), read_flag).await
    }

    /// Decrements the count and returns the remaining count. The latch opens at zero. At zero, or without a count, the
    /// call changes nothing.
    ///
    /// The count-down applies at most once, however often the client sends it.
    ///
    /// # Errors
    /// [`OperationError`], with [`OperationErrorKind::Unknown`](crate::error::OperationErrorKind::Unknown) if the server does
    /// not answer. The count-down may then have been applied or not.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let latch = client.count_down_latch("import");
    /// latch.try_set_count(2).await?;
    /// assert_eq!(latch.count_down().await?, 1);
    /// assert_eq!(latch.count_down().await?, 0);
    /// assert_eq!(latch.count_down().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn count_down(&self) -> Result<u64, OperationError> {
        self.change(latch::count_down, latch::read_count).await
    }

    /// Waits until the count is zero, as long as it takes. Returns immediately if the count is not set.
    ///
    /// # Errors
    /// [`WaitErrorKind::Deleted`] if a client [deletes](Self::delete) the latch during the wait. A deletion by a Java
    /// client or by hand looks like zero, since a latch at zero has no key either. [`WaitErrorKind::Store`] if the
    /// server fails for the whole of the client's timeout.
    ///
    /// # Cancel safety
    /// This method is cancel safe, since it acquires nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let latch = client.count_down_latch("import");
    /// latch.try_set_count(1).await?;
    /// let (waited, counted) = tokio::join!(latch.wait(), latch.count_down());
    /// assert_eq!((waited?, counted?), ((), 0));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self) -> Result<(), WaitError> {
        loop {
            // A wait without a deadline ends with zero or an error, so the loop runs once.
            if self.request(|_| Wait::Forever).await? {
                return Ok(());
            }
        }
    }

    /// Waits until the count is zero, for at most `wait`, counted from the first poll. Returns `false` if the count
    /// was not zero until then. A `wait` of zero makes exactly one attempt.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), or if the server does not answer by the end of the wait.
    ///
    /// # Cancel safety
    /// This method is cancel safe, since it acquires nothing.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let latch = client.count_down_latch("import");
    /// latch.try_set_count(1).await?;
    /// assert!(!latch.wait_for(Duration::from_millis(200)).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_for(&self, wait: Duration) -> Result<bool, WaitError> {
        self.request(|handle| wait_for(handle, wait)).await
    }

    /// Returns the count, as the server reports it, or 0 if it is not set.
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
    /// let latch = client.count_down_latch("import");
    /// latch.try_set_count(2).await?;
    /// assert_eq!(latch.count().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn count(&self) -> Result<u64, InspectError> {
        let count = async {
            let name = self.name.as_ref().map_err(|bad| InspectErrorKind::from(bad.clone()))?;
            self.handle.query(latch::inspect(name), latch::read_count).await
        };
        count.await.about(|| self.subject())
    }

    /// Deletes the latch. Returns `false` if it had no count.
    ///
    /// Its waiters fail with [`WaitErrorKind::Deleted`], also if the count is set again at once. In Redisson they continue to
    /// wait.
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
    /// let latch = client.count_down_latch("import");
    /// latch.try_set_count(3).await?;
    /// assert!(latch.delete().await?);
    /// assert!(!latch.delete().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self) -> Result<bool, OperationError> {
        self.change(latch::delete, read_flag).await
    }

    /// Sets the group of the name, which observers are told. See [`Lock::group`](crate::Lock::group).
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(crate::observe::group::group(group));
        self
    }

    /// Returns the object that errors name.
    fn subject(&self) -> error::Subject {
        self.handle.subject(SubjectKind::CountDownLatch, &self.name)
    }

    /// Performs an operation that changes the latch.
    async fn change<T>(
        &self,
        call: impl FnOnce(&Name, &Operation) -> Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, OperationError> {
        change(&self.handle, SubjectKind::CountDownLatch, &self.name, call, read).await
    }

    async fn request(&self, wait: impl FnOnce(&Handle) -> Wait) -> Result<bool, WaitError> {
        self.opened(wait).await.about(|| self.subject())
    }

    async fn opened(&self, wait: impl FnOnce(&Handle) -> Wait) -> Result<bool, WaitErrorKind> {
        let subject = Subject::new(self.name.as_ref().map_err(Clone::clone)?, &LATCH);
        let subject = Subject { group: self.group, ..subject };
        // A wait holds nothing, so its lease has no effect.
        let request = Request::new(subject, Owner::unique(), Lease::clamped(LEASE_MAX), wait(&self.handle));
        match Ticket::new(&self.handle, |id| Event::Acquire(id, request)).await? {
            Outcome::Acquired(Ok(_)) => Ok(true),
            Outcome::Acquired(Err(AcquireFailure::Contended)) => Ok(false),
            Outcome::Acquired(Err(failure)) => Err(WaitErrorKind::from_failure(failure)),
            other => unreachable!("a wait completed as {other:?}"),
        }
    }
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountDownLatch").field("name", &self.name).finish_non_exhaustive()
    }
}
