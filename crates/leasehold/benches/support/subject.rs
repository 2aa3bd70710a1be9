//! The subjects of the benchmarks, and the one way to measure them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{Client, Lock, ReleaseOutcome};
use leasehold_testkit::servers::RedisServer;
use redis::aio::MultiplexedConnection;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinSet;

use super::bare::{self, BareLock};

/// The client code that runs a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// `lock.lock().await` and `guard.release().await`.
    Leasehold,
    /// The same two scripts on a connection that lives in the tasks' runtime.
    BareTwo,
    /// The same two scripts on a connection that lives on a thread of its own, as leasehold's does.
    BareTwoApart,
    /// The acquire script alone.
    BareOne,
    /// `PING` twice.
    BarePings,
}

/// All subjects, the library first.
pub(crate) const SUBJECTS: [Subject; 5] =
    [Subject::Leasehold, Subject::BareTwo, Subject::BareTwoApart, Subject::BareOne, Subject::BarePings];

impl Subject {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::BareTwo => "bare two trips",
            Self::BareTwoApart => "bare two trips, own thread",
            Self::BareOne => "bare one trip",
            Self::BarePings => "bare two pings",
        }
    }
}

/// A private server, and the connections of all subjects, which stay open all the time.
pub(crate) struct World {
    // Rust drops fields in this order: the server last.
    client: Client,
    near: MultiplexedConnection,
    apart: MultiplexedConnection,
    runtime: Runtime,
    pub(crate) server: RedisServer,
}

impl World {
    pub(crate) fn start() -> Self {
        let server = RedisServer::start();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let url = server.url();
        Self {
            client: runtime.block_on(Client::connect(&url)).unwrap(),
            // The connect runs in a task, so that the connection's own task lives on a worker too.
            near: runtime
                .block_on(runtime.spawn({
                    let url = url.clone();
                    async move { bare::connect(&url).await }
                }))
                .unwrap(),
            apart: connect_apart(url),
            runtime,
            server,
        }
    }

    /// Runs this number of tasks with this number of pairs each, all at once, and returns the time.
    pub(crate) fn run(&self, subject: Subject, tasks: u32, pairs: u64) -> Duration {
        let start = Arc::new(Barrier::new(tasks as usize));
        self.runtime.block_on(async {
            let mut set = JoinSet::new();
            for task in 0..tasks {
                let (mut worker, start) = (self.worker(subject, task), Arc::clone(&start));
                set.spawn(async move {
                    start.wait().await;
                    let started = Instant::now();
                    for _ in 0..pairs {
                        worker.pair().await;
                    }
                    (started, Instant::now())
                });
            }
            let spans = set.join_all().await;
            let first = spans.iter().map(|(started, _)| *started).min();
            let last = spans.iter().map(|(_, ended)| *ended).max();
            last.unwrap().duration_since(first.unwrap())
        })
    }

    fn worker(&self, subject: Subject, task: u32) -> Worker {
        let bare = |connection: &MultiplexedConnection, name: &str| {
            BareLock::new(connection.clone(), &format!("bench:{name}:{task}"), task)
        };
        match subject {
            Subject::Leasehold => Worker::Leasehold(self.client.lock(format!("bench:lock:{task}"))),
            Subject::BareTwo => Worker::Two(bare(&self.near, "near")),
            Subject::BareTwoApart => Worker::Two(bare(&self.apart, "away")),
            Subject::BareOne => Worker::One(bare(&self.near, "once")),
            Subject::BarePings => Worker::Pings(self.near.clone()),
        }
    }
}

/// A connection whose task runs on a thread of its own, until the process ends.
fn connect_apart(url: String) -> MultiplexedConnection {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // The send fails only if the main thread is gone.
            let _ = tell.send(bare::connect(&url).await);
            std::future::pending::<()>().await;
        });
    });
    told.blocking_recv().unwrap()
}

/// The client of one task.
enum Worker {
    Leasehold(Lock),
    Two(BareLock),
    One(BareLock),
    Pings(MultiplexedConnection),
}

impl Worker {
    async fn pair(&mut self) {
        match self {
            Self::Leasehold(lock) => {
                let guard = lock.lock().await.unwrap();
                assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
            }
            Self::Two(lock) => lock.acquire_and_release().await,
            Self::One(lock) => lock.acquire().await,
            Self::Pings(connection) => bare::ping_twice(connection).await,
        }
    }
}
