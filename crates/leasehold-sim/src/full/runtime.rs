//! Sleep, limits and tasks on the hosts.
//!
//! Invariant: only this file of the full mode sleeps and spawns. Time is the simulation's.

use std::future::Future;
use std::time::Duration;

use tokio::task::AbortHandle;

/// Sleeps in true time.
#[expect(clippy::disallowed_methods, reason = "this is a runtime file")]
pub(super) fn pause(span: Duration) -> impl Future<Output = ()> + Send {
    tokio::time::sleep(span)
}

/// Returns the output of `work`, or `None` if it takes longer than `limit`.
#[expect(clippy::disallowed_methods, reason = "this is a runtime file")]
pub(super) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}

/// Starts a task on the host. The task ends with the host.
#[expect(clippy::disallowed_methods, reason = "this is a runtime file")]
pub(super) fn spawn(work: impl Future<Output = ()> + 'static) -> AbortHandle {
    tokio::task::spawn_local(work).abort_handle()
}
