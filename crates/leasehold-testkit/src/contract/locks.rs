//! The scripts of the fenced lock, the spin lock, several locks at once, and a node of Redlock, as far as they differ
//! from the reentrant lock's.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use std::time::Duration;

use leasehold_proto::recipe::fenced::{self, Tokens};
use leasehold_proto::recipe::multi::MULTI;
use leasehold_proto::recipe::redlock::REDLOCK;
use leasehold_proto::recipe::spin::{self, SPIN};
use leasehold_proto::{Reply, StoreErrorKind};
use leasehold_store::Heard;
use tokio::sync::mpsc::unbounded_channel;

use super::lock_harness::{LONG, LockHarness};
use super::{Harness, next};

behaviors! {
    each_grant_has_a_token_above_the_last,
    a_duplicate_fenced_acquire_returns_the_same_token,
    a_grant_reserves_tokens_in_a_row,
    a_refused_fenced_acquire_uses_up_no_token,
    a_hybrid_token_is_at_least_the_servers_time,
    an_invalid_token_key_is_rejected_and_nothing_is_acquired,
    a_spin_lock_is_released_without_a_message,
    several_locks_are_acquired_all_or_none,
    a_duplicate_acquire_of_several_locks_finds_its_own_hold,
    several_locks_are_renewed_all_or_none,
    several_locks_are_released_together_and_each_wakes_its_waiters,
    a_recently_restarted_server_grants_nothing,
    a_server_with_enough_uptime_grants_as_a_plain_lock,
}

fn fenced<'a>(harness: &'a Harness<'a>, tokens: Tokens) -> (LockHarness<'a>, String) {
    let lock_harness = LockHarness::new(harness, fenced::with_tokens(tokens));
    let token = lock_harness.subject.name.prefixed("redisson_lock_token").to_string();
    (lock_harness, token)
}

fn granted(token: &str) -> Reply {
    Reply::Array(vec![Reply::Int(-2), Reply::Text(token.into())])
}

async fn each_grant_has_a_token_above_the_last(harness: &Harness<'_>) {
    let (lock_harness, token) = fenced(harness, Tokens::Counter);
    for number in 1..=3 {
        assert_eq!(lock_harness.acquire(number, LONG).await, granted(&number.to_string()));
        assert_eq!(harness.run_command(&["GET", &token]), number.to_string());
        assert_eq!(lock_harness.release(number, 0).await, Reply::Int(1));
    }
    assert_eq!(lock_harness.pttl(&token), -1);
}

async fn a_duplicate_fenced_acquire_returns_the_same_token(harness: &Harness<'_>) {
    let (lock_harness, token) = fenced(harness, Tokens::Counter);
    for _ in 0..3 {
        assert_eq!(lock_harness.acquire(1, LONG).await, granted("1"));
    }
    assert_eq!(
        (harness.run_command(&["GET", &token]), lock_harness.fields(lock_harness.key())),
        ("1".into(), "1 1".into())
    );
    assert_eq!(lock_harness.renew(1, LONG, 2).await, Reply::Int(1));
    assert_eq!(harness.run_command(&["GET", &token]), "1", "taking it once more keeps the token");
}

async fn a_grant_reserves_tokens_in_a_row(harness: &Harness<'_>) {
    let (lock_harness, token) = fenced(harness, Tokens::Counter);
    for (number, first, last) in [(1, "1", "16"), (2, "17", "32")] {
        for _ in 0..2 {
            assert_eq!(
                lock_harness.acquire_with_tokens(number, 16).await,
                Ok(granted(first)),
                "and a repeat of it"
            );
            assert_eq!(harness.run_command(&["GET", &token]), last);
        }
        assert_eq!(lock_harness.release(number, 0).await, Reply::Int(1));
    }
    assert_eq!(lock_harness.acquire_with_tokens(3, 1).await, Ok(granted("33")));
    lock_harness.release(3, 0).await;
    harness.run_command(&["SET", &token, "9007199254740980"]);
    let refused =
        lock_harness.acquire_with_tokens(4, 16).await.expect_err("the last token would be too large");
    assert_eq!(refused.kind, StoreErrorKind::WrongType);
    harness.run_command(&["SET", &token, "3"]);
    let (hybrid, _) = fenced(harness, Tokens::Hybrid);
    let reply = hybrid.acquire_with_tokens(5, 16).await;
    let last: u64 = harness.run_command(&["GET", &token]).parse().expect("a token");
    assert_eq!(reply, Ok(granted(&(last - 15).to_string())));
    assert_eq!(hybrid.acquire_with_tokens(5, 16).await, reply);
}

