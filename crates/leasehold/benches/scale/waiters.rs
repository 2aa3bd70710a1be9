//! Many waiters of one client for one place.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::servers::RedisServer;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cost::Cost;
use crate::queue::{Queue, pause};

const MANY: u64 = 20_000;
const IDLE: u64 = 1_000;
/// The bound of each part of a scenario.
const BOUND: Duration = Duration::from_secs(60);
/// The time after a grant in which the scripts of the release before it are counted to the end.
const TRAIL: Duration = Duration::from_millis(200);
/// The time for which a rate is measured.
const WINDOW: Duration = Duration::from_secs(5);

/// The progress of waiters.
#[derive(Debug, Default)]
struct Progress {
    begun: AtomicU64,
    entered: AtomicU64,
    served: AtomicU64,
    /// The waiters that failed, by the last causes of their errors without the numbers in them.
    failed: Mutex<BTreeMap<String, u64>>,
}

impl Progress {
    fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    fn failed(&self) -> u64 {
        self.failed.lock().unwrap().values().sum()
    }

    /// Waits until a condition holds, for at most [`BOUND`], and returns the time that it took.
    async fn until(&self, holds: impl Fn(&Self) -> bool) -> Duration {
        let began = Instant::now();
        while !holds(self) && began.elapsed() < BOUND {
            pause(Duration::from_millis(1)).await;
        }
        began.elapsed()
    }
}

/// A server whose place a first client holds, and the waiters of a second client.
struct Crowd {
    server: RedisServer,
    progress: Arc<Progress>,
    /// Ends the hold of the first client.
    free: oneshot::Sender<()>,
    holder: JoinHandle<()>,
    waiters: Vec<JoinHandle<()>>,
    /// The time until every waiter had begun.
    begun_in: Duration,
}

impl Crowd {
    /// Lets this many tasks wait. A task that is served leaves at once, or else stays.
    async fn gather(queue: Queue, count: u64, leaves: bool) -> Self {
        let server = RedisServer::start();
        let url = server.url();
        let (first, second) = (Client::connect(&url).await.unwrap(), Client::connect(&url).await.unwrap());
        queue.prepare(&first).await;
        let (entered, is_held) = oneshot::channel();
        let (free, freed) = oneshot::channel::<()>();
        let holder = tokio::spawn(async move {
            let stay = async {
                entered.send(()).unwrap();
                freed.await.unwrap();
            };
            queue.section(&first, stay).await.unwrap();
        });
        is_held.await.unwrap();
        let (progress, began) = (Arc::<Progress>::default(), Instant::now());
        let waiter = |_| {
            let (second, progress) = (second.clone(), Arc::clone(&progress));
            tokio::spawn(async move {
                progress.begun.fetch_add(1, Ordering::Relaxed);
                let stay = async {
                    progress.entered.fetch_add(1, Ordering::Relaxed);
                    if !leaves {
                        pending::<()>().await;
                    }
                };
                match queue.section(&second, stay).await {
                    Ok(()) => _ = progress.served.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        let causes = std::iter::successors(error.source(), |&cause| cause.source());
                        let last = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
                        let kind = last.replace(|digit: char| digit.is_ascii_digit(), "");
                        *progress.failed.lock().unwrap().entry(kind).or_default() += 1;
                    }
                }
            })
        };
        let waiters = (0..count).map(waiter).collect();
        progress.until(|progress| progress.begun.load(Ordering::Relaxed) == count).await;
        Self { server, progress, free, holder, waiters, begun_in: began.elapsed() }
    }

    fn disperse(self) {
        self.waiters.iter().for_each(JoinHandle::abort);
        self.holder.abort();
    }
}

