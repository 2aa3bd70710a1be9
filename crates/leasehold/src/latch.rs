//! The count-down latch: Redisson's `RCountDownLatch`.
//!
//! Invariant: a latch is a name, nothing more; waiting for it changes nothing.
//! Called by: the client, which makes latches; users.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::{AcquireFailure, Event, Outcome, Request, Subject, Wait};
use leasehold_proto::marker::{Operation, read_flag};
use leasehold_proto::recipe::latch::{self, Latch};
use leasehold_proto::{Call, LEASE_MAX, Lease, Name, Owner, Reply};

use crate::error::{
    self, About, InspectError, InspectErrorKind, OperationError, SubjectKind, WaitError, WaitErrorKind,
};
use crate::name::Named;
use crate::operation::change;
use crate::shared::Handle;
use crate::terms::wait_for;
use crate::ticket::Ticket;

/// A count-down latch: somebody sets a count, others count it down, and everybody who waits goes on when it is zero. Over
/// all processes, and cheap to clone.
///
/// Made by [`Client::count_down_latch`](crate::Client::count_down_latch). A latch whose count is not set is open, as in
/// Redisson: set it before anybody waits. It is used up when it has reached zero; then it can be set again.
///
/// Its name must not have braces: such latches cannot work in a cluster, where Redisson puts their messages elsewhere.
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
/// parts.wait().await?; // whoever goes on from there
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CountDownLatch {
    handle: Arc<Handle>,
    name: Named,
}

impl CountDownLatch {
    pub(crate) fn new(handle: &Arc<Handle>, name: Named) -> Self {
        Self { handle: Arc::clone(handle), name }
    }

    /// What an error is about.
    fn subject(&self) -> error::Subject {
        self.handle.subject(SubjectKind::CountDownLatch, &self.name)
    }

    /// Changes it.
    async fn change<T>(
        &self,
        call: impl FnOnce(&Name, &Operation) -> Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, OperationError> {
        change(&self.handle, SubjectKind::CountDownLatch, &self.name, call, read).await
    }

    /// Sets the count of a latch that has none. `false` when it has one; that stays.
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
    /// let latch = client.count_down_latch("import");
    /// assert!(latch.try_set_count(3).await?);
    /// assert!(!latch.try_set_count(5).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_set_count(&self, count: u32) -> Result<bool, OperationError> {
        self.change(|name, operation| latch::try_set(name, operation, count), read_flag).await
    }

    /// Counts down by one, and says what is left. At zero the latch opens; below, and without a count, nothing happens.
    ///
    /// It is counted at most once, however often it has to be sent.
    ///
    /// # Errors
    /// [`OperationError`]; [`OperationErrorKind::Unknown`](crate::OperationErrorKind::Unknown) when the server has not answered, and it may or may not be counted.
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
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

    /// The count, by the server's word; 0 when it is not set.
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
    /// let latch = client.count_down_latch("import");
    /// latch.try_set_count(2).await?;
    /// assert_eq!(latch.count().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn count(&self) -> Result<u64, InspectError> {
        let count = async {
            let name = self.name.as_ref().map_err(|bad| InspectErrorKind::from(bad.clone()))?;
            self.handle.ask(latch::inspect(name), latch::read_count).await
        };
        count.await.about(|| self.subject())
    }

    /// Waits until the count is zero, for ever if need be; at once when it is not set.
    ///
    /// # Errors
    /// [`WaitErrorKind::Deleted`] when the latch was [deleted](Self::delete) meanwhile. A deletion by a Java client or by hand
    /// cannot be told from zero, since a latch at zero has no key either. [`WaitErrorKind::Store`] when the server has failed
    /// for the whole of the client's timeout.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is taken.
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
            // A wait without a deadline ends with zero or an error; the loop has one turn.
            if self.ask(|_| Wait::Forever).await? {
                return Ok(());
            }
        }
    }

    /// Waits until the count is zero, for at most this long, counted from the first poll. `false` when it was not zero
    /// until then. A wait of nothing asks exactly once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and when the wait ended with the server not answering.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is taken.
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
        self.ask(|handle| wait_for(handle, wait)).await
    }

    async fn ask(&self, wait: impl FnOnce(&Handle) -> Wait) -> Result<bool, WaitError> {
        self.opened(wait).await.about(|| self.subject())
    }

    async fn opened(&self, wait: impl FnOnce(&Handle) -> Wait) -> Result<bool, WaitErrorKind> {
        let subject = Subject::new(self.name.as_ref().map_err(Clone::clone)?, &Latch);
        // Nothing is held, so no lease matters.
        let request = Request::new(subject, Owner::unique(), Lease::clamped(LEASE_MAX), wait(&self.handle));
        match Ticket::new(&self.handle, |id| Event::Acquire(id, request)).await? {
            Outcome::Acquired(Ok(_)) => Ok(true),
            Outcome::Acquired(Err(AcquireFailure::Contended)) => Ok(false),
            Outcome::Acquired(Err(failure)) => Err(WaitErrorKind::from_failure(failure)),
            other => unreachable!("a wait settled as {other:?}"),
        }
    }

    /// Deletes the latch. Whoever waits for it is told so ([`WaitErrorKind::Deleted`]); in Redisson they go on waiting.
    /// `false` when it had no count.
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
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountDownLatch").field("name", &self.name).finish_non_exhaustive()
    }
}