async fn a_refused_fenced_acquire_uses_up_no_token(harness: &Harness<'_>) {
    let (lock_harness, token) = fenced(harness, Tokens::Counter);
    lock_harness.acquire(1, LONG).await;
    let refused = lock_harness.acquire(2, LONG).await;
    assert!(
        matches!(&refused, Reply::Array(items) if matches!(items[0], Reply::Int(1..=30_000))),
        "{refused:?}"
    );
    assert_eq!(harness.run_command(&["GET", &token]), "1");
}

async fn a_hybrid_token_is_at_least_the_servers_time(harness: &Harness<'_>) {
    let (lock_harness, token) = fenced(harness, Tokens::Hybrid);
    let seconds: u64 =
        harness.run_command(&["TIME"]).lines().next().unwrap_or_default().parse().expect("a time");
    lock_harness.acquire(1, LONG).await;
    let given: u64 = harness.run_command(&["GET", &token]).parse().expect("in full");
    assert!(given >= seconds * 1_000_000 && given < (seconds + 60) * 1_000_000, "{given}");
    assert_eq!(lock_harness.acquire(1, LONG).await, granted(&given.to_string()));
    let (collected, token) = fenced(harness, Tokens::HybridCollected);
    lock_harness.release(1, 0).await;
    collected.acquire(2, LONG).await;
    assert!(collected.pttl(&token) > 86_000_000);
}

async fn an_invalid_token_key_is_rejected_and_nothing_is_acquired(harness: &Harness<'_>) {
    let (lock_harness, token) = fenced(harness, Tokens::Counter);
    for value in ["many", "-3", "9007199254740991"] {
        harness.run_command(&["SET", &token, value]);
        let refused = lock_harness.try_acquire(1, LONG).await.expect_err("it is refused");
        assert_eq!(refused.kind, StoreErrorKind::WrongType);
        assert_eq!(harness.run_command(&["EXISTS", lock_harness.key()]), "0");
    }
}

async fn a_spin_lock_is_released_without_a_message(harness: &Harness<'_>) {
    let lock_harness = LockHarness::new(harness, &SPIN);
    let (sender, mut heard) = unbounded_channel();
    let channel = leasehold_proto::Channel::new(&format!("redisson_lock__channel:{}", lock_harness.key()));
    let _listening = harness.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    assert_eq!(lock_harness.acquire(1, LONG).await, Reply::Nil);
    assert_eq!(lock_harness.renew(1, LONG, 2).await, Reply::Int(1));
    assert_eq!(lock_harness.release(2, 0).await, Reply::Nil);
    assert_eq!(lock_harness.release(1, 1).await, Reply::Int(0));
    assert_eq!(lock_harness.release(1, 0).await, Reply::Int(1));
    lock_harness.acquire(3, LONG).await;
    assert_eq!(lock_harness.force(&spin::LOCK_CALLS).await, Reply::Int(1));
    assert_eq!(lock_harness.force(&spin::LOCK_CALLS).await, Reply::Int(0));
    harness.run_command(&["PUBLISH", channel.as_str(), "7"]);
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"7".to_vec()), "the first that is heard");
}

fn keys(lock_harness: &LockHarness<'_>) -> Vec<String> {
    let names = std::iter::once(&lock_harness.subject.name).chain(&*lock_harness.subject.others);
    names.map(|name| name.as_str().to_owned()).collect()
}

fn held(lock_harness: &LockHarness<'_>) -> Vec<String> {
    keys(lock_harness).iter().map(|key| lock_harness.fields(key)).collect()
}

async fn several_locks_are_acquired_all_or_none(harness: &Harness<'_>) {
    let lock_harness = LockHarness::many(harness, &MULTI);
    harness.run_command(&["HSET", &keys(&lock_harness)[2], "java:1", "1"]);
    assert_eq!(lock_harness.acquire(1, LONG).await, Reply::Int(-1), "a key without expiry");
    harness.run_command(&["PEXPIRE", &keys(&lock_harness)[2], "20000"]);
    assert!(matches!(lock_harness.acquire(1, LONG).await, Reply::Int(1..=20_000)));
    assert_eq!(held(&lock_harness), ["", "", "java:1 1"]);
    harness.run_command(&["DEL", &keys(&lock_harness)[2]]);
    assert_eq!(lock_harness.acquire(1, LONG).await, Reply::Nil);
    assert_eq!(held(&lock_harness), ["1 1", "1 1", "1 1"]);
    harness.run_command(&["DEL", &keys(&lock_harness)[0]]);
    harness.run_command(&["SET", &keys(&lock_harness)[0], "text"]);
    assert_eq!(lock_harness.try_acquire(2, LONG).await.expect_err("refused").kind, StoreErrorKind::WrongType);
}

