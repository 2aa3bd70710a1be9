//! The runtime of the callers, which reads the replies to their calls, and does not have to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Instant;

use leasehold::Client;
use leasehold_testkit::servers::RedisServer;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::support::{SOON, connect, connect_with, eventually, ms, scripts_run, soon};

/// A runtime that runs only as long as something blocks on it.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A waker that notes the thread that wakes.
struct Noting {
    waker: Waker,
    woken_on: Arc<Mutex<Vec<ThreadId>>>,
}

impl Wake for Noting {
    fn wake(self: Arc<Self>) {
        self.woken_on.lock().unwrap().push(thread::current().id());
        self.waker.wake_by_ref();
    }
}

/// Acquires and releases a lock, and returns the threads that woke the caller meanwhile.
async fn pair(client: &Client) -> Vec<ThreadId> {
    let woken_on = Arc::default();
    let lock = client.lock("job");
    let mut pair = Box::pin(async move { lock.lock().await.unwrap().release().await.unwrap() });
    std::future::poll_fn(|cx| {
        let noting = Noting { waker: cx.waker().clone(), woken_on: Arc::clone(&woken_on) };
        pair.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(noting))))
    })
    .await;
    woken_on.lock().unwrap().clone()
}

/// Acquires and releases until the runtime reads the replies.
async fn warm_up(client: &Client) {
    let begin = Instant::now();
    let here = thread::current().id();
    while !pair(client).await.iter().all(|thread| *thread == here) {
        assert!(begin.elapsed() < SOON, "the runtime of the callers never carries the connection");
    }
}

/// Connects a client whose connection this runtime carries. No timeout of a call helps it.
async fn carried(server: &RedisServer) -> Client {
    let client = connect_with(Client::builder().timeout(10 * SOON), &server.url()).await;
    warm_up(&client).await;
    client
}

#[test]
fn a_reply_wakes_its_caller_on_the_thread_of_the_caller() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let client = connect(&server).await;
        warm_up(&client).await;
        client.close().await;
    });
}

#[test]
fn a_runtime_that_stands_still_delays_no_caller_of_another_runtime() {
    let server = RedisServer::start();
    let (still, other) = (runtime(), runtime());
    let client = still.block_on(carried(&server));
    let longest = other.block_on(async {
        let mut longest = ms(0);
        for _ in 0..100 {
            let begin = Instant::now();
            soon("a pair", pair(&client)).await;
            longest = longest.max(begin.elapsed());
        }
        longest
    });
    println!("the longest of 100 pairs beside a runtime that stands still: {longest:?}");
    // The runtime that runs again carries the connection again.
    still.block_on(warm_up(&client));
    other.block_on(client.close());
}

#[test]
fn a_task_that_blocks_its_runtime_delays_no_caller_who_left_a_request_there() {
    const CROWD: u64 = 8;
    const ROUNDS: u64 = 20;
    let server = RedisServer::start();
    let (still, other) = (runtime(), runtime());
    let client = still.block_on(carried(&server));
    let (tell_blocked, blocked) = channel();
    let (tell_done, done) = channel::<()>();
    let done = Arc::new(Mutex::new(done));
    let outside = client.clone();
    let outside = thread::spawn(move || {
        other.block_on(async {
            let mut took = Vec::new();
            while blocked.recv().is_ok() {
                let begin = Instant::now();
                soon("a pair beside a blocked runtime", pair(&outside)).await;
                took.push(begin.elapsed());
                tell_done.send(()).unwrap();
            }
            println!("the longest of {ROUNDS} pairs beside a task that blocks: {:?}", took.iter().max());
            // The grants that nobody claims meanwhile are given back after five seconds, and that helps everybody.
            let are_late = took.iter().filter(|took| **took > ms(1_000)).count();
            assert!(are_late <= 2, "nobody looks after the requests: {took:?}");
        });
    });
    for _ in 0..ROUNDS {
        still.block_on(warm_up(&client));
        // The server answers all at once, and the thread that reads the answers runs these tasks before its next turn.
        server.freeze();
        let is_blocked = Arc::new(AtomicBool::new(false));
        still.block_on(async {
            let crowd = (0..CROWD).map(|task| {
                let lock = client.lock(format!("crowd:{task}"));
                let (is_blocked, tell_blocked) = (Arc::clone(&is_blocked), tell_blocked.clone());
                let done = Arc::clone(&done);
                tokio::spawn(async move {
                    let guard = lock.lock().await.unwrap();
                    if !is_blocked.swap(true, Ordering::Relaxed) {
                        tell_blocked.send(()).unwrap();
                        done.lock().unwrap().recv_timeout(SOON).expect("the other runtime goes on");
                    }
                    guard.release().await.unwrap();
                })
            });
            let crowd: Vec<_> = crowd.collect();
            yield_now().await;
            server.thaw();
            for task in crowd {
                soon("a task of the crowd", task).await.unwrap();
            }
        });
    }
    drop(tell_blocked);
    still.block_on(client.close());
    outside.join().unwrap();
}

