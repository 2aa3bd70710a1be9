//! The count-down latch's scripts, as its recipe sends them.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::CallContext;
use leasehold_proto::recipe::latch::{self, LATCH};
use leasehold_proto::{Channel, Reply, WireOwner};
use leasehold_store::Store;

use super::counters::{Counter, FRESH, operation};
use super::{Admin, Harness};

behaviors! {
    a_latch_is_open_at_zero_and_when_it_is_not_set,
    a_count_down_counts_once_and_publishes_only_zero,
    an_unset_latch_is_not_counted_below_zero,
    the_count_is_set_only_when_it_is_absent,
    a_deletion_is_reported_to_earlier_waiters,
    a_new_count_clears_a_deletion,
    arguments_are_checked_before_the_first_write,
    keys_of_other_types_are_rejected_unchanged,
}

/// An attempt of a waiter that has seen a positive count.
const REFUSED: CallContext = CallContext { refused: true, ..FRESH };

fn channel<S: Store, A: Admin>(latch: &Counter<'_, S, A>) -> Channel {
    let subject = Subject::new(&latch.name, &LATCH);
    let owner = WireOwner::new(leasehold_proto::ClientId::from_random([7; 16]), 1);
    subject.channels(owner).remove(0)
}

async fn a_latch_is_open_at_zero_and_when_it_is_not_set<S: Store, A: Admin>(harness: &Harness<'_, S, A>) {
    let counter = Counter::new(harness, "latch");
    for context in [FRESH, REFUSED] {
        harness.run_command(&["DEL", counter.name.as_str()]);
        assert_eq!(counter.acquire(&LATCH, (1, 1), context).await, Reply::Int(0));
        counter.set("2");
        assert_eq!(counter.acquire(&LATCH, (1, 1), context).await, Reply::Int(2));
        counter.set("0");
        assert_eq!(counter.acquire(&LATCH, (1, 1), context).await, Reply::Int(0));
        counter.set("-3");
        assert_eq!(counter.acquire(&LATCH, (1, 1), context).await, Reply::Int(0));
        assert_eq!(counter.value(), "-3", "waiting changes nothing");
    }
}

async fn a_count_down_counts_once_and_publishes_only_zero<S: Store, A: Admin>(harness: &Harness<'_, S, A>) {
    let counter = Counter::new(harness, "latch");
    let mut listener = counter.listen(channel(&counter)).await;
    counter.set("2");
    for _ in 0..3 {
        assert_eq!(harness.execute(latch::count_down(&counter.name, &operation(1))).await, Reply::Int(1));
        assert_eq!(counter.value(), "1");
    }
    listener.receives_nothing().await;
    for _ in 0..3 {
        assert_eq!(harness.execute(latch::count_down(&counter.name, &operation(2))).await, Reply::Int(0));
        assert_eq!(harness.run_command(&["EXISTS", counter.name.as_str()]), "0");
    }
    listener.receives("0").await;
    // A late duplicate arrives after the latch is set again.
    counter.set("5");
    assert_eq!(harness.execute(latch::count_down(&counter.name, &operation(2))).await, Reply::Int(0));
    assert_eq!(counter.value(), "5");
    listener.receives_nothing().await;
    assert_eq!(harness.execute(latch::inspect(&counter.name)).await, Reply::Int(5));
}

async fn an_unset_latch_is_not_counted_below_zero<S: Store, A: Admin>(harness: &Harness<'_, S, A>) {
    let counter = Counter::new(harness, "latch");
    let mut listener = counter.listen(channel(&counter)).await;
    assert_eq!(harness.execute(latch::count_down(&counter.name, &operation(1))).await, Reply::Int(0));
    assert_eq!(harness.run_command(&["EXISTS", counter.name.as_str()]), "0");
    for (number, value) in [(2, "0"), (3, "-4")] {
        counter.set(value);
        assert_eq!(
            harness.execute(latch::count_down(&counter.name, &operation(number))).await,
            Reply::Int(0)
        );
        assert_eq!(harness.run_command(&["EXISTS", counter.name.as_str()]), "0", "as in Redisson");
    }
    listener.receives_nothing().await;
}

