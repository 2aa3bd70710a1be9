//! What a workload stands on: time, sleep, and the wire.
//!
//! Invariant: a workload sees no difference between the modes.
//! Called by: workloads, and whatever records events. Implemented by each mode.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::BoxFuture;
use leasehold::Client;
use leasehold_store::embedded::Frame;

use crate::plan::Plan;
use crate::recorder::Recorder;

/// A world, as those see it who live in it.
pub(crate) trait Ground: Send + Sync {
    /// The true time since the beginning.
    fn now(&self) -> Duration;

    /// Sleeps by the true time.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;

    /// Sends a command as a foreign client would, on the connection of this process number, and waits for the reply;
    /// `None` when none came: the command may have been executed.
    fn command(&self, process: usize, command: Vec<Vec<u8>>) -> BoxFuture<'static, Option<Frame>>;

    /// Whether futures of a process are to be dropped now.
    fn drops_futures(&self, process: usize) -> bool;
}

/// What one user of one process has.
#[derive(Clone)]
pub(crate) struct Env {
    /// Where it lives.
    pub(crate) ground: Arc<dyn Ground>,
    /// The plan.
    pub(crate) plan: Arc<Plan>,
    /// Where events go.
    pub(crate) recorder: Recorder,
    /// Its process.
    pub(crate) process: usize,
    /// Its own random numbers.
    pub(crate) rng: Rng,
    /// The client of its process; `None` for a foreign one.
    pub(crate) client: Option<Client>,
}

impl Env {
    /// The true time.
    #[must_use]
    pub(crate) fn now(&self) -> Duration {
        self.ground.now()
    }

    /// A random part of a span.
    pub(crate) fn some_of(&mut self, span: Duration) -> Duration {
        span.mul_f64(self.rng.f64())
    }

    /// Sleeps for a random part of a span.
    pub(crate) async fn nap(&mut self, most: Duration) {
        let span = self.some_of(most);
        self.ground.sleep(span).await;
    }
}
