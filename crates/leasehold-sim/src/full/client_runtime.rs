//! Time and random numbers of one simulated process, for its client.
//!
//! Invariant: time is the simulation's, through the clock of the process.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Moment;
use leasehold_store::{Alarm, Runtime};

use super::process::Process;
use super::runtime::{pause, spawn};

/// The longest sleep between two readings of the clock, which may have jumped.
const NAP_MAX: Duration = Duration::from_millis(20);

/// The runtime of one process, on its host.
#[derive(Clone, Debug)]
pub(super) struct FullRuntime(pub(super) Arc<Process>);

/// A timer on the process's clock.
#[derive(Debug)]
pub(super) struct FullAlarm(Arc<Process>);

impl Runtime for FullRuntime {
    type Alarm = FullAlarm;

    fn now(&self) -> Moment {
        self.0.now()
    }

    fn random(&self) -> [u8; 16] {
        self.0.draw(|rng| rng.u128(..)).to_le_bytes()
    }

    /// Starts the driver as a task of its own on the host. The task is paused with its process.
    fn start<M, D>(&self, driver: M) -> io::Result<()>
    where
        M: FnOnce() -> D + Send + 'static,
        D: Future<Output = ()> + 'static,
    {
        spawn(self.0.running.around(async move { driver().await }));
        Ok(())
    }

    fn alarm(&self) -> io::Result<FullAlarm> {
        Ok(FullAlarm(Arc::clone(&self.0)))
    }
}

impl Alarm for FullAlarm {
    async fn wait_until(&mut self, at: Moment) {
        if at == Moment::NEVER {
            std::future::pending::<()>().await;
        }
        loop {
            let remaining = self.0.until(at);
            if remaining.is_zero() {
                return;
            }
            pause(remaining.min(NAP_MAX)).await;
        }
    }
}
