//! The environment of the full mode.
//!
//! Invariant: every host gets the time of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use leasehold_store::embedded::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::cuts::Cuts;
use super::net::Dialer;
use super::parse::reply;
use super::process::{Process, Truth};
use super::runtime::{pause, within};
use crate::environment::Environment;

/// The environment of all processes.
pub(super) struct FullEnvironment {
    pub(super) truth: Truth,
    pub(super) cuts: Cuts,
    /// The time that a foreign client waits for a reply.
    pub(super) timeout: Duration,
    /// The current instance of each process.
    pub(super) processes: Mutex<BTreeMap<usize, Arc<Process>>>,
    /// The processes whose futures are dropped.
    pub(super) dropping: Mutex<BTreeSet<usize>>,
}

impl FullEnvironment {
    pub(super) fn process(&self, number: usize) -> Arc<Process> {
        Arc::clone(&self.processes.lock().unwrap_or_else(PoisonError::into_inner)[&number])
    }

    pub(super) fn set_process(&self, process: Arc<Process>) {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).insert(process.number, process);
    }
}

impl Environment for FullEnvironment {
    fn now(&self) -> Duration {
        self.truth.now()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        pause(span).boxed()
    }

    /// Uses a new connection, which is closed at the timeout.
    fn command(&self, process: usize, command: Vec<Vec<u8>>) -> BoxFuture<'static, Option<Frame>> {
        let (process, timeout) = (self.process(process), self.timeout);
        async move { within(timeout, request(process, command)).await.flatten() }.boxed()
    }

    fn drops_futures(&self, process: usize) -> bool {
        self.dropping.lock().unwrap_or_else(PoisonError::into_inner).contains(&process)
    }
}

async fn request(process: Arc<Process>, command: Vec<Vec<u8>>) -> Option<Frame> {
    let command = Frame::Array(command.into_iter().map(Frame::Bulk).collect());
    let mut stream = Dialer(process).dial_server().await.ok()?;
    stream.write_all(&command.encode()).await.ok()?;
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await.ok()? > 0 {
        if let Some((frame, _)) = reply(&bytes).ok()? {
            return Some(frame);
        }
    }
    None
}
