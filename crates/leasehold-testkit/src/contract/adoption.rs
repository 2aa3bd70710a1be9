//! The scripts by which a hold passes from one client to another.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::recipe::adopt;
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::fenced::{Tokens, with_tokens};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Channel, Recipe, Reply, StoreError, StoreErrorKind};
use leasehold_store::Heard;
use tokio::sync::mpsc::unbounded_channel;

use super::lock_harness::{LONG, LockHarness};
use super::{Harness, next};

/// A lease that is shorter than the giver's.
const SHORT: u64 = 20_000;

behaviors! {
    an_adoption_passes_the_hold_with_its_own_lease,
    a_repeated_adoption_changes_nothing_and_never_shortens,
    of_two_adoptions_one_has_the_hold,
    an_adoption_of_nothing_changes_nothing,
    an_adoption_of_a_hold_that_was_entered_again_has_it_once,
    waiters_are_told_of_a_shorter_lease_and_of_no_longer_one,
    a_read_write_lock_is_not_adopted,
    an_adopted_fenced_hold_has_a_higher_token,
    a_repeated_adoption_has_the_same_token,
    an_invalid_token_key_leaves_the_hold_to_its_giver,
    a_fair_lock_is_adopted_past_its_queue,
}

impl LockHarness<'_> {
    async fn try_adopt(&self, number: u64, giver: u64, lease_ms: u64) -> Result<Reply, StoreError> {
        let recipe = adopt::of(self.subject.recipe).expect("the kind travels");
        self.harness.run(self.adopt_call(recipe, number, giver, lease_ms)).await
    }

    async fn adopt(&self, number: u64, giver: u64, lease_ms: u64) -> Reply {
        self.try_adopt(number, giver, lease_ms).await.expect("the call succeeds")
    }
}

/// A lock that owner 1 holds.
async fn held<'a>(harness: &'a Harness<'a>, recipe: &'static Recipe) -> LockHarness<'a> {
    let lock = LockHarness::new(harness, recipe);
    lock.acquire(1, LONG).await;
    lock
}

async fn an_adoption_passes_the_hold_with_its_own_lease(harness: &Harness<'_>) {
    let lock = held(harness, &REENTRANT).await;
    assert_eq!(lock.adopt(2, 1, SHORT).await, Reply::Nil);
    assert_eq!(lock.fields(lock.key()), "2 1");
    assert!((1..=20_000).contains(&lock.pttl(lock.key())));
    assert_eq!(lock.release(1, 0).await, Reply::Nil, "the giver has nothing to release");
    assert_ne!(lock.release(2, 0).await, Reply::Nil);
}

async fn a_repeated_adoption_changes_nothing_and_never_shortens(harness: &Harness<'_>) {
    let lock = held(harness, &REENTRANT).await;
    lock.adopt(2, 1, LONG).await;
    lock.renew(2, 60_000, 1).await;
    for _ in 0..3 {
        assert_eq!(lock.adopt(2, 1, SHORT).await, Reply::Nil);
    }
    assert!(lock.pttl(lock.key()) > 30_000);
    assert_eq!(lock.fields(lock.key()), "2 1");
}

async fn of_two_adoptions_one_has_the_hold(harness: &Harness<'_>) {
    let lock = held(harness, &REENTRANT).await;
    assert_eq!(lock.adopt(2, 1, LONG).await, Reply::Nil);
    assert_eq!((lock.adopt(3, 1, LONG).await, lock.fields(lock.key())), (Reply::Int(0), "2 1".into()));
}

async fn an_adoption_of_nothing_changes_nothing(harness: &Harness<'_>) {
    let lock = LockHarness::new(harness, &REENTRANT);
    assert_eq!(lock.adopt(2, 1, LONG).await, Reply::Int(0));
    assert_eq!(harness.run_command(&["EXISTS", lock.key()]), "0");
    lock.acquire(3, LONG).await;
    assert_eq!((lock.adopt(2, 1, LONG).await, lock.fields(lock.key())), (Reply::Int(0), "3 1".into()));
}

