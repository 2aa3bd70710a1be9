//! What a workload may use of its world: time, sleep and the wire.
//!
//! Invariant: a workload sees the world only through its environment.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::BoxFuture;
use leasehold::Client;
use leasehold_store::embedded::Frame;

use crate::history::Event;
use crate::plan::Plan;
use crate::recorder::Recorder;

/// The environment of the users of a world.
pub(crate) trait Environment: Send + Sync {
    /// Returns the true time since the beginning.
    fn now(&self) -> Duration;

    /// Sleeps by the true time.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;

    /// Sends a command as a foreign client does, on the connection of this process number, and waits for the reply.
    /// Returns `None` if no reply came, although the command may have been executed.
    fn command(&self, process: usize, command: Vec<Vec<u8>>) -> BoxFuture<'static, Option<Frame>>;

    /// Returns true if the futures of a process are to be dropped now.
    fn drops_futures(&self, process: usize) -> bool;
}

/// The context of one user of one process.
#[derive(Clone)]
pub(crate) struct Env {
    /// The environment of the user.
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) plan: Arc<Plan>,
    /// The recorder of events.
    pub(crate) recorder: Recorder,
    /// The number of the user's process.
    pub(crate) process: usize,
    /// The random numbers of the user.
    pub(crate) rng: Rng,
    /// The client of the process, or `None` for a foreign client.
    pub(crate) client: Option<Client>,
}

impl Env {
    /// Returns the true time.
    #[must_use]
    pub(crate) fn now(&self) -> Duration {
        self.environment.now()
    }

    /// Records an event that happens now.
    pub(crate) fn record(&self, event: Event) {
        self.recorder.record(self.now(), event);
    }

    /// Returns a random part of a duration.
    pub(crate) fn some_of(&mut self, span: Duration) -> Duration {
        span.mul_f64(self.rng.f64())
    }

    /// Sleeps for a random part of a duration.
    pub(crate) async fn nap(&mut self, most: Duration) {
        let span = self.some_of(most);
        self.environment.sleep(span).await;
    }
}
