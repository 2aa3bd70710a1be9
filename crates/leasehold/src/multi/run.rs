//! Bodies that run under several locks.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use leasehold_proto::engine::LostReason;

use super::{MultiGuard, MultiLock, subject_of};
use crate::error::{ReleaseError, RunError, Subject, SubjectKind};
use crate::lock::guard::ReleaseOutcome;
use crate::lock::holding::Holding;
use crate::lock::section::{Acquirable, Acquired, Sealed, Section};
use crate::observe::Scene;
use crate::owner::BodyContext;

impl MultiLock {
    /// Runs a body under all members: acquires them, renews them, and releases them. If one of them is lost, the body is
    /// canceled at its next await point. [`section`](Self::section) has options for the wait, the loss and the end.
    ///
    /// Code that the body calls does not re-enter the members, except within an [`owner::scope`](crate::owner::scope) around
    /// the whole call.
    ///
    /// # Errors
    /// [`RunError::Acquire`] if a member was not acquired. The body did not run. [`RunError::Lost`] if a member was lost before
    /// the body ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body and releases the members.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// use leasehold::MultiLock;
    ///
    /// let both = MultiLock::of([client.lock("account:1").into(), client.lock("account:2").into()]);
    /// let moved = both.run(async |guard| guard.is_held()).await?;
    /// assert!(moved);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, F>(&self, body: F) -> impl Future<Output = Result<T, RunError>> + use<T, F>
    where
        F: AsyncFnOnce(&MultiGuard) -> T,
    {
        self.section().run(body)
    }

    /// Creates a section, which runs a body under all members, with options for the wait, the loss of a member and the end of
    /// the body.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// use leasehold::MultiLock;
    ///
    /// let both = MultiLock::of([client.lock("account:1").into(), client.lock("account:2").into()]);
    /// both.section().wait(Duration::from_secs(2)).run(async |_guard| println!("moved")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn section(&self) -> Section<Self> {
        Section::of(self.clone())
    }
}

impl Sealed for MultiLock {
    type Held = MultiGuard;

    fn subject(&self) -> Subject {
        Self::subject(self)
    }

    async fn acquire(&self, wait: Option<Duration>) -> Result<Option<Acquired<MultiGuard>>, RunError> {
        let guard = match wait {
            None => Some(self.lock().await?),
            Some(wait) => self.try_lock_for(wait).await?,
        };
        Ok(guard.map(|guard| Acquired { guard, context: BodyContext::nothing() }))
    }
}

impl Acquirable for MultiLock {
    type Guard = MultiGuard;
}

impl Holding for MultiGuard {
    fn lost(&self) -> impl Future<Output = LostReason> + Send {
        Self::lost(self)
    }

    fn subject(&self) -> Subject {
        subject_of(&self.members)
    }

    fn scene(&self) -> Scene<'_> {
        let names: Vec<_> = self.members.iter().map(|member| member.0.shown_name()).collect();
        Scene { kind: SubjectKind::MultiLock, name: Cow::Owned(names.join(", ")), owner: None, token: None }
    }

    fn release(self) -> impl Future<Output = Result<ReleaseOutcome, ReleaseError>> + Send {
        Self::release(self)
    }

    fn detach(self) {
        Self::detach(self);
    }
}
