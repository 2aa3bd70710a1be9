//! A client over a store that answers each call at once, on one thread.
//!
//! Invariant: no clock runs, and the calls and the driver take turns in a fixed order, so each run executes the same
//! instructions.

use std::cell::RefCell;
use std::future::{Future, pending, ready};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::Client;
use leasehold_proto::{Call, Channel, Moment, Reply, StoreError, Verb};
use leasehold_store::{Alarm, Heard, Runtime, Store, Subscription};
use tokio::sync::mpsc::UnboundedSender;

/// The pairs that run before the operation, so that the client and the allocator have their memory.
const WARM_UP_PAIRS: usize = 100;
/// The turns of the driver that a pair takes at most.
const TURNS_MAX: usize = 100;

pub(crate) struct Scene {
    client: Client,
}

impl Scene {
    pub(crate) fn new() -> Self {
        #[cfg(feature = "metrics")]
        install_recorder();
        let connecting = Client::builder().connect_over(&OneThread, "at once", async || Ok(AtOnce));
        let scene = Self { client: run(connecting).expect("the store is there") };
        (0..WARM_UP_PAIRS).for_each(|_| scene.pair("order:42"));
        scene
    }

    /// Acquires and releases a free lock.
    pub(crate) fn pair(&self, name: &str) {
        run(async {
            let guard = self.client.lock(name).lock().await.expect("the lock is free");
            guard.release().await.expect("the lock is held");
        });
    }
}

#[cfg(feature = "metrics")]
fn install_recorder() {
    use leasehold::observe::BUCKETS;
    use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in BUCKETS {
        let name = Matcher::Full((*name).to_owned());
        builder = builder.set_buckets_for_metric(name, buckets).expect("the buckets are not empty");
    }
    metrics::set_global_recorder(builder.build_recorder()).expect("the process has no other recorder");
}

thread_local! {
    /// The driver of the client.
    static DRIVER: RefCell<Option<Pin<Box<dyn Future<Output = ()>>>>> = const { RefCell::new(None) };
}

/// Runs a future and the driver in turns.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..TURNS_MAX {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        DRIVER.with_borrow_mut(|driver| {
            let ended = driver.as_mut().is_some_and(|driver| driver.as_mut().poll(&mut cx).is_ready());
            assert!(!ended, "the client lives");
        });
    }
    panic!("no output after {TURNS_MAX} turns")
}

/// A runtime on the thread of the caller, whose clock stands still.
#[derive(Clone)]
struct OneThread;

impl Runtime for OneThread {
    type Alarm = NoAlarm;

    fn now(&self) -> Moment {
        Moment::from_millis(1_000_000)
    }

    fn random(&self) -> [u8; 16] {
        [7; 16]
    }

    fn start<M, D>(&self, driver: M) -> io::Result<()>
    where
        M: FnOnce() -> D + Send + 'static,
        D: Future<Output = ()> + 'static,
    {
        DRIVER.set(Some(Box::pin(async move { driver().await })));
        Ok(())
    }

    fn alarm(&self) -> io::Result<NoAlarm> {
        Ok(NoAlarm)
    }
}

struct NoAlarm;

impl Alarm for NoAlarm {
    fn wait_until(&mut self, _: Moment) -> impl Future<Output = ()> {
        pending()
    }
}

/// A store on which every lock is free.
struct AtOnce;

impl Store for AtOnce {
    fn run(
        &self,
        call: Call,
        _: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
        ready(Ok(if call.verb() == Verb::Acquire { Reply::Nil } else { Reply::Int(1) }))
    }

    fn subscribe(&self, _: Channel, _: UnboundedSender<Heard>) -> Subscription {
        Subscription::new(|| ())
    }
}
