//! The embedded store: its name, its faults, its subscriptions.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use leasehold_proto::recipe::reentrant::SCRIPTS;
use leasehold_proto::{Applied, Call, Channel, Reply, StoreError, StoreErrorKind as Kind};
use leasehold_store::embedded::{Condition, Embedded, Frame, Server};
use leasehold_store::{Heard, Store};
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;

const LIMIT: Duration = Duration::from_secs(1);

fn store() -> Embedded {
    Embedded::new(|| 1_000)
}

fn acquire(lock: &str) -> Call {
    Call::of(SCRIPTS[0]).key("lock", lock).arg("lease_ms", 30_000).arg("owner", "u:1")
}

async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = future;
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[track_caller]
fn assert_failed(outcome: Result<Reply, StoreError>, kind: Kind, applied: Applied) {
    let error = outcome.expect_err("the call fails");
    assert_eq!((error.kind, error.applied), (kind, applied));
}

#[tokio::test]
async fn a_call_is_ready_at_its_first_poll() {
    let store = store();
    let mut call = pin!(store.run(acquire("k"), LIMIT));
    assert_eq!(store.execute(&["EXISTS", "k"]), Frame::Int(0));
    assert!(matches!(poll_once(call.as_mut()).await, Poll::Ready(Ok(Reply::Nil))));
    assert_eq!(store.execute(&["PTTL", "k"]), Frame::Int(30_000));
}

