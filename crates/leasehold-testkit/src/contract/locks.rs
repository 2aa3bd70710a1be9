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
use leasehold_store::{Heard, Store};
use tokio::sync::mpsc::unbounded_channel;

use super::asks::{Asks, LONG};
use super::{Admin, Bench, next};

behaviours! {
    each_grant_has_a_token_above_the_last,
    a_fenced_acquire_that_runs_twice_gives_the_same_token,
    a_refused_fenced_acquire_uses_up_no_token,
    a_hybrid_token_is_at_least_the_servers_time,
    a_token_key_that_is_no_token_is_refused_and_nothing_is_taken,
    a_spin_lock_is_given_back_without_a_message,
    several_are_taken_or_none,
    several_that_run_twice_find_their_own_hold,
    several_are_renewed_together_or_not_at_all,
    several_are_given_back_together_and_each_tells_its_waiters,
    a_young_server_grants_nothing,
    an_old_server_grants_as_a_plain_lock,
}

fn fenced<'a, S: Store, A: Admin>(bench: &'a Bench<'a, S, A>, tokens: Tokens) -> (Asks<'a, S, A>, String) {
    let asks = Asks::new(bench, fenced::with_tokens(tokens));
    let token = asks.subject.name.prefixed("redisson_lock_token").to_string();
    (asks, token)
}

fn granted(token: &str) -> Reply {
    Reply::Array(vec![Reply::Int(-2), Reply::Text(token.into())])
}

async fn each_grant_has_a_token_above_the_last<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let (asks, token) = fenced(bench, Tokens::Counter);
    for number in 1..=3 {
        assert_eq!(asks.acquire(number, LONG).await, granted(&number.to_string()));
        assert_eq!(bench.tell(&["GET", &token]), number.to_string());
        assert_eq!(asks.release(number, 0).await, Reply::Int(1));
    }
    assert_eq!(asks.pttl(&token), -1);
}

async fn a_fenced_acquire_that_runs_twice_gives_the_same_token<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let (asks, token) = fenced(bench, Tokens::Counter);
    for _ in 0..3 {
        assert_eq!(asks.acquire(1, LONG).await, granted("1"));
    }
    assert_eq!((bench.tell(&["GET", &token]), asks.fields(asks.key())), ("1".into(), "1 1".into()));
    assert_eq!(asks.renew(1, LONG, 2).await, Reply::Int(1));
    assert_eq!(bench.tell(&["GET", &token]), "1", "taking it once more keeps the token");
}

async fn a_refused_fenced_acquire_uses_up_no_token<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let (asks, token) = fenced(bench, Tokens::Counter);
    asks.acquire(1, LONG).await;
    let refused = asks.acquire(2, LONG).await;
    assert!(
        matches!(&refused, Reply::Array(items) if matches!(items[0], Reply::Int(1..=30_000))),
        "{refused:?}"
    );
    assert_eq!(bench.tell(&["GET", &token]), "1");
}

async fn a_hybrid_token_is_at_least_the_servers_time<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let (asks, token) = fenced(bench, Tokens::Hybrid);
    let seconds: u64 = bench.tell(&["TIME"]).lines().next().unwrap_or_default().parse().expect("a time");
    asks.acquire(1, LONG).await;
    let given: u64 = bench.tell(&["GET", &token]).parse().expect("in full");
    assert!(given >= seconds * 1_000_000 && given < (seconds + 60) * 1_000_000, "{given}");
    assert_eq!(asks.acquire(1, LONG).await, granted(&given.to_string()));
    let (collected, token) = fenced(bench, Tokens::HybridCollected);
    asks.release(1, 0).await;
    collected.acquire(2, LONG).await;
    assert!(collected.pttl(&token) > 86_000_000);
}

async fn a_token_key_that_is_no_token_is_refused_and_nothing_is_taken<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let (asks, token) = fenced(bench, Tokens::Counter);
    for value in ["many", "-3", "9007199254740991"] {
        bench.tell(&["SET", &token, value]);
        let refused = asks.try_acquire(1, LONG).await.expect_err("it is refused");
        assert_eq!(refused.kind, StoreErrorKind::WrongType);
        assert_eq!(bench.tell(&["EXISTS", asks.key()]), "0");
    }
}

async fn a_spin_lock_is_given_back_without_a_message<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let asks = Asks::new(bench, &SPIN);
    let (sender, mut heard) = unbounded_channel();
    let channel = leasehold_proto::Channel::new(&format!("redisson_lock__channel:{}", asks.key()));
    let _listening = bench.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    assert_eq!(asks.acquire(1, LONG).await, Reply::Nil);
    assert_eq!(asks.renew(1, LONG, 2).await, Reply::Int(1));
    assert_eq!(asks.release(2, 0).await, Reply::Nil);
    assert_eq!(asks.release(1, 1).await, Reply::Int(0));
    assert_eq!(asks.release(1, 0).await, Reply::Int(1));
    asks.acquire(3, LONG).await;
    assert_eq!(asks.force(&spin::LOCK_CALLS).await, Reply::Int(1));
    assert_eq!(asks.force(&spin::LOCK_CALLS).await, Reply::Int(0));
    bench.tell(&["PUBLISH", channel.as_str(), "7"]);
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"7".to_vec()), "the first that is heard");
}

