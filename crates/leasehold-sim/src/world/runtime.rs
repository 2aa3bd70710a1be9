//! Time and random numbers of one process, for its leasehold client.
//!
//! Invariant: the client's clock is the clock of its process, which runs at its own rate. Its random bytes come from the
//! seed.

use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::select;
use leasehold_proto::Moment;
use leasehold_store::{Alarm, Runtime};
use tokio::sync::Notify;

use super::executor::{Home, spawn};
use super::timeline::Timeline;
use crate::clock::Clock;

/// The runtime of a process.
#[derive(Clone)]
pub(crate) struct SimRuntime {
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) clock: Clock,
    pub(crate) process: usize,
    pub(crate) rng: Arc<Mutex<Rng>>,
    /// Notified when the clock jumps, since the kernel re-examines its timers then.
    pub(crate) jumped: Arc<Notify>,
}

impl Runtime for SimRuntime {
    type Alarm = SimAlarm;

    fn now(&self) -> Moment {
        Moment::default() + self.clock.reading(self.timeline.now())
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes);
        bytes
    }

    fn start<M, D>(&self, driver: M) -> io::Result<()>
    where
        M: FnOnce() -> D + Send + 'static,
        D: Future<Output = ()> + 'static,
    {
        spawn(Home::Driver(self.process), driver());
        Ok(())
    }

    fn alarm(&self) -> io::Result<SimAlarm> {
        Ok(SimAlarm { runtime: self.clone(), set: None })
    }
}

/// A timer on the process's clock.
pub(crate) struct SimAlarm {
    runtime: SimRuntime,
    /// The current sleep. A sleep that wakes earlier serves a later deadline too.
    set: Option<(Duration, super::timeline::Sleep)>,
}

impl Alarm for SimAlarm {
    async fn wait_until(&mut self, at: Moment) {
        if at == Moment::NEVER {
            pending::<()>().await;
        }
        while self.runtime.now() < at {
            let SimRuntime { timeline, clock, jumped, .. } = &self.runtime;
            let truth = clock.truth_of(Duration::from_nanos(at.as_nanos()));
            if !self.set.as_ref().is_some_and(|(wakes, _)| *wakes <= truth && *wakes > timeline.now()) {
                self.set = Some((truth, timeline.sleep_until(truth)));
            }
            if let Some((_, sleep)) = &mut self.set {
                select(sleep, pin!(jumped.notified())).await;
            }
        }
    }
}
