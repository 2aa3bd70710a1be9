//! The two methods of a store.
//!
//! Invariant: the assertions follow from the documentation of [`Store`].
#![deny(dead_code)]

use std::task::{Context, Poll, Waker};

use leasehold_proto::{Reply, Verb};
use leasehold_store::{Heard, Store};
use tokio::sync::mpsc::unbounded_channel;

use super::{Admin, Bench, LIMIT, next, until};

behaviours! {
    calls_are_executed_in_the_order_of_their_first_polls,
    a_call_that_is_not_polled_does_not_run,
    a_failure_names_its_call,
    a_script_that_the_server_forgot_runs_all_the_same,
    a_message_is_heard_by_all_who_listen_and_by_nobody_else,
    messages_are_heard_in_order_and_as_they_are,
    a_subscription_ends_when_it_is_dropped,
    listening_twice_and_ending_once_leaves_one,
}

async fn calls_are_executed_in_the_order_of_their_first_polls<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let calls = [bench.acquire("u:1", "30000"), bench.renew("u:1", "30000", "7"), bench.release("u:1", "5")];
    let mut running: Vec<_> = calls.into_iter().map(|call| Box::pin(bench.store.run(call, LIMIT))).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let polled: Vec<_> = running.iter_mut().map(|call| call.as_mut().poll(&mut cx)).collect();
    let mut answers = Vec::new();
    for (polled, call) in polled.into_iter().zip(running) {
        let answer = if let Poll::Ready(answer) = polled { answer } else { call.await };
        answers.push(answer.expect("the call succeeds"));
    }
    assert_eq!(answers, [Reply::Nil, Reply::Int(1), Reply::Int(0)]);
    assert_eq!(bench.tell(&["HGET", &bench.lock, "u:1"]), "5");
}

async fn a_call_that_is_not_polled_does_not_run<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    drop(bench.store.run(bench.acquire("u:1", "30000"), LIMIT));
    // A call that had been sent would run before this call.
    bench.ask(bench.inspect("u:1")).await;
    assert_eq!(bench.tell(&["EXISTS", &bench.lock]), "0");
}

async fn a_failure_names_its_call<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let refused = bench.run(bench.acquire("u:1", "0")).await.expect_err("the lease is wrong");
    assert_eq!((refused.during, &*refused.key), (Verb::Acquire, bench.lock.as_str()));
    assert!(std::error::Error::source(&refused).is_some_and(|source| source.to_string().contains("LOCKERR")));
}

async fn a_script_that_the_server_forgot_runs_all_the_same<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    for _ in 0..2 {
        assert_eq!(bench.ask(bench.acquire("u:1", "30000")).await, Reply::Nil);
        assert_eq!(bench.tell(&["SCRIPT", "FLUSH"]), "OK");
    }
}

async fn a_message_is_heard_by_all_who_listen_and_by_nobody_else<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let (_one, mut one_heard) = bench.listen().await;
    let (_two, mut two_heard) = bench.listen().await;
    let (sender, mut other_heard) = unbounded_channel();
    let other = leasehold_proto::Channel::new(&format!("other:{}", bench.lock));
    let _other = bench.store.subscribe(other.clone(), sender);
    assert_eq!(next(&mut other_heard).await, Heard::Listening(other.clone()));
    bench.tell(&["PUBLISH", &bench.channel().to_string(), "0"]);
    assert_eq!(next(&mut one_heard).await, Heard::Message(bench.channel(), b"0".to_vec()));
    assert_eq!(next(&mut two_heard).await, Heard::Message(bench.channel(), b"0".to_vec()));
    bench.tell(&["PUBLISH", &other.to_string(), "1"]);
    assert_eq!(next(&mut other_heard).await, Heard::Message(other, b"1".to_vec()));
}

async fn messages_are_heard_in_order_and_as_they_are<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let (_listening, mut heard) = bench.listen().await;
    let texts = ["0", "", "two words", "ünï"];
    for text in texts {
        bench.tell(&["PUBLISH", &bench.channel().to_string(), text]);
    }
    for text in texts {
        assert_eq!(next(&mut heard).await, Heard::Message(bench.channel(), text.as_bytes().to_vec()));
    }
}

async fn a_subscription_ends_when_it_is_dropped<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let (listening, mut heard) = bench.listen().await;
    assert_eq!(bench.listeners(), "1");
    drop(listening);
    until("the server to count nobody", async || (bench.listeners() == "0").then_some(())).await;
    bench.tell(&["PUBLISH", &bench.channel().to_string(), "0"]);
    assert!(heard.try_recv().is_err());
}

async fn listening_twice_and_ending_once_leaves_one<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let (one, _heard) = bench.listen().await;
    let (_two, mut heard) = bench.listen().await;
    drop(one);
    bench.tell(&["PUBLISH", &bench.channel().to_string(), "0"]);
    assert_eq!(next(&mut heard).await, Heard::Message(bench.channel(), b"0".to_vec()));
}
