//! A tokio runtime with virtual time, which passes only while no task is ready, so that an endless wait is found at
//! once.
//!
//! Invariant: no input waits for real time.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// A bound far beyond the timeouts of any operation.
const END: Duration = Duration::from_secs(3600);

thread_local! {
    // Leaked, since tasks that are left over read tokio's clock when they end, which is gone when a thread ends.
    static RUNTIME: &'static Runtime = Box::leak(Box::new(
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime without I/O"),
    ));
}

/// Returns the output of a future, or panics if the future does not end.
pub(crate) fn finish<F: Future>(what: &str, future: F) -> F::Output {
    RUNTIME.with(|runtime| {
        let outcome = runtime.block_on(async { tokio::time::timeout(END, future).await });
        outcome.unwrap_or_else(|_| panic!("{what} does not end"))
    })
}