async fn an_adoption_of_a_hold_that_was_entered_again_has_it_once(harness: &Harness<'_>) {
    let lock = held(harness, &REENTRANT).await;
    harness.run_command(&["HINCRBY", lock.key(), &super::lock_harness::owner(1).to_string(), "2"]);
    lock.adopt(2, 1, LONG).await;
    assert_eq!(lock.fields(lock.key()), "2 1");
}

async fn waiters_are_told_of_a_shorter_lease_and_of_no_longer_one(harness: &Harness<'_>) {
    for recipe in [&REENTRANT, with_tokens(Tokens::Counter)] {
        let lock = held(harness, recipe).await;
        let (hear, mut heard) = unbounded_channel();
        let channel: Channel = lock.subject.name.prefixed("redisson_lock__channel");
        let _listening = harness.store.subscribe(channel, hear);
        assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
        lock.adopt(2, 1, 60_000).await;
        lock.adopt(3, 2, SHORT).await;
        lock.adopt(3, 2, SHORT).await;
        assert!(matches!(next(&mut heard).await, Heard::Message(_, text) if text == b"0"[..]));
        lock.release(3, 0).await;
        assert!(matches!(next(&mut heard).await, Heard::Message(..)), "of the release");
        assert!(heard.try_recv().is_err(), "one message of three adoptions");
    }
}

async fn a_read_write_lock_is_not_adopted(harness: &Harness<'_>) {
    for recipe in [&REENTRANT, with_tokens(Tokens::Hybrid)] {
        let lock = held(harness, recipe).await;
        harness.run_command(&["HSET", lock.key(), "mode", "read"]);
        let error = lock.try_adopt(2, 1, LONG).await.expect_err("a refusal");
        assert_eq!(
            (error.kind, lock.fields(lock.key())),
            (StoreErrorKind::WrongType, "1 1 mode read".into())
        );
        harness.run_command(&["DEL", lock.key()]);
    }
}

async fn an_adopted_fenced_hold_has_a_higher_token(harness: &Harness<'_>) {
    let lock = held(harness, with_tokens(Tokens::Counter)).await;
    let granted = |token: &str| Reply::Array(vec![Reply::Int(-2), Reply::Text(token.into())]);
    assert_eq!(lock.adopt(2, 1, LONG).await, granted("2"));
    assert_eq!(lock.adopt(3, 2, LONG).await, granted("3"));
    let refused = Reply::Array(vec![Reply::Int(0), Reply::Text(Vec::new())]);
    assert_eq!(lock.adopt(4, 2, LONG).await, refused, "and a refusal raises no token");
    assert_eq!(lock.adopt(4, 3, LONG).await, granted("4"));
}

async fn a_repeated_adoption_has_the_same_token(harness: &Harness<'_>) {
    let lock = held(harness, with_tokens(Tokens::Hybrid)).await;
    let granted = lock.adopt(2, 1, LONG).await;
    for _ in 0..3 {
        assert_eq!(lock.adopt(2, 1, LONG).await, granted);
    }
    assert_eq!(lock.fields(lock.key()), "2 1");
}

async fn an_invalid_token_key_leaves_the_hold_to_its_giver(harness: &Harness<'_>) {
    let lock = held(harness, with_tokens(Tokens::Counter)).await;
    let key = lock.subject.name.prefixed("redisson_lock_token").to_string();
    harness.run_command(&["SET", &key, "many"]);
    let error = lock.try_adopt(2, 1, LONG).await.expect_err("a refusal");
    assert_eq!((error.kind, lock.fields(lock.key())), (StoreErrorKind::WrongType, "1 1".into()));
}

async fn a_fair_lock_is_adopted_past_its_queue(harness: &Harness<'_>) {
    let lock = held(harness, &FAIR).await;
    lock.acquire(3, LONG).await;
    let queue = lock.subject.name.prefixed("redisson_lock_queue").to_string();
    assert_eq!(harness.run_command(&["LLEN", &queue]), "1");
    assert_eq!(lock.adopt(2, 1, LONG).await, Reply::Nil);
    assert_eq!((lock.fields(lock.key()), harness.run_command(&["LLEN", &queue])), ("2 1".into(), "1".into()));
}