fn keys<S: Store, A: Admin>(asks: &Asks<'_, S, A>) -> Vec<String> {
    let names = std::iter::once(&asks.subject.name).chain(&*asks.subject.others);
    names.map(|name| name.as_str().to_owned()).collect()
}

fn held<S: Store, A: Admin>(asks: &Asks<'_, S, A>) -> Vec<String> {
    keys(asks).iter().map(|key| asks.fields(key)).collect()
}

async fn several_are_taken_or_none<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let asks = Asks::many(bench, &MULTI);
    bench.tell(&["HSET", &keys(&asks)[2], "java:1", "1"]);
    assert_eq!(asks.acquire(1, LONG).await, Reply::Int(-1), "a key without expiry");
    bench.tell(&["PEXPIRE", &keys(&asks)[2], "20000"]);
    assert!(matches!(asks.acquire(1, LONG).await, Reply::Int(1..=20_000)));
    assert_eq!(held(&asks), ["", "", "java:1 1"]);
    bench.tell(&["DEL", &keys(&asks)[2]]);
    assert_eq!(asks.acquire(1, LONG).await, Reply::Nil);
    assert_eq!(held(&asks), ["1 1", "1 1", "1 1"]);
    bench.tell(&["DEL", &keys(&asks)[0]]);
    bench.tell(&["SET", &keys(&asks)[0], "text"]);
    assert_eq!(asks.try_acquire(2, LONG).await.expect_err("refused").kind, StoreErrorKind::WrongType);
}

async fn several_that_run_twice_find_their_own_hold<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let asks = Asks::many(bench, &MULTI);
    for _ in 0..2 {
        assert_eq!(asks.acquire(1, LONG).await, Reply::Nil);
        assert_eq!(held(&asks), ["1 1", "1 1", "1 1"]);
    }
}

async fn several_are_renewed_together_or_not_at_all<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let asks = Asks::many(bench, &MULTI);
    assert_eq!(asks.renew(1, LONG, 0).await, Reply::Int(0));
    asks.acquire(1, LONG).await;
    assert_eq!(asks.renew(1, 90_000, 2).await, Reply::Int(1));
    assert!(keys(&asks).iter().all(|key| asks.pttl(key) > 60_000 && asks.fields(key) == "1 2"));
    bench.tell(&["DEL", &keys(&asks)[1]]);
    assert_eq!(asks.renew(1, LONG, 0).await, Reply::Int(0));
    assert_eq!(held(&asks), ["", "", ""], "what is left is given back");
    asks.acquire(1, LONG).await;
    bench.tell(&["DEL", &keys(&asks)[1]]);
    bench.tell(&["HSET", &keys(&asks)[1], "java:1", "1"]);
    assert_eq!(asks.renew(1, LONG, 0).await, Reply::Int(-1));
    assert_eq!(held(&asks), ["", "java:1 1", ""]);
}

async fn several_are_given_back_together_and_each_tells_its_waiters<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let asks = Asks::many(bench, &MULTI);
    asks.acquire(1, LONG).await;
    let (sender, mut heard) = unbounded_channel();
    let channels = asks.subject.channels(super::asks::owner(1));
    let _listening: Vec<_> =
        channels.iter().map(|channel| bench.store.subscribe(channel.clone(), sender.clone())).collect();
    for _ in &channels {
        assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    }
    assert_eq!(asks.release(2, 0).await, Reply::Nil);
    assert_eq!(asks.renew(1, LONG, 2).await, Reply::Int(1));
    assert_eq!(asks.release(1, 1).await, Reply::Int(0));
    assert_eq!(asks.release(1, 0).await, Reply::Int(1));
    let mut told = Vec::new();
    for _ in &channels {
        told.push(next(&mut heard).await);
    }
    for channel in channels {
        assert!(told.contains(&Heard::Message(channel.clone(), b"0".to_vec())), "{channel} of {told:?}");
    }
    assert_eq!(held(&asks), ["", "", ""]);
}

async fn a_young_server_grants_nothing<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let asks = Asks::new(bench, &REDLOCK);
    let young = asks.acquire_of_old(1, Duration::from_secs(1_000_000_000)).await;
    assert!(matches!(&young, Reply::Array(items) if matches!(items[..], [Reply::Int(1..)])), "{young:?}");
    assert_eq!(bench.tell(&["EXISTS", asks.key()]), "0");
}

async fn an_old_server_grants_as_a_plain_lock<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let asks = Asks::new(bench, &REDLOCK);
    assert_eq!(asks.acquire(1, LONG).await, Reply::Nil);
    assert_eq!(asks.acquire(1, LONG).await, Reply::Nil);
    assert!(matches!(asks.acquire(2, LONG).await, Reply::Int(1..=30_000)));
    let mine = asks.acquire_of_old(1, Duration::from_secs(1_000_000_000)).await;
    assert_eq!(mine, Reply::Nil, "what it holds it holds");
    assert_eq!(asks.release(1, 0).await, Reply::Int(1));
}
