//! Where the tasks of a store run, and what time it is there.
//!
//! Invariant: the driver reads a clock, pauses and spawns through an executor alone, so a simulator decides all three.

use std::fmt;
use std::panic::catch_unwind;

use futures_util::future::BoxFuture;
use leasehold_proto::Moment;
use tokio::net::UnixStream;
use tokio::runtime::Handle;

use crate::tokio_runtime::{Task, clock, pause_until, spawn_on};

/// A place where tasks of a store run: its own runtime, or that of its callers.
pub trait Executor: fmt::Debug + Send + Sync + 'static {
    /// Returns the time on the clock of the store.
    fn now(&self) -> Moment;

    /// Sleeps until a time on that clock.
    fn pause_until(&self, at: Moment) -> BoxFuture<'static, ()>;

    /// Starts a task. The task ends when the returned value is dropped.
    fn spawn(&self, work: BoxFuture<'static, ()>) -> Task;

    /// Returns true if sockets work in a task of this executor, which is asked within one.
    fn has_sockets(&self) -> bool {
        true
    }

    /// Returns the tokio runtime with which a socket is to be registered, if there is one.
    fn tokio(&self) -> Option<&Handle> {
        None
    }
}

/// A tokio runtime.
#[derive(Clone, Debug)]
pub(super) struct TokioExecutor(pub(super) Handle);

impl Executor for TokioExecutor {
    fn now(&self) -> Moment {
        clock()
    }

    fn pause_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        Box::pin(pause_until(at))
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) -> Task {
        spawn_on(&self.0, work)
    }

    fn has_sockets(&self) -> bool {
        // A runtime that was built without I/O says so by a panic alone.
        catch_unwind(UnixStream::pair).is_ok_and(|pair| pair.is_ok())
    }

    fn tokio(&self) -> Option<&Handle> {
        Some(&self.0)
    }
}
