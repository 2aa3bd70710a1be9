//! Runs the application's code on the store's threads: its dialers, their streams, and its address maps.
//!
//! Invariant: a panic in such code fails only what it was called for. The panic hook has reported it by then.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use futures_util::FutureExt;

/// Runs an attempt to connect. A thread that the system refuses to tokio, of a name lookup for example, is a panic too.
pub(super) async fn guarded<T>(dialing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    AssertUnwindSafe(dialing).catch_unwind().await.unwrap_or_else(|_| Err(panicked("the attempt to connect")))
}

/// Polls a stream of the application.
pub(super) fn guarded_poll<T>(poll: impl FnOnce() -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
    catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|_| Poll::Ready(Err(panicked("the stream"))))
}

/// Returns the value of a function of the application, or `None` if it panics.
pub(super) fn guarded_value<T>(value: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(value)).ok()
}

fn panicked(what: &str) -> io::Error {
    io::Error::other(format!("{what} panicked, as the program's panic hook has reported"))
}
