//! A tokio runtime whose time passes when nothing else can happen, so that a wait for ever is found at once.
//!
//! Invariant: no input waits for real time.
//! Called by: the targets that run the library's I/O.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Far more than anything that is given a timeout takes.
const END: Duration = Duration::from_secs(3600);

thread_local! {
    static RUNTIME: Runtime =
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime without I/O");
}

/// What a future comes to; panics if that never happens.
pub(crate) fn finish<F: Future>(what: &str, future: F) -> F::Output {
    RUNTIME.with(|runtime| {
        let outcome = runtime.block_on(async { tokio::time::timeout(END, future).await });
        outcome.unwrap_or_else(|_| panic!("{what} does not end"))
    })
}
