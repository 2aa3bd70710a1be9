//! Bodies that run under several locks.

use futures_util::FutureExt;
use leasehold_proto::engine::LostReason;

use super::{MultiGuard, MultiLock};
use crate::error::RunError;
use crate::lock::guard::ReleaseOutcome;
use crate::lock::section::while_held;

impl MultiLock {
    /// Runs a body under all members: acquires them, renews them, and releases them. If one of them is lost, the body is
    /// canceled at its next await point.
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
        let lock = self.clone();
        async move {
            let guard = lock.lock().await?;
            let value = while_held(guard.lost(), body(&guard)).await;
            let value = value.map_err(|reason| lock.lost_in_run(reason))?;
            lock.end(guard, value).await
        }
    }

    fn lost_in_run(&self, reason: LostReason) -> RunError {
        RunError::Lost { subject: self.subject(), reason }
    }

    /// Releases after a body. Returns the body's value, or an error if a member was lost.
    pub(crate) async fn end<T>(&self, guard: MultiGuard, value: T) -> Result<T, RunError> {
        let reason = guard.lost().now_or_never();
        match (guard.release().await, reason) {
            // The leases end what the server does not confirm.
            (Ok(ReleaseOutcome::NotHeld), reason) => {
                Err(self.lost_in_run(reason.unwrap_or(LostReason::Deleted)))
            }
            (_, Some(reason)) => Err(self.lost_in_run(reason)),
            _ => Ok(value),
        }
    }
}