#[test]
fn a_hold_is_renewed_while_the_runtime_stands_still() {
    let server = RedisServer::start();
    let still = runtime();
    let (client, guard) = still.block_on(async {
        let client = connect_with(Client::builder().watchdog(ms(900)), &server.url()).await;
        warm_up(&client).await;
        let guard = client.lock("job").lock().await.unwrap();
        (client, guard)
    });
    let before = scripts_run(&server);
    runtime().block_on(eventually("ten renewals", || scripts_run(&server) >= before + 10));
    assert!(guard.is_held());
    still.block_on(async {
        guard.release().await.unwrap();
        client.close().await;
    });
}

#[test]
fn the_connection_outlives_the_runtime() {
    let server = RedisServer::start();
    let connections = || {
        let stats = server.cli(&["INFO", "stats"]);
        let line = stats.lines().find_map(|line| line.trim().strip_prefix("total_connections_received:"));
        line.unwrap().parse::<u64>().unwrap()
    };
    let first = runtime();
    let (client, guard) = first.block_on(async {
        let client = connect(&server).await;
        warm_up(&client).await;
        let guard = client.lock("held").lock().await.unwrap();
        (client, guard)
    });
    let before = connections();
    drop(first);
    runtime().block_on(async {
        for _ in 0..10 {
            soon("a pair", pair(&client)).await;
        }
        assert!(guard.is_held());
        guard.release().await.unwrap();
        // The question itself is a connection.
        assert_eq!(connections(), before + 1, "the client has connected again");
        client.close().await;
    });
}

#[test]
fn calls_in_flight_outlive_the_runtime() {
    let server = RedisServer::start();
    let first = runtime();
    let client = first.block_on(async {
        let client = connect(&server).await;
        warm_up(&client).await;
        client
    });
    server.freeze();
    let lock = client.lock("job");
    // One attempt, which fails if its outcome is unknown.
    let mut acquire = Box::pin(lock.try_lock());
    first.block_on(std::future::poll_fn(|cx| {
        assert!(acquire.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    }));
    drop(first);
    server.thaw();
    runtime().block_on(async {
        let guard = soon("the acquire", acquire).await.unwrap().unwrap();
        guard.release().await.unwrap();
        client.close().await;
    });
}

#[test]
fn a_runtime_without_io_carries_nothing() {
    let server = RedisServer::start();
    let bare = Builder::new_current_thread().enable_time().build().unwrap();
    bare.block_on(async {
        let client = connect(&server).await;
        for _ in 0..10 {
            soon("a pair", pair(&client)).await;
        }
        client.close().await;
    });
}

#[test]
fn runtimes_that_end_under_load_disturb_no_call() {
    const ROUNDS: u64 = 20;
    const PAIRS: usize = 200;
    let server = RedisServer::start();
    let lasting = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for round in 0..ROUNDS {
        let ending = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = ending.block_on(connect(&server));
        let pairs = (0..8).map(|task| {
            let lock = client.lock(format!("{round}:{task}"));
            lasting.spawn(async move {
                for _ in 0..PAIRS {
                    lock.lock().await.unwrap().release().await.unwrap();
                }
            })
        });
        let pairs: Vec<_> = pairs.collect();
        // The runtime ends at a different place of the load in each round.
        ending.block_on(async {
            for _ in 0..round * 10 {
                pair(&client).await;
            }
        });
        if round % 2 == 0 {
            ending.shutdown_background();
        } else {
            drop(ending);
        }
        lasting.block_on(async {
            for pairs in pairs {
                soon("the pairs", pairs).await.unwrap();
            }
            client.close().await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_the_program_holds_and_moves_is_not_that_of_the_client() {
    let server = RedisServer::start();
    let builder = Client::builder().timeout(ms(1_000)).watchdog(ms(3_000));
    let client = builder.connect(&server.url()).await.unwrap();
    let guard = client.lock("kept").lock().await.unwrap();
    for hour in 0..50 {
        tokio::time::advance(SOON * 100).await;
        let outcome = client.lock("job").lock().await;
        let inner = outcome.unwrap_or_else(|error| panic!("hour {hour}: {error}"));
        inner.release().await.unwrap();
        assert!(guard.is_held(), "hour {hour}");
    }
    guard.release().await.unwrap();
}
