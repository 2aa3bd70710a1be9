//! Tests of the command connection over a server of the test, on a clock that jumps to the next timer.

use std::future::poll_fn;
use std::io;
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, join_all, select};
use leasehold_proto::{Scope, Script, engine};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::super::channels::PROBE;
use super::super::socket::Socket;
use super::super::wire::IN_FLIGHT_MAX;
use super::*;
use crate::sharding::ShardedPubsub;
use crate::tokio_runtime::{clock, current, pause, pause_until, spawn_on};
use crate::url::Address;

static SET: Script = Script::new(
    Verb::Acquire,
    "-- KEYS[1] key string any\n-- ARGV[1] value string any\nredis.call('set', KEYS[1], ARGV[1])",
);

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(100);

/// A server that counts its connections and records the calls that reach it.
#[derive(Debug, Default)]
struct World {
    is_up: AtomicBool,
    dialled: AtomicUsize,
    /// The last argument of each call, in the order of arrival.
    ran: Mutex<Vec<String>>,
    /// The commands of these calls.
    by: Mutex<Vec<String>>,
    /// True if the server hangs up at the next call.
    hangs_up: AtomicBool,
    /// The answer to a call. All other commands receive the answer of a Redis.
    answer: Mutex<&'static str>,
    /// The time that each answer takes.
    pace: Mutex<Duration>,
    /// The permits for greetings. Without a semaphore every connection is greeted.
    greets: Option<Semaphore>,
    tasks: Mutex<Vec<Task>>,
}

#[derive(Debug)]
struct Dialer(Arc<World>);

impl Dial for Dialer {
    fn dial<'a>(&'a self, _: &'a Address, _: Duration) -> BoxFuture<'a, io::Result<Socket>> {
        async {
            self.0.dialled.fetch_add(1, Ordering::Relaxed);
            if !self.0.is_up.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (here, there) = duplex(1 << 16);
            self.0.tasks.lock().unwrap().push(spawn_on(&current(), Arc::clone(&self.0).serve(there)));
            Ok(Socket::new(here))
        }
        .boxed()
    }

    fn seed(&self) -> u64 {
        7
    }
}

impl World {
    fn up() -> Arc<Self> {
        Arc::new(Self { is_up: true.into(), answer: Mutex::new("$-1\r\n"), ..Self::default() })
    }

    /// Returns a server that greets one connection per permit.
    fn slow() -> Arc<Self> {
        let greets = Some(Semaphore::new(0));
        Arc::new(Self { is_up: true.into(), answer: Mutex::new("$-1\r\n"), greets, ..Self::default() })
    }

    fn store(self: &Arc<Self>) -> Redis {
        let options = ConnectOptions::default().timeout(LONG).sharded_pubsub(ShardedPubsub::Off);
        let url = ServerUrl::parse("redis://nowhere.invalid").unwrap();
        // The server of these tests answers calls one by one.
        Redis::lazy_through(&url, options.batch_rows(1), Arc::new(Dialer(Arc::clone(self)))).unwrap()
    }

