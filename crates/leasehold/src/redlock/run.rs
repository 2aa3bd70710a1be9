//! Bodies that run under a quorum lock.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use leasehold_proto::engine::LostReason;

use super::{QuorumGuard, QuorumLock};
use crate::error::{ReleaseError, RunError, Subject};
use crate::lock::guard::ReleaseOutcome;
use crate::lock::holding::Holding;
use crate::lock::section::{Acquirable, Acquired, Sealed, Section};
use crate::observe::Scene;
use crate::owner::BodyContext;

impl QuorumLock {
    /// Runs a body under the lock: acquires it on a majority, renews it, and releases it. If the majority is lost, the body
    /// is canceled at its next await point. [`section`](Self::section) has options for the wait, the loss and the end.
    ///
    /// Code that the body calls does not re-enter the lock, except within an [`owner::scope`](crate::owner::scope) around the
    /// whole call.
    ///
    /// # Errors
    /// [`RunError::Quorum`] if too few servers work for a majority. The body did not run. [`RunError::Lost`] if the majority was
    /// lost before the body ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body and releases the lock.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let votes = redlock.lock("order:42").run(async |guard| guard.votes()).await?;
    /// assert!(votes >= 2, "of three");
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, F>(&self, body: F) -> impl Future<Output = Result<T, RunError>> + use<T, F>
    where
        F: AsyncFnOnce(&QuorumGuard) -> T,
    {
        self.section().run(body)
    }

    /// Creates a section, which runs a body under the lock, with options for the wait, the loss of the majority and the end
    /// of the body.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let section = redlock.lock("order:42").section().wait(Duration::from_secs(2));
    /// section.run(async |_guard| println!("under the lock")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn section(&self) -> Section<Self> {
        Section::of(self.clone())
    }
}

impl Sealed for QuorumLock {
    type Held = QuorumGuard;

    fn subject(&self) -> Subject {
        self.nodes[0].subject()
    }

    async fn acquire(&self, wait: Option<Duration>) -> Result<Option<Acquired<QuorumGuard>>, RunError> {
        let guard = match wait {
            None => Some(self.lock().await?),
            Some(wait) => self.try_lock_for(wait).await?,
        };
        Ok(guard.map(|guard| Acquired { guard, context: BodyContext::nothing() }))
    }
}

impl Acquirable for QuorumLock {
    type Guard = QuorumGuard;
}

impl Holding for QuorumGuard {
    fn lost(&self) -> impl Future<Output = LostReason> + Send {
        Self::lost(self)
    }

    fn subject(&self) -> Subject {
        self.subject.clone()
    }

    fn scene(&self) -> Scene<'_> {
        let name = Cow::Owned(self.shown_name());
        Scene { kind: self.subject.kind, name, owner: None, token: None }
    }

    fn release(self) -> impl Future<Output = Result<ReleaseOutcome, ReleaseError>> + Send {
        Self::release(self)
    }

    fn detach(self) {
        Self::detach(self);
    }
}
