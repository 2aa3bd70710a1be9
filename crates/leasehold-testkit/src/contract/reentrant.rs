//! The reentrant lock's scripts.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::{Applied, Reply, StoreErrorKind};
use leasehold_store::Heard;

use super::{Harness, next, until};

behaviors! {
    a_free_lock_is_granted,
    a_held_lock_is_refused_with_its_remaining_time,
    a_duplicate_acquire_finds_its_own_hold,
    an_expired_lock_is_free,
    a_hold_without_expiry_is_reported,
    a_renewal_sets_the_lease_and_never_shortens_it,
    a_renewal_sets_the_count,
    a_renewal_of_a_missing_or_foreign_hold_changes_nothing,
    a_hold_that_passes_on_is_renewed_and_its_listeners_are_counted,
    a_hold_that_passes_on_and_is_gone_is_not_renewed,
    a_release_frees_the_lock_and_wakes_waiters,
    a_partial_release_keeps_the_lease_and_wakes_no_waiter,
    a_foreign_release_changes_nothing,
    a_duplicate_release_reports_no_hold,
    a_forced_release_frees_the_lock_of_any_holder,
    an_inspection_returns_the_remaining_time_and_the_count,
    arguments_are_checked_before_the_first_write,
    a_key_of_another_type_stays_untouched,
}

async fn a_free_lock_is_granted(harness: &Harness<'_>) {
    assert_eq!(harness.execute(harness.acquire("u:1", "30000")).await, Reply::Nil);
    assert_eq!(harness.run_command(&["HGETALL", &harness.lock]), "u:1\n1");
    let remaining: u64 = harness.run_command(&["PTTL", &harness.lock]).parse().expect("it is a number");
    assert!((1..=30_000).contains(&remaining), "{remaining}");
}

async fn a_held_lock_is_refused_with_its_remaining_time(harness: &Harness<'_>) {
    harness.execute(harness.acquire("u:1", "30000")).await;
    let refused = harness.execute(harness.acquire("u:2", "60000")).await;
    assert!(matches!(refused, Reply::Int(1..=30_000)), "{refused:?}");
    assert_eq!(harness.run_command(&["HKEYS", &harness.lock]), "u:1");
}

async fn a_duplicate_acquire_finds_its_own_hold(harness: &Harness<'_>) {
    harness.execute(harness.acquire("u:1", "30000")).await;
    assert_eq!(harness.execute(harness.acquire("u:1", "60000")).await, Reply::Nil);
    assert_eq!(harness.run_command(&["HGETALL", &harness.lock]), "u:1\n1");
    let remaining: u64 = harness.run_command(&["PTTL", &harness.lock]).parse().expect("it is a number");
    assert!(remaining > 30_000, "{remaining}");
}

async fn an_expired_lock_is_free(harness: &Harness<'_>) {
    harness.execute(harness.acquire("u:1", "3")).await;
    until("the lease to pass", async || {
        (harness.execute(harness.acquire("u:2", "30000")).await == Reply::Nil).then_some(())
    })
    .await;
    assert_eq!(harness.run_command(&["HKEYS", &harness.lock]), "u:2");
}

async fn a_hold_without_expiry_is_reported(harness: &Harness<'_>) {
    harness.run_command(&["HSET", &harness.lock, "u:9", "1"]);
    assert_eq!(harness.execute(harness.acquire("u:1", "30000")).await, Reply::Int(-1));
    assert_eq!(
        harness.execute(harness.inspect("u:9")).await,
        Reply::Array(vec![Reply::Int(-1), Reply::Int(1)])
    );
}

async fn a_renewal_sets_the_lease_and_never_shortens_it(harness: &Harness<'_>) {
    harness.execute(harness.acquire("u:1", "30000")).await;
    let remaining = || harness.run_command(&["PTTL", &harness.lock]).parse::<u64>().expect("it is a number");
    assert_eq!(harness.execute(harness.renew("u:1", "90000", "0")).await, Reply::Int(1));
    assert!(remaining() > 60_000);
    assert_eq!(harness.execute(harness.renew("u:1", "10", "0")).await, Reply::Int(1));
    assert!(remaining() > 60_000);
}