    async fn serve(self: Arc<Self>, client: DuplexStream) {
        let mut client = BufReader::new(client);
        while let Some(words) = read_command(&mut client).await {
            let Some(last) = words.last() else { return };
            let answer = if words[0] == b"PUBLISH" {
                ":0\r\n"
            } else if words[0] == b"HELLO" {
                "*0\r\n"
            } else if *last == PROBE.as_bytes() {
                ":1\r\n"
            } else if words.len() == 1 {
                if let Some(greets) = &self.greets {
                    greets.acquire().await.unwrap().forget();
                }
                "+PONG\r\n"
            } else {
                self.ran.lock().unwrap().push(String::from_utf8_lossy(last).into_owned());
                self.by.lock().unwrap().push(String::from_utf8_lossy(&words[0]).into_owned());
                if self.hangs_up.swap(false, Ordering::Relaxed) {
                    return;
                }
                let pace = *self.pace.lock().unwrap();
                pause(pace).await;
                *self.answer.lock().unwrap()
            };
            if client.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn dialled(&self) -> usize {
        self.dialled.load(Ordering::Relaxed)
    }

    fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

/// Reads a command, or returns `None` at the end of the stream.
async fn read_command(client: &mut BufReader<DuplexStream>) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    for _ in 0..read_length(client).await? {
        let length = read_length(client).await?;
        let mut word = vec![0; length + 2];
        client.read_exact(&mut word).await.ok()?;
        word.truncate(length);
        words.push(word);
    }
    Some(words)
}

/// Reads the header of an array or of a bulk string.
async fn read_length(client: &mut BufReader<DuplexStream>) -> Option<usize> {
    let mut header = String::new();
    client.read_line(&mut header).await.ok()?;
    header.get(1..)?.trim_end().parse().ok()
}

fn call(value: &str) -> Call {
    Call::of(&SET).key("key", "k").arg("value", value)
}

type Running = std::pin::Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send>>;

/// Polls a call once, before it has an answer.
async fn start(store: &Redis, value: &str, timeout: Duration) -> Running {
    let mut running: Running = Box::pin(store.run(call(value), timeout));
    let polled = poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await;
    assert!(polled.is_pending());
    running
}

#[track_caller]
fn assert_failed(outcome: Result<Reply, StoreError>, kind: StoreErrorKind, applied: Applied) {
    let error = outcome.expect_err("the call fails");
    assert_eq!((error.kind, error.applied), (kind, applied));
}

/// Calls again and again until the first success, as the engine does for each of its waiters.
async fn insist(store: &Redis) {
    loop {
        match store.run(call("v"), LONG).await {
            Ok(_) => return,
            Err(error) => assert_eq!((error.kind, error.applied), (StoreErrorKind::Unreachable, Applied::No)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_dialed_at_one_rate_for_any_number_of_calls() {
    for waiters in [1, 10, 300, 1000] {
        let world = World::up();
        world.is_up.store(false, Ordering::Relaxed);
        let store = world.store();
        let all = join_all((0..waiters).map(|_| insist(&store)));
        let mut all = pin!(all.fuse());
        let back = clock() + Duration::from_secs(10);
        match select(&mut all, pin!(pause_until(back))).await {
            Either::Left(_) => panic!("the server is down"),
            Either::Right(_) => world.is_up.store(true, Ordering::Relaxed),
        }
        // The pauses are 20, 40, 80, 160 and 320 ms, and then 500 ms each, or at least half of that.
        let dialed = world.dialled();
        assert!((24..=48).contains(&dialed), "{waiters} waiters, {dialed} attempts");
        all.await;
        assert_eq!(world.dialled(), dialed + 1);
        assert!(clock() <= back + Duration::from_millis(500), "found soon after it was back");
        assert_eq!(world.ran().len(), waiters);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_useful_replies_is_dialed_at_the_same_rate() {
    for (answer, kind) in [
        ("-READONLY You can't write against a read only replica.\r\n", StoreErrorKind::ReadOnly),
        ("HTTP/1.1 400 Bad Request\r\n", StoreErrorKind::Malformed),
    ] {
        let world = World::up();
        *world.answer.lock().unwrap() = answer;
        let store = world.store();
        let end = clock() + Duration::from_secs(10);
        while clock() < end {
            assert_eq!(store.run(call("v"), LONG).await.unwrap_err().kind, kind);
        }
        assert!((24..=48).contains(&world.dialled()), "{}", world.dialled());
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_useful_is_replaced_at_once() {
    let world = World::up();
    let store = world.store();
    let begin = clock();
    for round in 1..100 {
        store.run(call("v"), LONG).await.unwrap();
        *world.answer.lock().unwrap() = "-READONLY a failover\r\n";
        assert_failed(store.run(call("v"), LONG).await, StoreErrorKind::ReadOnly, Applied::No);
        *world.answer.lock().unwrap() = "$-1\r\n";
        assert_eq!(world.dialled(), round);
    }
    assert_eq!(clock(), begin);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_times_out_in_the_pause_reports_the_last_failed_attempt() {
    let world = World::up();
    world.is_up.store(false, Ordering::Relaxed);
    let store = world.store();
    for _ in 0..20 {
        assert_failed(store.run(call("v"), SHORT).await, StoreErrorKind::Unreachable, Applied::No);
    }
    // A little more than a second has passed, because the calls of the long pauses ended by their own timeouts.
    assert!(world.dialled() < 10, "{}", world.dialled());
    world.is_up.store(true, Ordering::Relaxed);
    store.run(call("v"), LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_reported_as_not_applied_is_never_sent() {
    let world = World::slow();
    let store = world.store();
    let late = start(&store, "late", SHORT).await;
    let patient = start(&store, "patient", LONG).await;
    let dropped = start(&store, "dropped", LONG).await;
    drop(dropped);
    assert_failed(late.await, StoreErrorKind::Timeout, Applied::No);
    world.greets.as_ref().unwrap().add_permits(1);
    patient.await.unwrap();
    store.run(call("last"), LONG).await.unwrap();
    assert_eq!(world.ran(), ["patient", "last"]);
}

/// A recipient of outcomes that no test reads.
struct Nowhere;

impl Outcomes for Nowhere {
    fn take(&self, _: Vec<(engine::CallId, Result<Reply, StoreError>)>) {}

    fn replaced(&self, _: Scope) {}
}

#[tokio::test(start_paused = true)]
async fn a_submitted_call_is_written_before_submit_returns() {
    let world = Arc::new(Kept::default());
    let url = ServerUrl::parse("redis://nowhere.invalid").unwrap();
    let options = ConnectOptions::default().sharded_pubsub(ShardedPubsub::Off);
    let store = Redis::connect_through(&url, options, Arc::clone(&world) as Arc<dyn Dial>).await.unwrap();
    let mut there = world.0.lock().unwrap().take().unwrap();
    let mut greeting = vec![0; 4096];
    assert_ne!(there.read(&mut greeting).await.unwrap(), 0);
    let outcomes: Arc<dyn Outcomes> = Arc::new(Nowhere);
    let entrance = store.entrance(Arc::downgrade(&outcomes)).unwrap();
    let id = engine::CallId::new(NonZeroU64::MIN);
    // The driver has no turn between the call and the look at the other end, and this thread has no runtime.
    std::thread::scope(|scope| scope.spawn(|| entrance.submit(id, call("lone"), LONG)).join().unwrap())
        .unwrap();
    let mut written = vec![0; 4096];
    let length = there.read(&mut written).now_or_never().expect("the call is there").unwrap();
    assert!(String::from_utf8_lossy(&written[..length]).contains("lone"));
}

/// A dialer that greets, and keeps the other end of its stream.
#[derive(Debug, Default)]
struct Kept(Mutex<Option<DuplexStream>>);

impl Dial for Kept {
    fn dial<'a>(&'a self, _: &'a Address, _: Duration) -> BoxFuture<'a, io::Result<Socket>> {
        async {
            let (here, mut there) = duplex(1 << 16);
            there.write_all(b"+PONG\r\n-ERR unknown command\r\n:0\r\n:1\r\n").await?;
            *self.0.lock().unwrap() = Some(there);
            Ok(Socket::new(here))
        }
        .boxed()
    }

    fn seed(&self) -> u64 {
        7
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_written_at_its_timeout_is_unknown() {
    let world = World::slow();
    *world.answer.lock().unwrap() = "";
    let store = world.store();
    let late = start(&store, "late", SHORT).await;
    world.greets.as_ref().unwrap().add_permits(1);
    // The connection opens and carries the call, and the caller does not poll the call in between. Then the call's time
    // ends.
    while world.ran().is_empty() {
        yield_now().await;
    }
    pause(SHORT).await;
    assert_failed(late.await, StoreErrorKind::Timeout, Applied::Unknown);
    assert_eq!(world.ran(), ["late"]);
    *world.answer.lock().unwrap() = "$-1\r\n";
    world.greets.as_ref().unwrap().add_permits(1);
    store.run(call("next"), LONG).await.unwrap();
    assert_eq!(world.dialled(), 2, "the connection of a call without an answer is cut");
}

#[tokio::test(start_paused = true)]
async fn an_unrequested_reply_is_not_used_for_the_next_call() {
    let world = World::up();
    let store = world.store();
    *world.answer.lock().unwrap() = "$-1\r\n:1\r\n";
    let _ = store.run(call("first"), LONG).await;
    *world.answer.lock().unwrap() = "$-1\r\n";
    // The connection with the surplus reply is gone, or this call finds out.
    match store.run(call("second"), LONG).await {
        Ok(reply) => assert_eq!(reply, Reply::Nil),
        Err(error) => {
            assert!(matches!(error.kind, StoreErrorKind::Malformed | StoreErrorKind::ConnectionLost));
        }
    }
    assert_eq!(store.run(call("third"), LONG).await, Ok(Reply::Nil));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_before_a_reply_leaves_its_calls_unknown() {
    let world = World::up();
    let store = world.store();
    store.run(call("first"), LONG).await.unwrap();
    *world.answer.lock().unwrap() = "";
    let earlier = start(&store, "earlier", LONG).await;
    while world.ran().len() < 2 {
        yield_now().await;
    }
    world.hangs_up.store(true, Ordering::Relaxed);
    let later = start(&store, "later", LONG).await;
    for running in [later, earlier] {
        assert_failed(running.await, StoreErrorKind::ConnectionLost, Applied::Unknown);
    }
    // The connection has carried calls, so the client reconnects, and sends nothing twice over the next one.
    while world.dialled() < 2 {
        yield_now().await;
    }
    assert_eq!(world.ran(), ["first", "earlier", "later"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_reply_ends_its_connection_and_the_calls_on_it() {
    let world = World::up();
    *world.answer.lock().unwrap() = "";
    let store = world.store();
    let hasty = start(&store, "hasty", SHORT).await;
    let patient = start(&store, "patient", LONG).await;
    assert_failed(hasty.await, StoreErrorKind::Timeout, Applied::Unknown);
    assert_failed(patient.await, StoreErrorKind::ConnectionLost, Applied::Unknown);
    *world.answer.lock().unwrap() = "$-1\r\n";
    store.run(call("next"), LONG).await.unwrap();
    assert_eq!((world.ran(), world.dialled()), (["hasty", "patient", "next"].map(String::from).to_vec(), 2));
}

#[tokio::test(start_paused = true)]
async fn a_script_is_sent_once_and_again_after_the_server_lost_it() {
    let world = World::up();
    let store = world.store();
    for _ in 0..3 {
        store.run(call("v"), LONG).await.unwrap();
    }
    *world.answer.lock().unwrap() = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    // A server that gives the same answer to the text does not get a third command.
    assert_failed(store.run(call("v"), LONG).await, StoreErrorKind::Server, Applied::No);
    assert_eq!(*world.by.lock().unwrap(), ["EVAL", "EVALSHA", "EVALSHA", "EVALSHA", "EVAL"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_store_refuses_pending_calls_and_ends_started_ones() {
    let world = World::up();
    *world.answer.lock().unwrap() = "";
    let store = world.store();
    let started = start(&store, "started", LONG).await;
    let late = store.run(call("late"), LONG);
    while world.ran().is_empty() {
        yield_now().await;
    }
    drop(store);
    assert_failed(started.await, StoreErrorKind::ConnectionLost, Applied::Unknown);
    assert_failed(late.await, StoreErrorKind::Closed, Applied::No);
    assert_eq!((world.ran().len(), world.dialled()), (1, 1));
}

/// The number of calls that are in flight and in the queue, in the tests of both.
const CROWD: usize = IN_FLIGHT_MAX + 100;

/// Runs a crowd of calls that are named by their numbers, and returns the outcomes in that order.
async fn run_crowd(store: &Redis, timeout: Duration) -> Vec<Result<Reply, StoreError>> {
    join_all((0..CROWD).map(|number| store.run(call(&number.to_string()), timeout))).await
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_without_room_on_the_connection_follow_in_order() {
    let world = World::up();
    *world.pace.lock().unwrap() = Duration::from_millis(1);
    let store = world.store();
    assert!(run_crowd(&store, LONG).await.iter().all(Result::is_ok));
    assert_eq!((world.ran(), world.dialled()), (numbers(CROWD), 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_room_within_its_timeout_has_not_run() {
    let world = World::up();
    *world.answer.lock().unwrap() = "";
    let store = world.store();
    let mut sent = Vec::new();
    for number in 0..IN_FLIGHT_MAX {
        sent.push(start(&store, &number.to_string(), LONG).await);
    }
    for unsent in join_all((0..100).map(|_| store.run(call("unsent"), SHORT))).await {
        assert_failed(unsent, StoreErrorKind::Timeout, Applied::No);
    }
    for outcome in join_all(sent).await {
        assert_eq!(outcome.map_err(|error| error.applied), Err(Applied::Unknown));
    }
    assert_eq!(world.ran(), numbers(IN_FLIGHT_MAX));
}

#[tokio::test(start_paused = true)]
async fn a_cut_connection_fails_the_calls_in_flight_and_the_queue_goes_on() {
    let world = World::up();
    let store = world.store();
    store.run(call("first"), LONG).await.unwrap();
    *world.pace.lock().unwrap() = Duration::from_millis(1);
    let mut crowd = pin!(run_crowd(&store, LONG).fuse());
    // The server has read the first call, and the driver has written as many as there is room for.
    let Either::Right(_) = select(&mut crowd, pin!(pause(Duration::from_micros(500)))).await else {
        panic!("the server answers later");
    };
    world.hangs_up.store(true, Ordering::Relaxed);
    let outcomes = crowd.await;
    assert!(outcomes[0].is_ok());
    let (in_flight, queued) = outcomes[1..].split_at(IN_FLIGHT_MAX);
    for outcome in in_flight {
        assert_failed(outcome.clone(), StoreErrorKind::ConnectionLost, Applied::Unknown);
    }
    assert!(queued.iter().all(Result::is_ok));
    let ran = world.ran();
    assert_eq!(ran[..3], ["first", "0", "1"], "the server hangs up at the third call");
    assert_eq!((&ran[3..], world.dialled()), (&numbers(CROWD)[IN_FLIGHT_MAX + 1..], 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_one_call_after_the_other_keeps_its_connection() {
    let world = World::up();
    let store = world.store();
    *world.pace.lock().unwrap() = SHORT / 20;
    // The last call of these is answered after one and a half timeouts.
    let calls = join_all((0..30).map(|number| store.run(call(&number.to_string()), SHORT)));
    assert!(calls.await.iter().all(Result::is_ok));
    assert_eq!((world.ran(), world.dialled()), (numbers(30), 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_within_two_timeouts_whatever_the_server_answers() {
    let world = World::up();
    let store = world.store();
    *world.pace.lock().unwrap() = SHORT / 20;
    let begun = clock();
    let outcomes = join_all((0..50).map(|number| store.run(call(&number.to_string()), SHORT))).await;
    // 39 answers have come by then, and the 40th at that time.
    assert!(outcomes[..39].iter().all(Result::is_ok));
    for outcome in &outcomes[40..] {
        let applied = outcome.as_ref().map_err(|error| error.applied);
        assert_eq!(applied, Err(Applied::Unknown));
    }
    let took = clock().since(begun);
    assert!((SHORT * 2..SHORT * 2 + Duration::from_millis(2)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_dropped_in_flight_make_room() {
    let world = World::up();
    *world.answer.lock().unwrap() = "";
    let store = world.store();
    let mut dropped = Vec::new();
    for _ in 0..IN_FLIGHT_MAX {
        dropped.push(start(&store, "dropped", LONG).await);
    }
    let waiting = start(&store, "waiting", LONG).await;
    while world.ran().len() < IN_FLIGHT_MAX {
        yield_now().await;
    }
    drop(dropped);
    while world.ran().len() == IN_FLIGHT_MAX {
        yield_now().await;
    }
    assert_eq!(world.ran().last().map(String::as_str), Some("waiting"));
    drop(waiting);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_room_waits_while_the_server_answers_others() {
    let world = World::up();
    let store = world.store();
    *world.pace.lock().unwrap() = Duration::from_millis(1);
    // Room for the last of these calls comes after more than one timeout.
    let (count, timeout) = (IN_FLIGHT_MAX + 1_300, Duration::from_secs(1));
    let outcomes = join_all((0..count).map(|number| store.run(call(&number.to_string()), timeout))).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!((world.ran(), world.dialled()), (numbers(count), 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_room_gives_up_after_one_and_a_half_timeouts() {
    let world = World::up();
    let store = world.store();
    *world.pace.lock().unwrap() = Duration::from_millis(1);
    let (count, timeout) = (IN_FLIGHT_MAX + 3_500, Duration::from_secs(2));
    let outcomes = join_all((0..count).map(|number| store.run(call(&number.to_string()), timeout))).await;
    let sent = world.ran().len();
    assert!((3_500..3_520).contains(&sent), "{sent}");
    let (answered, unsent) = outcomes.split_at(sent);
    assert!(answered.iter().all(Result::is_ok));
    for outcome in unsent {
        assert_failed(outcome.clone(), StoreErrorKind::Timeout, Applied::No);
    }
}
