//! Bodies that run under a lock.

use std::time::Duration;

use super::handle::Lock;
use super::kind::Kind;
use super::section::{Acquirable, Acquired, Sealed, Section};
use crate::error::{About, AcquireError, AcquireErrorKind, RunError, Subject};
use crate::owner::{BodyContext, of_caller};

impl<K: Kind> Lock<K> {
    /// Runs a body under the lock: acquires the lock, renews it, and releases it. If the hold is lost, the body is
    /// canceled at its next await point. [`section`](Self::section) has options for the wait, the loss and the end.
    ///
    /// Code that the body calls re-enters the lock, because it has the body's owner. Tasks that the body spawns do
    /// not. For tasks that the body polls on an executor of its own, see
    /// [`owner::independent`](crate::owner::independent).
    ///
    /// The body is an *async closure*, `async |guard| { .. }`, which borrows the guard. The older form `|guard| async {
    /// .. }` is a closure that returns a future. That future cannot borrow from the argument, and the compiler reports
    /// lifetime errors. With `async move |guard| { .. }`, the body owns its captures.
    ///
    /// # Errors
    /// [`RunError::Acquire`] if the lock was not acquired. The body did not run. [`RunError::Lost`] if the hold was
    /// lost before the body ended. If the body ended in time, its value is returned even if the server did not confirm
    /// the release, since the lease ends the hold.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body and releases the lock. The future does not borrow the lock, so it can be spawned:
    /// `tokio::spawn(client.lock("order:42").run(async |_guard| ..))`.
    ///
    /// # Examples
    /// ```
    /// # async fn charge(order: u64) -> Result<(), std::io::Error> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let receipt = client.lock("order:42").run(async |_guard| charge(42).await).await??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, F>(&self, body: F) -> impl Future<Output = Result<T, RunError>> + use<T, F, K>
    where
        F: AsyncFnOnce(&K::Guard) -> T,
    {
        self.section().run(body)
    }

    /// Creates a section, which runs a body under the lock, with options for the wait, the loss of the lock and the end
    /// of the body.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let section = client.lock("order:42").section().wait(Duration::from_secs(2));
    /// let value = section.run(async |guard| guard.remaining()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn section(&self) -> Section<Self> {
        Section::of(self.clone())
    }

    /// Returns the lock with the owner of this caller, and the re-entry context for the body.
    pub(crate) fn for_body(&self) -> Result<(Self, BodyContext), AcquireError> {
        let name = self.name.clone().map_err(AcquireErrorKind::from).about(|| self.subject())?;
        let client = self.handle.client();
        let owner = self.owner.unwrap_or_else(|| of_caller(client, &name));
        Ok((self.clone().owned_by(&owner), BodyContext::name(client, name, owner)))
    }
}

impl<K: Kind> Sealed for Lock<K> {
    type Held = K::Guard;

    fn subject(&self) -> Subject {
        Self::subject(self)
    }

    async fn acquire(&self, wait: Option<Duration>) -> Result<Option<Acquired<K::Guard>>, RunError> {
        let (lock, context) = self.for_body()?;
        let guard = match wait {
            None => Some(lock.lock().await?),
            Some(wait) => lock.try_lock_for(wait).await?,
        };
        Ok(guard.map(|guard| Acquired { guard, context }))
    }
}

impl<K: Kind> Acquirable for Lock<K> {
    type Guard = K::Guard;
}