/// Measures how long many waiters take until each was served, when each leaves at once.
pub(crate) async fn drain() {
    for queue in [Queue::Lock, Queue::Fair, Queue::Fifo] {
        let crowd = Crowd::gather(queue, MANY, true).await;
        let Crowd { server, progress, free, holder, waiters, begun_in } = crowd;
        // Attempts of the waiters that are not served are part of the time before.
        pause(Duration::from_secs(2)).await;
        let before = Cost::now(&server);
        free.send(()).unwrap();
        let took = progress.until(|progress| progress.served() + progress.failed() == MANY).await;
        let cost = Cost::now(&server) - before;
        let (served, seconds) = (progress.served(), took.as_secs_f64());
        println!(
            "  {MANY} waiters of a {}: {served} served in {seconds:.1} s, {} failed {:?}; {:.2} commands per grant, \
             server {:.0} %, client {:.0} %; they began in {begun_in:.1?}",
            queue.name(),
            progress.failed(),
            progress.failed.lock().unwrap(),
            cost.commands as f64 / served.max(1) as f64,
            share(cost.server_cpu, took),
            share(cost.client_cpu, took),
        );
        waiters.iter().for_each(JoinHandle::abort);
        holder.abort();
    }
}

/// Measures the scripts of waiters that wait, and those after one release.
pub(crate) async fn idle() {
    for queue in [Queue::Lock, Queue::Fair, Queue::Fifo, Queue::Semaphore] {
        let mut crowd = Crowd::gather(queue, IDLE, false).await;
        pause(WINDOW).await;
        let before = Cost::now(&crowd.server);
        pause(WINDOW).await;
        let cost = Cost::now(&crowd.server) - before;
        let idle = cost.commands as f64 / WINDOW.as_secs_f64();
        println!(
            "  {IDLE} idle waiters of a {}: {idle:.1} scripts per second, server {:.1} %, client {:.1} %",
            queue.name(),
            share(cost.server_cpu, WINDOW),
            share(cost.client_cpu, WINDOW),
        );
        let before = Cost::now(&crowd.server);
        let (free, _) = oneshot::channel();
        std::mem::replace(&mut crowd.free, free).send(()).unwrap();
        let took = crowd.progress.until(|progress| progress.entered.load(Ordering::Relaxed) > 0).await;
        pause(TRAIL).await;
        let cost = Cost::now(&crowd.server) - before;
        println!(
            "    after one release: a waiter is served in {took:.1?}, {} scripts in {TRAIL:?}",
            cost.commands
        );
        crowd.disperse();
    }
}

/// Measures the commands of a place that several tasks want all the time.
pub(crate) async fn hot() {
    use Queue::{Asked, Expirable, Fair, Fifo, Lock, Semaphore};
    for queue in [Lock, Asked, Fair, Fifo, Semaphore, Expirable] {
        for (clients, tasks) in [(1, 8), (2, 4)] {
            let server = RedisServer::start();
            let progress = Arc::<Progress>::default();
            let mut running = Vec::new();
            for number in 0..clients {
                let client = Client::connect(&server.url()).await.unwrap();
                if number == 0 {
                    queue.prepare(&client).await;
                }
                for _ in 0..tasks {
                    let (client, progress) = (client.clone(), Arc::clone(&progress));
                    running.push(tokio::spawn(async move {
                        loop {
                            queue.section(&client, ready(())).await.unwrap();
                            progress.served.fetch_add(1, Ordering::Relaxed);
                        }
                    }));
                }
            }
            pause(Duration::from_millis(500)).await;
            let (before, served) = (Cost::now(&server), progress.served());
            pause(WINDOW).await;
            let (cost, served) = (Cost::now(&server) - before, progress.served() - served);
            println!(
                "  {} with {clients} clients of {tasks} tasks: {:.0} grants per second, {:.2} commands per grant, \
                 server {:.0} %, client {:.0} %",
                queue.name(),
                served as f64 / WINDOW.as_secs_f64(),
                cost.commands as f64 / served.max(1) as f64,
                share(cost.server_cpu, WINDOW),
                share(cost.client_cpu, WINDOW),
            );
            running.iter().for_each(JoinHandle::abort);
        }
    }
}

/// Returns processor time as a percentage of a time.
fn share(cpu_nanos: u64, of: Duration) -> f64 {
    cpu_nanos as f64 / of.as_nanos() as f64 * 100.0
}