async fn a_renewal_sets_the_count(harness: &Harness<'_>) {
    harness.execute(harness.acquire("u:1", "30000")).await;
    for _ in 0..2 {
        assert_eq!(harness.execute(harness.renew("u:1", "30000", "3")).await, Reply::Int(1));
        assert_eq!(harness.run_command(&["HGET", &harness.lock, "u:1"]), "3");
    }
}

async fn a_renewal_of_a_missing_or_foreign_hold_changes_nothing(harness: &Harness<'_>) {
    assert_eq!(harness.execute(harness.renew("u:1", "30000", "1")).await, Reply::Int(0));
    assert_eq!(harness.run_command(&["EXISTS", &harness.lock]), "0");
    harness.execute(harness.acquire("u:2", "30000")).await;
    assert_eq!(harness.execute(harness.renew("u:1", "90000", "1")).await, Reply::Int(-1));
    assert_eq!(harness.run_command(&["HKEYS", &harness.lock]), "u:2");
}

async fn a_hold_that_passes_on_is_renewed_and_its_listeners_are_counted(harness: &Harness<'_>) {
    harness.execute(harness.acquire("u:1", "30000")).await;
    harness.execute(harness.renew("u:1", "30000", "2")).await;
    let remaining = || harness.run_command(&["PTTL", &harness.lock]).parse::<u64>().expect("it is a number");
    let ask = async |lease_ms| harness.execute(harness.hand_off("u:1", lease_ms, "NUMSUB")).await;
    assert_eq!(ask("90000").await, Reply::Int(2), "no connection listens");
    assert!(remaining() > 60_000);
    let (_listening, _heard) = harness.listen().await;
    assert_eq!(ask("10").await, Reply::Int(3), "one connection listens");
    assert!(remaining() > 60_000, "the lease is never shortened");
    assert_eq!(harness.run_command(&["HGETALL", &harness.lock]), "u:1\n2", "the count stays");
}

async fn a_hold_that_passes_on_and_is_gone_is_not_renewed(harness: &Harness<'_>) {
    let ask = async || harness.execute(harness.hand_off("u:1", "90000", "NUMSUB")).await;
    assert_eq!(ask().await, Reply::Int(0));
    assert_eq!(harness.run_command(&["EXISTS", &harness.lock]), "0");
    harness.execute(harness.acquire("u:2", "30000")).await;
    assert_eq!(ask().await, Reply::Int(-1));
    let remaining: u64 = harness.run_command(&["PTTL", &harness.lock]).parse().expect("it is a number");
    assert!(remaining <= 30_000, "{remaining}");
}

async fn a_release_frees_the_lock_and_wakes_waiters(harness: &Harness<'_>) {
    let (_listening, mut heard) = harness.listen().await;
    harness.execute(harness.acquire("u:1", "30000")).await;
    assert_eq!(harness.execute(harness.release("u:1", "0")).await, Reply::Int(2), "one connection listens");
    assert_eq!(harness.run_command(&["EXISTS", &harness.lock]), "0");
    assert_eq!(next(&mut heard).await, Heard::Message(harness.channel(), b"0".to_vec()));
}

async fn a_partial_release_keeps_the_lease_and_wakes_no_waiter(harness: &Harness<'_>) {
    let (_listening, mut heard) = harness.listen().await;
    harness.execute(harness.acquire("u:1", "30000")).await;
    harness.execute(harness.renew("u:1", "30000", "2")).await;
    assert_eq!(harness.execute(harness.release("u:1", "1")).await, Reply::Int(0));
    assert_eq!(harness.run_command(&["HGET", &harness.lock, "u:1"]), "1");
    let remaining: u64 = harness.run_command(&["PTTL", &harness.lock]).parse().expect("it is a number");
    assert!(remaining > 0);
    // The first message is the test's own, so the release published none.
    harness.run_command(&["PUBLISH", &harness.channel().to_string(), "now"]);
    assert_eq!(next(&mut heard).await, Heard::Message(harness.channel(), b"now".to_vec()));
}

