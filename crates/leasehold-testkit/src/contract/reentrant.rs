//! The reentrant lock's scripts.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::{Applied, Reply, StoreErrorKind};
use leasehold_store::{Heard, Store};

use super::{Admin, Bench, next, until};

behaviours! {
    a_free_lock_is_granted,
    a_lock_of_somebody_else_is_refused_with_what_remains,
    an_acquire_that_runs_twice_finds_its_own_hold,
    an_expired_lock_is_free,
    a_hold_without_expiry_is_told_as_such,
    a_renewal_sets_the_lease_and_never_shortens_it,
    a_renewal_sets_the_count,
    a_renewal_of_nothing_and_of_somebody_elses_hold_do_nothing,
    a_release_frees_the_lock_and_wakes,
    a_partial_release_keeps_the_lease_and_wakes_nobody,
    a_release_by_another_changes_nothing,
    a_release_that_runs_twice_says_that_there_was_nothing,
    a_forced_release_frees_whoever_holds_it,
    an_inspection_tells_what_remains_and_the_count,
    arguments_are_checked_before_the_first_write,
    a_key_of_another_type_stays_untouched,
}

async fn a_free_lock_is_granted<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    assert_eq!(bench.ask(bench.acquire("u:1", "30000")).await, Reply::Nil);
    assert_eq!(bench.tell(&["HGETALL", &bench.lock]), "u:1\n1");
    let remaining: u64 = bench.tell(&["PTTL", &bench.lock]).parse().expect("it is a number");
    assert!((1..=30_000).contains(&remaining), "{remaining}");
}

async fn a_lock_of_somebody_else_is_refused_with_what_remains<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    bench.ask(bench.acquire("u:1", "30000")).await;
    let refused = bench.ask(bench.acquire("u:2", "60000")).await;
    assert!(matches!(refused, Reply::Int(1..=30_000)), "{refused:?}");
    assert_eq!(bench.tell(&["HKEYS", &bench.lock]), "u:1");
}

async fn an_acquire_that_runs_twice_finds_its_own_hold<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    bench.ask(bench.acquire("u:1", "30000")).await;
    assert_eq!(bench.ask(bench.acquire("u:1", "60000")).await, Reply::Nil);
    assert_eq!(bench.tell(&["HGETALL", &bench.lock]), "u:1\n1");
    let remaining: u64 = bench.tell(&["PTTL", &bench.lock]).parse().expect("it is a number");
    assert!(remaining > 30_000, "{remaining}");
}

async fn an_expired_lock_is_free<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    bench.ask(bench.acquire("u:1", "3")).await;
    until("the lease to pass", async || {
        (bench.ask(bench.acquire("u:2", "30000")).await == Reply::Nil).then_some(())
    })
    .await;
    assert_eq!(bench.tell(&["HKEYS", &bench.lock]), "u:2");
}

async fn a_hold_without_expiry_is_told_as_such<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    bench.tell(&["HSET", &bench.lock, "u:9", "1"]);
    assert_eq!(bench.ask(bench.acquire("u:1", "30000")).await, Reply::Int(-1));
    assert_eq!(bench.ask(bench.inspect("u:9")).await, Reply::Array(vec![Reply::Int(-1), Reply::Int(1)]));
}

async fn a_renewal_sets_the_lease_and_never_shortens_it<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    bench.ask(bench.acquire("u:1", "30000")).await;
    let remaining = || bench.tell(&["PTTL", &bench.lock]).parse::<u64>().expect("it is a number");
    assert_eq!(bench.ask(bench.renew("u:1", "90000", "0")).await, Reply::Int(1));
    assert!(remaining() > 60_000);
    assert_eq!(bench.ask(bench.renew("u:1", "10", "0")).await, Reply::Int(1));
    assert!(remaining() > 60_000);
}

async fn a_renewal_sets_the_count<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    bench.ask(bench.acquire("u:1", "30000")).await;
    for _ in 0..2 {
        assert_eq!(bench.ask(bench.renew("u:1", "30000", "3")).await, Reply::Int(1));
        assert_eq!(bench.tell(&["HGET", &bench.lock, "u:1"]), "3");
    }
}

async fn a_renewal_of_nothing_and_of_somebody_elses_hold_do_nothing<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    assert_eq!(bench.ask(bench.renew("u:1", "30000", "1")).await, Reply::Int(0));
    assert_eq!(bench.tell(&["EXISTS", &bench.lock]), "0");
    bench.ask(bench.acquire("u:2", "30000")).await;
    assert_eq!(bench.ask(bench.renew("u:1", "90000", "1")).await, Reply::Int(-1));
    assert_eq!(bench.tell(&["HKEYS", &bench.lock]), "u:2");
}

