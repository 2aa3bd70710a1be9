//! Interleavings of the threads of a store: callers, its own task, and the task on its callers' runtime.
//!
//! Invariant: the store is the real one, with its wire and its driver. Only the lock, the clock, the threads and the
//! streams are replaced. `cargo x interleave` runs them.
//!
//! # How it works
//! [`shuttle`] stops each thread wherever it takes or gives the lock of the link, and goes on with another. A stream ends
//! in a session of the embedded server, which answers a request within the write that completes it, so the answer waits
//! for a reader. No time passes unless a scenario lets it, so a wake-up that is lost leaves a thread that waits forever,
//! which shuttle reports as a deadlock.
//!
//! # Defects that it finds
//! Each row is a line that was broken on purpose, with the first schedule that failed:
//!
//! | defect | found in schedule |
//! |---|---|
//! | connections come back without waking the own task | 21, by priority |
//! | connections are lent without waking the borrower | 1 |
//! | the own task sleeps although it was woken while it looked | 5 |
//! | a callers' runtime that ends keeps the connections | 21, by priority |

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex as Cell, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{AbortHandle, BoxFuture, abortable};
use leasehold_proto::{Call, Moment, Reply, Script, StoreError, StoreErrorKind, Verb};
use leasehold_testkit::interleavings::{self, SEED, at_once};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{ConnectOptions, Dial, Executor, Redis, Runtimes, Socket, Task};
use crate::embedded::{Server, Session};
use crate::sharding::ShardedPubsub;
use crate::store::Store;
use crate::url::{Address, ServerUrl};

static ECHO: Script = Script::new(
    Verb::Acquire,
    "-- KEYS[1] key string any\n-- ARGV[1] value string any\nreturn tonumber(ARGV[1])",
);

/// The number of schedules of each kind, unless `LEASEHOLD_SCHEDULES` is set.
const SCHEDULES: usize = 3_000;
/// A timeout that no scenario reaches.
const LONG: Duration = Duration::from_secs(3600);
/// More than the time for which a runtime may leave bytes unread.
const LATE: Duration = Duration::from_millis(21);
/// More than the time for which a runtime that was late carries nothing.
const RESTED: Duration = Duration::from_millis(1_001);

/// A server, the threads of its clients, and the clock.
#[derive(Clone, Default)]
struct World(Arc<Cell<State>>);

#[derive(Default)]
struct State {
    now: Moment,
    /// The pauses under way: their ends and their wakers.
    pauses: Vec<(Moment, Waker)>,
    threads: Vec<JoinHandle<()>>,
    /// The ends of the tasks: of a store's own, and of that on its callers' runtime.
    ends: Vec<AbortHandle>,
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a store whose command connections another runtime carries while it is in time.
    fn store(&self) -> Redis {
        let url = ServerUrl::parse("redis://nowhere.invalid").unwrap();
        let options = ConnectOptions::default().timeout(LONG).sharded_pubsub(ShardedPubsub::Off);
        let runtime = || Arc::new(self.clone()) as Arc<dyn Executor>;
        let runtimes = Runtimes { own: runtime(), callers: Some(runtime()) };
        Redis::lazy_on(&url, options.batch_rows(1), Arc::new(self.clone()), runtimes)
    }

    /// Lets time pass, as far as the pauses that then end.
    fn pass(&self, span: Duration) {
        yield_point();
        let due: Vec<Waker> = {
            let mut state = self.state();
            state.now = state.now + span;
            let now = state.now;
            state.pauses.extract_if(.., |(at, _)| *at <= now).map(|(_, waker)| waker).collect()
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// Waits until every thread of the stores has ended.
    fn join(&self) {
        let threads = std::mem::take(&mut self.state().threads);
        for thread in threads {
            thread.join().expect("a thread of a store ends without a panic");
        }
    }
}

/// A point at which the scheduler may switch threads.
fn yield_point() {
    shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
}

impl Executor for World {
    fn now(&self) -> Moment {
        self.state().now
    }

    fn pause_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        let world = self.clone();
        poll_fn(move |cx| {
            let mut state = world.state();
            if state.now >= at {
                return Poll::Ready(());
            }
            state.pauses.push((at, cx.waker().clone()));
            Poll::Pending
        })
        .boxed()
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) -> Task {
        let (work, handle) = abortable(work);
        let thread = thread::spawn(move || _ = block_on(work));
        let mut state = self.state();
        state.threads.push(thread);
        state.ends.push(handle.clone());
        Task::new(move || handle.abort())
    }
}

impl Dial for World {
    fn dial<'a>(&'a self, _: &'a Address, _: Duration) -> BoxFuture<'a, io::Result<Socket>> {
        let world = self.clone();
        let server =
            Arc::new(Server::new(move || u64::try_from(world.now().as_nanos() / 1_000_000).unwrap()));
        let stream = Stream { session: Session::new(server, ()), unread: Vec::new(), reader: None };
        async { Ok(Socket::new(stream)) }.boxed()
    }