async fn a_foreign_release_changes_nothing(harness: &Harness<'_>) {
    harness.execute(harness.acquire("u:1", "30000")).await;
    assert_eq!(harness.execute(harness.release("u:2", "0")).await, Reply::Nil);
    assert_eq!(harness.run_command(&["HGETALL", &harness.lock]), "u:1\n1");
}

async fn a_duplicate_release_reports_no_hold(harness: &Harness<'_>) {
    harness.execute(harness.acquire("u:1", "30000")).await;
    assert_eq!(harness.execute(harness.release("u:1", "0")).await, Reply::Int(1));
    assert_eq!(harness.execute(harness.release("u:1", "0")).await, Reply::Nil);
}

async fn a_forced_release_frees_the_lock_of_any_holder(harness: &Harness<'_>) {
    assert_eq!(harness.execute(harness.force_release()).await, Reply::Int(0));
    let (_listening, mut heard) = harness.listen().await;
    harness.execute(harness.acquire("u:1", "30000")).await;
    assert_eq!(harness.execute(harness.force_release()).await, Reply::Int(1));
    assert_eq!(harness.run_command(&["EXISTS", &harness.lock]), "0");
    assert_eq!(next(&mut heard).await, Heard::Message(harness.channel(), b"0".to_vec()));
}

async fn an_inspection_returns_the_remaining_time_and_the_count(harness: &Harness<'_>) {
    assert_eq!(harness.execute(harness.inspect("")).await, Reply::Array(vec![Reply::Int(-2), Reply::Int(0)]));
    harness.execute(harness.acquire("u:1", "30000")).await;
    harness.execute(harness.renew("u:1", "30000", "2")).await;
    for (owner, count) in [("u:1", 2), ("u:2", 0)] {
        let Reply::Array(items) = harness.execute(harness.inspect(owner)).await else {
            panic!("an inspection answers with an array");
        };
        assert!(
            matches!(items[..], [Reply::Int(1..=30_000), Reply::Int(found)] if found == count),
            "{items:?}"
        );
    }
}

async fn arguments_are_checked_before_the_first_write(harness: &Harness<'_>) {
    for lease in ["0", "-1", "1.5", "abc", "", "9007199254740992"] {
        let refused = harness.run(harness.acquire("u:1", lease)).await.expect_err("the lease is wrong");
        assert_eq!((refused.kind, refused.applied), (StoreErrorKind::Server, Applied::No), "{lease}");
    }
    assert_eq!(harness.run_command(&["EXISTS", &harness.lock]), "0");
    harness.execute(harness.acquire("u:1", "30000")).await;
    for (lease, count) in [("0", "1"), ("30000", "-1"), ("30000", "0.5"), ("30000", "x")] {
        let refused =
            harness.run(harness.renew("u:1", lease, count)).await.expect_err("an argument is wrong");
        assert_eq!((refused.kind, refused.applied), (StoreErrorKind::Server, Applied::No), "{lease} {count}");
    }
    for remaining in ["-1", "0.5", "x", ""] {
        let refused = harness.run(harness.release("u:1", remaining)).await.expect_err("the count is wrong");
        assert_eq!((refused.kind, refused.applied), (StoreErrorKind::Server, Applied::No), "{remaining}");
    }
    assert_eq!(harness.run_command(&["HGETALL", &harness.lock]), "u:1\n1");
}

async fn a_key_of_another_type_stays_untouched(harness: &Harness<'_>) {
    harness.run_command(&["SET", &harness.lock, "mine"]);
    let calls = [
        harness.acquire("u:1", "30000"),
        harness.renew("u:1", "30000", "1"),
        harness.release("u:1", "0"),
        harness.force_release(),
        harness.inspect("u:1"),
    ];
    for call in calls {
        let refused = harness.run(call).await.expect_err("the key is a string");
        assert_eq!(refused.kind, StoreErrorKind::WrongType);
    }
    assert_eq!(harness.run_command(&["GET", &harness.lock]), "mine");
    assert_eq!(harness.run_command(&["PTTL", &harness.lock]), "-1");
}
