//! The two methods of a store.
//!
//! Invariant: the assertions follow from the documentation of [`Store`](leasehold_store::Store).
#![deny(dead_code)]

use std::task::{Context, Poll, Waker};

use leasehold_proto::{Reply, Verb};
use leasehold_store::Heard;
use tokio::sync::mpsc::unbounded_channel;

use super::{Harness, next, until};

behaviors! {
    calls_are_executed_in_the_order_of_their_first_polls,
    a_call_that_is_not_polled_does_not_run,
    a_failure_names_its_call,
    a_script_that_the_server_forgot_still_runs,
    a_message_reaches_exactly_its_subscribers,
    messages_arrive_in_order_and_unchanged,
    a_subscription_ends_when_it_is_dropped,
    of_two_subscriptions_one_remains_after_one_ends,
}

async fn calls_are_executed_in_the_order_of_their_first_polls(harness: &Harness<'_>) {
    let calls =
        [harness.acquire("u:1", "30000"), harness.renew("u:1", "30000", "7"), harness.release("u:1", "5")];
    let mut running: Vec<_> = calls.into_iter().map(|call| harness.store.run(call)).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let polled: Vec<_> = running.iter_mut().map(|call| call.as_mut().poll(&mut cx)).collect();
    let mut answers = Vec::new();
    for (polled, call) in polled.into_iter().zip(running) {
        let answer = if let Poll::Ready(answer) = polled { answer } else { call.await };
        answers.push(answer.expect("the call succeeds"));
    }
    assert_eq!(answers, [Reply::Nil, Reply::Int(1), Reply::Int(0)]);
    assert_eq!(harness.run_command(&["HGET", &harness.lock, "u:1"]), "5");
}

async fn a_call_that_is_not_polled_does_not_run(harness: &Harness<'_>) {
    drop(harness.store.run(harness.acquire("u:1", "30000")));
    // A call that had been sent would run before this call.
    harness.execute(harness.inspect("u:1")).await;
    assert_eq!(harness.run_command(&["EXISTS", &harness.lock]), "0");
}

async fn a_failure_names_its_call(harness: &Harness<'_>) {
    let refused = harness.run(harness.acquire("u:1", "0")).await.expect_err("the lease is wrong");
    assert_eq!((refused.during, &*refused.key), (Verb::Acquire, harness.lock.as_str()));
    assert!(std::error::Error::source(&refused).is_some_and(|source| source.to_string().contains("LOCKERR")));
}

async fn a_script_that_the_server_forgot_still_runs(harness: &Harness<'_>) {
    for _ in 0..2 {
        assert_eq!(harness.execute(harness.acquire("u:1", "30000")).await, Reply::Nil);
        assert_eq!(harness.run_command(&["SCRIPT", "FLUSH"]), "OK");
    }
}

async fn a_message_reaches_exactly_its_subscribers(harness: &Harness<'_>) {
    let (_one, mut one_heard) = harness.listen().await;
    let (_two, mut two_heard) = harness.listen().await;
    let (sender, mut other_heard) = unbounded_channel();
    let other = leasehold_proto::Channel::new(&format!("other:{}", harness.lock));
    let _other = harness.store.subscribe(other.clone(), sender);
    assert_eq!(next(&mut other_heard).await, Heard::Listening(other.clone()));
    harness.run_command(&["PUBLISH", &harness.channel().to_string(), "0"]);
    assert_eq!(next(&mut one_heard).await, Heard::Message(harness.channel(), b"0".to_vec()));
    assert_eq!(next(&mut two_heard).await, Heard::Message(harness.channel(), b"0".to_vec()));
    harness.run_command(&["PUBLISH", &other.to_string(), "1"]);
    assert_eq!(next(&mut other_heard).await, Heard::Message(other, b"1".to_vec()));
}

async fn messages_arrive_in_order_and_unchanged(harness: &Harness<'_>) {
    let (_listening, mut heard) = harness.listen().await;
    let texts = ["0", "", "two words", "ünï"];
    for text in texts {
        harness.run_command(&["PUBLISH", &harness.channel().to_string(), text]);
    }
    for text in texts {
        assert_eq!(next(&mut heard).await, Heard::Message(harness.channel(), text.as_bytes().to_vec()));
    }
}

async fn a_subscription_ends_when_it_is_dropped(harness: &Harness<'_>) {
    let (listening, mut heard) = harness.listen().await;
    assert_eq!(harness.listeners(), "1");
    drop(listening);
    until("the server to count no subscriber", async || (harness.listeners() == "0").then_some(())).await;
    harness.run_command(&["PUBLISH", &harness.channel().to_string(), "0"]);
    assert!(heard.try_recv().is_err());
}

async fn of_two_subscriptions_one_remains_after_one_ends(harness: &Harness<'_>) {
    let (one, _heard) = harness.listen().await;
    let (_two, mut heard) = harness.listen().await;
    drop(one);
    harness.run_command(&["PUBLISH", &harness.channel().to_string(), "0"]);
    assert_eq!(next(&mut heard).await, Heard::Message(harness.channel(), b"0".to_vec()));
}
