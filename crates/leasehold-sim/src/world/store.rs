//! The real store of a process: its wire and its driver, over the simulated network and on simulated runtimes.
//!
//! Invariant: the store takes its time, its tasks and its sockets from the world, and is otherwise that of production.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, abortable};
use leasehold_proto::{Moment, StoreError};
use leasehold_store::redis::{ConnectOptions, Executor, Redis, Runtimes, Task};
use leasehold_store::url::ServerUrl;
use leasehold_store::{Confirmation, ShardedPubsub};

use super::executor::{Home, spawn};
use super::net::Net;
use super::socket::SimDialer;
use super::timeline::Timeline;

/// The servers that a process can reach, and how it does.
#[derive(Clone)]
pub(super) struct Reach {
    /// The network of each server, in the order of their numbers.
    pub(super) nets: Arc<[Net]>,
    pub(super) url: String,
    /// The channels, if a setting decides.
    pub(super) channels: ShardedPubsub,
    pub(super) confirmation: Confirmation,
}

impl Reach {
    /// Returns the reach of one server.
    pub(super) fn one(net: &Net) -> Self {
        let (nets, url) = (Arc::new([net.clone()]), "redis://n0".to_owned());
        Self { nets, url, channels: ShardedPubsub::Auto, confirmation: Confirmation::default() }
    }

    /// Returns a store of a process that connects with its first call.
    pub(super) fn lazy(&self, process: usize, rng: Rng) -> Redis {
        let plan = &self.nets[0].plan;
        let terms = plan.wire;
        let options = ConnectOptions::default()
            .timeout(plan.timeout)
            .sharded_pubsub(self.channels)
            .confirmation(self.confirmation)
            .resp3(terms.client_has_resp3)
            .batch_rows(terms.batch_rows)
            .at_once(terms.at_once);
        let url = ServerUrl::parse(&self.url).expect("the world's URL is one");
        let dialer = SimDialer { nets: Arc::clone(&self.nets), process, rng: Mutex::new(rng) };
        let runtime = |home| {
            let timeline = Arc::clone(&self.nets[0].timeline);
            Arc::new(SimExecutor { timeline, home }) as Arc<dyn Executor>
        };
        let callers = terms.lends.then(|| runtime(Home::Callers(process)));
        let runtimes = Runtimes { own: runtime(Home::Driver(process)), callers };
        Redis::lazy_on(&url, options, Arc::new(dialer), runtimes)
    }

    /// Connects, and returns the store if the first attempt succeeds.
    pub(super) async fn connect(&self, process: usize, rng: Rng) -> Result<Redis, StoreError> {
        let store = self.lazy(process, rng);
        store.open().await?;
        Ok(store)
    }
}

/// A runtime of a process for the tasks of its store.
struct SimExecutor {
    timeline: Arc<Timeline>,
    home: Home,
}

impl Executor for SimExecutor {
    fn now(&self) -> Moment {
        Moment::default() + self.timeline.now()
    }

    fn pause_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        self.timeline.sleep_until(Duration::from_nanos(at.as_nanos())).boxed()
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) -> Task {
        let (work, handle) = abortable(work);
        spawn(self.home, work.map(drop));
        Task::new(move || handle.abort())
    }
}

impl fmt::Debug for SimExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimExecutor({:?})", self.home)
    }
}