async fn a_duplicate_acquire_of_several_locks_finds_its_own_hold(harness: &Harness<'_>) {
    let lock_harness = LockHarness::many(harness, &MULTI);
    for _ in 0..2 {
        assert_eq!(lock_harness.acquire(1, LONG).await, Reply::Nil);
        assert_eq!(held(&lock_harness), ["1 1", "1 1", "1 1"]);
    }
}

async fn several_locks_are_renewed_all_or_none(harness: &Harness<'_>) {
    let lock_harness = LockHarness::many(harness, &MULTI);
    assert_eq!(lock_harness.renew(1, LONG, 0).await, Reply::Int(0));
    lock_harness.acquire(1, LONG).await;
    assert_eq!(lock_harness.renew(1, 90_000, 2).await, Reply::Int(1));
    assert!(
        keys(&lock_harness)
            .iter()
            .all(|key| lock_harness.pttl(key) > 60_000 && lock_harness.fields(key) == "1 2")
    );
    harness.run_command(&["DEL", &keys(&lock_harness)[1]]);
    assert_eq!(lock_harness.renew(1, LONG, 0).await, Reply::Int(0));
    assert_eq!(held(&lock_harness), ["", "", ""], "what is left is given back");
    lock_harness.acquire(1, LONG).await;
    harness.run_command(&["DEL", &keys(&lock_harness)[1]]);
    harness.run_command(&["HSET", &keys(&lock_harness)[1], "java:1", "1"]);
    assert_eq!(lock_harness.renew(1, LONG, 0).await, Reply::Int(-1));
    assert_eq!(held(&lock_harness), ["", "java:1 1", ""]);
}

async fn several_locks_are_released_together_and_each_wakes_its_waiters(harness: &Harness<'_>) {
    let lock_harness = LockHarness::many(harness, &MULTI);
    lock_harness.acquire(1, LONG).await;
    let (sender, mut heard) = unbounded_channel();
    let channels = lock_harness.subject.channels(super::lock_harness::owner(1));
    let _listening: Vec<_> =
        channels.iter().map(|channel| harness.store.subscribe(channel.clone(), sender.clone())).collect();
    for _ in &channels {
        assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    }
    assert_eq!(lock_harness.release(2, 0).await, Reply::Nil);
    assert_eq!(lock_harness.renew(1, LONG, 2).await, Reply::Int(1));
    assert_eq!(lock_harness.release(1, 1).await, Reply::Int(0));
    assert_eq!(lock_harness.release(1, 0).await, Reply::Int(2), "one connection listens to each");
    let mut told = Vec::new();
    for _ in &channels {
        told.push(next(&mut heard).await);
    }
    for channel in channels {
        assert!(told.contains(&Heard::Message(channel.clone(), b"0".to_vec())), "{channel} of {told:?}");
    }
    assert_eq!(held(&lock_harness), ["", "", ""]);
}

async fn a_recently_restarted_server_grants_nothing(harness: &Harness<'_>) {
    let lock_harness = LockHarness::new(harness, &REDLOCK);
    let young = lock_harness.acquire_with_uptime(1, Duration::from_secs(1_000_000_000)).await;
    assert!(matches!(&young, Reply::Array(items) if matches!(items[..], [Reply::Int(1..)])), "{young:?}");
    assert_eq!(harness.run_command(&["EXISTS", lock_harness.key()]), "0");
}

async fn a_server_with_enough_uptime_grants_as_a_plain_lock(harness: &Harness<'_>) {
    let lock_harness = LockHarness::new(harness, &REDLOCK);
    assert_eq!(lock_harness.acquire(1, LONG).await, Reply::Nil);
    assert_eq!(lock_harness.acquire(1, LONG).await, Reply::Nil);
    assert!(matches!(lock_harness.acquire(2, LONG).await, Reply::Int(1..=30_000)));
    let mine = lock_harness.acquire_with_uptime(1, Duration::from_secs(1_000_000_000)).await;
    assert_eq!(mine, Reply::Nil, "what it holds it holds");
    assert_eq!(lock_harness.release(1, 0).await, Reply::Int(1));
}