async fn a_release_frees_the_lock_and_wakes<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let (_listening, mut heard) = bench.listen().await;
    bench.ask(bench.acquire("u:1", "30000")).await;
    assert_eq!(bench.ask(bench.release("u:1", "0")).await, Reply::Int(1));
    assert_eq!(bench.tell(&["EXISTS", &bench.lock]), "0");
    assert_eq!(next(&mut heard).await, Heard::Message(bench.channel(), b"0".to_vec()));
}

async fn a_partial_release_keeps_the_lease_and_wakes_nobody<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let (_listening, mut heard) = bench.listen().await;
    bench.ask(bench.acquire("u:1", "30000")).await;
    bench.ask(bench.renew("u:1", "30000", "2")).await;
    assert_eq!(bench.ask(bench.release("u:1", "1")).await, Reply::Int(0));
    assert_eq!(bench.tell(&["HGET", &bench.lock, "u:1"]), "1");
    let remaining: u64 = bench.tell(&["PTTL", &bench.lock]).parse().expect("it is a number");
    assert!(remaining > 0);
    // The first message is the test's own, so the release published none.
    bench.tell(&["PUBLISH", &bench.channel().to_string(), "now"]);
    assert_eq!(next(&mut heard).await, Heard::Message(bench.channel(), b"now".to_vec()));
}

async fn a_release_by_another_changes_nothing<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    bench.ask(bench.acquire("u:1", "30000")).await;
    assert_eq!(bench.ask(bench.release("u:2", "0")).await, Reply::Nil);
    assert_eq!(bench.tell(&["HGETALL", &bench.lock]), "u:1\n1");
}

async fn a_release_that_runs_twice_says_that_there_was_nothing<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    bench.ask(bench.acquire("u:1", "30000")).await;
    assert_eq!(bench.ask(bench.release("u:1", "0")).await, Reply::Int(1));
    assert_eq!(bench.ask(bench.release("u:1", "0")).await, Reply::Nil);
}

async fn a_forced_release_frees_whoever_holds_it<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    assert_eq!(bench.ask(bench.force_release()).await, Reply::Int(0));
    let (_listening, mut heard) = bench.listen().await;
    bench.ask(bench.acquire("u:1", "30000")).await;
    assert_eq!(bench.ask(bench.force_release()).await, Reply::Int(1));
    assert_eq!(bench.tell(&["EXISTS", &bench.lock]), "0");
    assert_eq!(next(&mut heard).await, Heard::Message(bench.channel(), b"0".to_vec()));
}

async fn an_inspection_tells_what_remains_and_the_count<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    assert_eq!(bench.ask(bench.inspect("")).await, Reply::Array(vec![Reply::Int(-2), Reply::Int(0)]));
    bench.ask(bench.acquire("u:1", "30000")).await;
    bench.ask(bench.renew("u:1", "30000", "2")).await;
    for (owner, count) in [("u:1", 2), ("u:2", 0)] {
        let Reply::Array(items) = bench.ask(bench.inspect(owner)).await else {
            panic!("an inspection answers with an array");
        };
        assert!(
            matches!(items[..], [Reply::Int(1..=30_000), Reply::Int(found)] if found == count),
            "{items:?}"
        );
    }
}

async fn arguments_are_checked_before_the_first_write<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    for lease in ["0", "-1", "1.5", "abc", "", "9007199254740992"] {
        let refused = bench.run(bench.acquire("u:1", lease)).await.expect_err("the lease is wrong");
        assert_eq!((refused.kind, refused.applied), (StoreErrorKind::Server, Applied::No), "{lease}");
    }
    assert_eq!(bench.tell(&["EXISTS", &bench.lock]), "0");
    bench.ask(bench.acquire("u:1", "30000")).await;
    for (lease, count) in [("0", "1"), ("30000", "-1"), ("30000", "0.5"), ("30000", "x")] {
        let refused = bench.run(bench.renew("u:1", lease, count)).await.expect_err("an argument is wrong");
        assert_eq!((refused.kind, refused.applied), (StoreErrorKind::Server, Applied::No), "{lease} {count}");
    }
    for remaining in ["-1", "0.5", "x", ""] {
        let refused = bench.run(bench.release("u:1", remaining)).await.expect_err("the count is wrong");
        assert_eq!((refused.kind, refused.applied), (StoreErrorKind::Server, Applied::No), "{remaining}");
    }
    assert_eq!(bench.tell(&["HGETALL", &bench.lock]), "u:1\n1");
}

async fn a_key_of_another_type_stays_untouched<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    bench.tell(&["SET", &bench.lock, "mine"]);
    let calls = [
        bench.acquire("u:1", "30000"),
        bench.renew("u:1", "30000", "1"),
        bench.release("u:1", "0"),
        bench.force_release(),
        bench.inspect("u:1"),
    ];
    for call in calls {
        let refused = bench.run(call).await.expect_err("the key is a string");
        assert_eq!(refused.kind, StoreErrorKind::WrongType);
    }
    assert_eq!(bench.tell(&["GET", &bench.lock]), "mine");
    assert_eq!(bench.tell(&["PTTL", &bench.lock]), "-1");
}