async fn the_count_is_set_only_when_it_is_absent<S: Store, A: Admin>(harness: &Harness<'_, S, A>) {
    let counter = Counter::new(harness, "latch");
    let mut listener = counter.listen(channel(&counter)).await;
    for _ in 0..2 {
        assert_eq!(harness.execute(latch::try_set(&counter.name, &operation(1), 3)).await, Reply::Int(1));
    }
    listener.receives("1").await;
    assert_eq!(harness.execute(latch::try_set(&counter.name, &operation(2), 5)).await, Reply::Int(0));
    listener.receives_nothing().await;
    assert_eq!((counter.value(), counter.pttl(counter.name.as_str())), ("3".into(), -1));
}

async fn a_deletion_is_reported_to_earlier_waiters<S: Store, A: Admin>(harness: &Harness<'_, S, A>) {
    let counter = Counter::new(harness, "latch");
    let mut listener = counter.listen(channel(&counter)).await;
    assert_eq!(harness.execute(latch::delete(&counter.name, &operation(1))).await, Reply::Int(0));
    assert_eq!(harness.run_command(&["EXISTS", &counter.key("leasehold_latch_deleted")]), "0");
    listener.receives_nothing().await;
    counter.set("2");
    for _ in 0..2 {
        assert_eq!(harness.execute(latch::delete(&counter.name, &operation(2))).await, Reply::Int(1));
    }
    listener.receives("1").await;
    assert_eq!(harness.run_command(&["EXISTS", counter.name.as_str()]), "0");
    assert!((1..=60_000).contains(&counter.pttl(&counter.key("leasehold_latch_deleted"))));
    assert_eq!(counter.acquire(&LATCH, (1, 1), REFUSED).await, Reply::Int(-1));
    assert_eq!(counter.acquire(&LATCH, (2, 1), FRESH).await, Reply::Int(0), "as in Redisson");
}

async fn a_new_count_clears_a_deletion<S: Store, A: Admin>(harness: &Harness<'_, S, A>) {
    let counter = Counter::new(harness, "latch");
    let deleted = counter.key("leasehold_latch_deleted");
    harness.run_command(&["SET", &deleted, "1", "PX", "60000"]);
    harness.execute(latch::try_set(&counter.name, &operation(1), 3)).await;
    assert_eq!(harness.run_command(&["EXISTS", &deleted]), "0");
    // A Java client sets a new count without removing the mark of the deletion. The next waiter removes it.
    harness.run_command(&["SET", &deleted, "1", "PX", "60000"]);
    assert_eq!(counter.acquire(&LATCH, (1, 1), FRESH).await, Reply::Int(3));
    assert_eq!(harness.run_command(&["EXISTS", &deleted]), "0");
}

async fn arguments_are_checked_before_the_first_write<S: Store, A: Admin>(harness: &Harness<'_, S, A>) {
    let counter = Counter::new(harness, "latch");
    let (set, delete) =
        (latch::try_set(&counter.name, &operation(1), 1), latch::delete(&counter.name, &operation(2)));
    counter.refuses(&set, "count", &["-1", "1.5", "abc", ""]).await;
    counter.refuses(&set, "done_ms", &["abc", ""]).await;
    counter.refuses(&delete, "deleted_ms", &["abc", ""]).await;
    counter.refuses(&latch::count_down(&counter.name, &operation(3)), "done_ms", &["abc", ""]).await;
}

async fn keys_of_other_types_are_rejected_unchanged<S: Store, A: Admin>(harness: &Harness<'_, S, A>) {
    let counter = Counter::new(harness, "latch");
    counter
        .rejects_other_types(|counter| {
            let (wait, _) = counter.acquire_and_release(&LATCH, (1, 1));
            vec![wait, latch::count_down(&counter.name, &operation(1)), latch::inspect(&counter.name)]
        })
        .await;
    harness.run_command(&["DEL", counter.name.as_str()]);
    harness.run_command(&["HSET", counter.name.as_str(), "field", "1"]);
    for call in [latch::try_set(&counter.name, &operation(2), 1), latch::delete(&counter.name, &operation(3))]
    {
        assert!(harness.run(call).await.is_err());
    }
    assert_eq!(harness.run_command(&["HGETALL", counter.name.as_str()]), "field\n1");
}