    fn seed(&self) -> u64 {
        SEED
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

/// A client's end of a stream, with the server behind it.
struct Stream {
    session: Session<()>,
    unread: Vec<u8>,
    reader: Option<Waker>,
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.unread.len().min(buffer.remaining());
        if length == 0 {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        buffer.put_slice(&self.unread[..length]);
        self.unread.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.session.feed(bytes);
        while self.session.handle_next() {}
        while let Some(output) = self.session.next_output() {
            self.unread.extend(output);
        }
        if let Some(reader) = self.reader.take().filter(|_| !self.unread.is_empty()) {
            reader.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Runs a call.
fn echo(store: &Redis, value: i64) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
    store.run(Call::of(&ECHO).key("key", "k").arg("value", value.to_string()), LONG)
}

/// Runs two calls one after the other, and checks that each gets its own reply.
fn two_calls(store: &Redis, value: i64) {
    for value in [value, value + 1] {
        assert_eq!(block_on(echo(store, value)), Ok(Reply::Int(value)));
    }
}

/// Returns callers that run two calls each.
fn callers(store: &Arc<Redis>, count: i64) -> Vec<Box<dyn FnOnce() + Send>> {
    let caller = |number| -> Box<dyn FnOnce() + Send> {
        let store = Arc::clone(store);
        Box::new(move || two_calls(&store, number * 10))
    };
    (1..=count).map(caller).collect()
}

fn explore(scenario: fn()) {
    interleavings::explore(SCHEDULES, scenario);
}

#[test]
fn every_caller_gets_its_own_replies() {
    explore(|| {
        let world = World::default();
        let store = Arc::new(world.store());
        at_once(callers(&store, 3));
        drop(store);
        world.join();
    });
}

#[test]
fn calls_end_while_the_callers_runtime_comes_late_and_back() {
    explore(|| {
        let world = World::default();
        let store = Arc::new(world.store());
        let clock = world.clone();
        let mut all = callers(&store, 2);
        all.push(Box::new(move || [LATE, LATE, RESTED, LATE].into_iter().for_each(|span| clock.pass(span))));
        at_once(all);
        drop(store);
        world.join();
    });
}

#[test]
fn calls_end_when_the_callers_runtime_ends() {
    explore(|| {
        let world = World::default();
        let store = Arc::new(world.store());
        let runtime = world.state().ends[1].clone();
        let mut all = callers(&store, 2);
        all.push(Box::new(move || {
            (0..thread_rng().gen_range(0..9)).for_each(|_| yield_point());
            runtime.abort();
        }));
        at_once(all);
        drop(store);
        world.join();
    });
}

#[test]
fn a_dropped_call_leaves_the_replies_of_the_others_alone() {
    explore(|| {
        let world = World::default();
        let store = Arc::new(world.store());
        let impatient = Arc::clone(&store);
        let mut all = callers(&store, 2);
        all.push(Box::new(move || {
            for value in 90..93 {
                let mut call = pin!(echo(&impatient, value));
                block_on(poll_fn(|cx| Poll::Ready(drop(call.as_mut().poll(cx)))));
            }
        }));
        at_once(all);
        drop(store);
        world.join();
    });
}

#[test]
fn every_call_ends_when_the_store_closes() {
    explore(|| {
        let world = World::default();
        let store = Arc::new(world.store());
        let caller = |value| -> Box<dyn FnOnce() + Send> {
            let call = echo(&store, value);
            Box::new(move || match block_on(call) {
                Ok(reply) => assert_eq!(reply, Reply::Int(value)),
                // The connection under a call that was sent is reset.
                Err(error) => {
                    let ends = [StoreErrorKind::Closed, StoreErrorKind::ConnectionLost];
                    assert!(ends.contains(&error.kind), "{error:?}");
                }
            })
        };
        let mut all: Vec<_> = (1..=2).map(caller).collect();
        all.push(Box::new(move || drop(store)));
        at_once(all);
        world.join();
    });
}