#[tokio::test]
async fn a_name_is_one_server_while_it_has_a_user() {
    let one = Embedded::named("orders", || 1);
    let two = Embedded::named("orders", || 1);
    let other = Embedded::named("stock", || 1);
    one.execute(&["SET", "k", "v"]);
    assert_eq!(two.execute(&["GET", "k"]), Frame::bulk("v"));
    assert_eq!(other.execute(&["GET", "k"]), Frame::Nil);
    drop((one, two));
    assert_eq!(Embedded::named("orders", || 1).execute(&["GET", "k"]), Frame::Nil);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_ends_with_the_timeout_and_the_call_has_run() {
    let store = store();
    store.lose_replies(true);
    #[expect(clippy::disallowed_methods, reason = "tokio's clock, which stands in this test")]
    let started = tokio::time::Instant::now();
    assert_failed(store.run(acquire("k"), LIMIT).await, Kind::Timeout, Applied::Unknown);
    assert!(started.elapsed() >= LIMIT);
    assert_eq!(store.execute(&["HLEN", "k"]), Frame::Int(1));
    store.lose_replies(false);
    assert_eq!(store.run(acquire("k"), LIMIT).await.unwrap(), Reply::Nil);
}

#[tokio::test]
async fn the_given_function_waits_for_the_timeout() {
    let rings = Arc::new(Notify::new());
    let waiting = Arc::clone(&rings);
    let store = store().waiting_with(move |span| {
        assert_eq!(span, LIMIT);
        let waiting = Arc::clone(&waiting);
        Box::pin(async move { waiting.notified().await })
    });
    store.lose_replies(true);
    let mut call = pin!(store.run(acquire("k"), LIMIT));
    assert!(poll_once(call.as_mut()).await.is_pending());
    rings.notify_one();
    assert_failed(call.await, Kind::Timeout, Applied::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connection_ends_its_calls_in_flight() {
    let store = store();
    store.lose_replies(true);
    let mut call = pin!(store.run(acquire("k"), LIMIT));
    assert!(poll_once(call.as_mut()).await.is_pending());
    store.drop_connection();
    assert_failed(call.await, Kind::ConnectionLost, Applied::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_ends_the_other_calls_of_its_connection() {
    let store = store();
    store.lose_replies(true);
    let mut long = pin!(store.run(acquire("long"), LIMIT * 10));
    assert!(poll_once(long.as_mut()).await.is_pending());
    assert_failed(store.run(acquire("short"), LIMIT).await, Kind::Timeout, Applied::Unknown);
    assert_failed(long.await, Kind::ConnectionLost, Applied::Unknown);
}

#[tokio::test]
async fn an_unreachable_server_executes_nothing_and_serves_other_clients() {
    let store = store();
    let other = store.another_client();
    store.set_reachable(false);
    assert_failed(store.run(acquire("k"), LIMIT).await, Kind::Unreachable, Applied::No);
    assert_eq!(store.execute(&["EXISTS", "k"]), Frame::Int(0));
    assert_eq!(other.run(acquire("k"), LIMIT).await.unwrap(), Reply::Nil);
    store.set_reachable(true);
    assert_eq!(store.run(acquire("k"), LIMIT).await.unwrap(), Reply::Nil);
}

#[tokio::test]
async fn a_subscription_is_restored_and_reports_it() {
    let store = store();
    let channel = Channel::new("c");
    let (sender, mut heard) = unbounded_channel();
    let subscription = store.subscribe(channel.clone(), sender);
    let listening = Heard::Listening(channel.clone());
    assert_eq!(heard.try_recv().as_ref(), Ok(&listening));
    store.drop_connection();
    assert_eq!(heard.try_recv().as_ref(), Ok(&listening));
    store.set_reachable(false);
    assert_eq!(store.execute(&["PUBLISH", "c", "lost"]), Frame::Int(0));
    store.set_reachable(true);
    assert_eq!(heard.try_recv().as_ref(), Ok(&listening));
    assert_eq!(store.execute(&["PUBLISH", "c", "heard"]), Frame::Int(1));
    assert_eq!(heard.try_recv(), Ok(Heard::Message(channel, b"heard".to_vec())));
    drop(subscription);
    assert_eq!(store.execute(&["PUBLISH", "c", "late"]), Frame::Int(0));
    assert!(heard.try_recv().is_err());
}

#[tokio::test]
async fn a_subscription_made_while_unreachable_starts_later() {
    let store = store();
    store.set_reachable(false);
    let (sender, mut heard) = unbounded_channel();
    let _subscription = store.subscribe(Channel::new("c"), sender);
    assert!(heard.try_recv().is_err());
    store.set_reachable(true);
    assert_eq!(heard.try_recv(), Ok(Heard::Listening(Channel::new("c"))));
}

#[tokio::test]
async fn a_dropped_client_stops_listening() {
    let store = store();
    let other = store.another_client();
    let (sender, _heard) = unbounded_channel();
    let subscription = store.subscribe(Channel::new("c"), sender);
    drop(store);
    assert_eq!(other.execute(&["PUBLISH", "c", "0"]), Frame::Int(0));
    drop(subscription);
}

#[tokio::test]
async fn every_condition_has_its_error_kind() {
    let store = store();
    let conditions = [
        (Condition::OutOfMemory, Kind::OutOfMemory),
        (Condition::ReadOnly, Kind::ReadOnly),
        (Condition::Busy, Kind::Busy),
        (Condition::Loading, Kind::Loading),
        (Condition::MasterDown, Kind::MasterDown),
        (Condition::NoReplicas, Kind::NoReplicas),
        (Condition::Misconfigured, Kind::Misconfigured),
    ];
    for (condition, kind) in conditions {
        store.server().set_condition(Some(condition));
        assert_failed(store.run(acquire("k"), LIMIT).await, kind, Applied::No);
    }
    store.server().set_condition(None);
    assert_eq!(store.server().entries(), []);
    assert_eq!(store.run(acquire("k"), LIMIT).await.unwrap(), Reply::Nil);
}

#[tokio::test]
async fn an_observer_sees_every_command_with_its_reply() {
    let seen = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&seen);
    let server = Server::new(|| 5).observed_by(move |words, reply| {
        let expected = if words[0] == b"EVAL" { Frame::Nil } else { Frame::Int(1) };
        assert_eq!(*reply, expected);
        counting.fetch_add(1, Ordering::Relaxed);
    });
    let store = Embedded::on(Arc::new(server));
    store.run(acquire("k"), LIMIT).await.unwrap();
    store.execute(&["DEL", "k"]);
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}
