//! The one clock of the wrapper.
//!
//! Invariant: every other file of this crate gets its instants and its sleeps from here. How long the lock is held is not
//! decided by this clock but by the library.
//! Called by: the supervisor, and `run` for its messages.
#![expect(clippy::disallowed_methods, reason = "the command line's runtime file: nothing here is simulated")]

use std::time::Duration;

use tokio::time::sleep_until;

pub(crate) use tokio::time::Instant;

/// This instant.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The instant that is this far away, or as good as never.
pub(crate) fn after(wait: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    now() + wait.min(YEAR)
}

/// Waits for an instant; for ever when there is none.
pub(crate) async fn reached(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
