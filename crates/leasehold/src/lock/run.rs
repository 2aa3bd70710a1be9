//! A body under a lock.
//!
//! Invariant: the body runs only while the hold may be trusted.
//! Called by: users.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::FutureExt;
use leasehold_proto::engine::LostReason;

use super::{Kind, Lock};
use crate::error::RunError;
use crate::guard::{Guard, Released};

impl<K: Kind> Lock<K> {
    /// Runs a body under the lock: waits for it, renews it, and releases it. When the hold is lost the body is
    /// cancelled at its next await point.
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
        let guard = self.lock().await?;
        let running = guard.as_ref().while_held(body(&guard));
        let value = running.await.map_err(|reason| RunError::Lost { reason })?;
        let guard: Guard = guard.into();
        let lost = guard.lost().now_or_never();
        match guard.release().await {
            Ok(Released::NotHeld) => Err(RunError::Lost { reason: lost.unwrap_or(LostReason::Deleted) }),
            Ok(Released::Released) | Err(_) => Ok(value),
        }
    }
}

impl Guard {
    /// Runs a body for as long as the hold may be trusted. A body that ends at the very moment of the loss has lost.
    pub(super) async fn while_held<T>(&self, body: impl Future<Output = T>) -> Result<T, LostReason> {
        let mut body = pin!(body);
        let mut lost = pin!(self.lost());
        poll_fn(|cx| {
            if let Poll::Ready(reason) = lost.as_mut().poll(cx) {
                return Poll::Ready(Err(reason));
            }
            let Poll::Ready(value) = body.as_mut().poll(cx) else {
                return Poll::Pending;
            };
            match lost.as_mut().poll(cx) {
                Poll::Ready(reason) => Poll::Ready(Err(reason)),
                Poll::Pending => Poll::Ready(Ok(value)),
            }
        })
        .await
    }
}
