//! A body under a lock.
//!
//! Invariant: as of a section, of which these are the ways in.
//! Called by: users.

use super::{Kind, Lock};
use crate::error::{About, AcquireError, AcquireErrorKind, RunError};
use crate::owner::{Under, of_caller};
use crate::section::Section;

impl<K: Kind> Lock<K> {
    /// Runs a body under the lock: waits for it, renews it, and releases it. When the hold is lost the body is
    /// cancelled at its next await point. With other wishes than these: [`section`](Self::section).
    ///
    /// What the body calls re-enters the lock: it has the body's owner. What the body spawns does not; for tasks
    /// that the body polls on an executor of its own see [`owner::independent`](crate::owner::independent).
    ///
    /// The body is an *async closure*, `async |guard| { .. }`, which borrows the guard. The older `|guard| async { .. }` is a
    /// closure that returns a future, which cannot borrow from its argument: the compiler answers that with a list of
    /// lifetimes. With `async move |guard| { .. }` the body owns what it captures.
    ///
    /// # Errors
    /// [`RunError::Acquire`] when there was no lock and so the body did not run; [`RunError::Lost`] when the hold was
    /// lost before the body had ended. A body that ended in time has its value returned even if the release could not
    /// be confirmed, since the lease ends the hold.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body and releases.
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
    pub async fn run<T, F>(&self, body: F) -> Result<T, RunError>
    where
        F: AsyncFnOnce(&K::Guard) -> T,
    {
        self.section().run(body).await
    }

    /// A run of a body under the lock, to be told how long to wait, and what a loss of the lock and the end of the body
    /// mean.
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

    /// The lock on behalf of whoever takes it here, and what a body runs under then.
    pub(crate) fn for_a_body(&self) -> Result<(Self, Under), AcquireError> {
        let name = self.name.clone().map_err(AcquireErrorKind::from).about(|| self.subject())?;
        let client = self.handle.client();
        let owner = self.owner.unwrap_or_else(|| of_caller(client, &name));
        Ok((self.clone().owned_by(&owner), Under::name(client, name, owner)))
    }
}
