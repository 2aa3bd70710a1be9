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
use super::{Admin, Bench};

behaviours! {
    a_latch_is_open_at_zero_and_when_it_is_not_set,
    a_count_down_counts_once_and_tells_of_zero_alone,
    what_is_not_set_is_not_taken_below_zero,
    the_count_is_set_when_there_is_none,
    a_deletion_is_told_to_those_who_waited_before,
    a_new_count_ends_a_deletion,
    arguments_are_checked_before_the_first_write,
    other_kinds_of_keys_are_refused_and_stay_untouched,
}

/// An attempt of a waiter that has seen a positive count.
const REFUSED: CallContext = CallContext { refused: true, ..FRESH };

fn channel<S: Store, A: Admin>(latch: &Counter<'_, S, A>) -> Channel {
    let subject = Subject::new(&latch.name, &LATCH);
    let owner = WireOwner::new(leasehold_proto::ClientId::from_random([7; 16]), 1);
    subject.channels(owner).remove(0)
}

async fn a_latch_is_open_at_zero_and_when_it_is_not_set<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let counter = Counter::new(bench, "latch");
    for context in [FRESH, REFUSED] {
        bench.tell(&["DEL", counter.name.as_str()]);
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

async fn a_count_down_counts_once_and_tells_of_zero_alone<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let counter = Counter::new(bench, "latch");
    let mut ear = counter.listen(channel(&counter)).await;
    counter.set("2");
    for _ in 0..3 {
        assert_eq!(bench.ask(latch::count_down(&counter.name, &operation(1))).await, Reply::Int(1));
        assert_eq!(counter.value(), "1");
    }
    ear.hears_nothing().await;
    for _ in 0..3 {
        assert_eq!(bench.ask(latch::count_down(&counter.name, &operation(2))).await, Reply::Int(0));
        assert_eq!(bench.tell(&["EXISTS", counter.name.as_str()]), "0");
    }
    ear.hears("0").await;
    // A late duplicate arrives after the latch is set again.
    counter.set("5");
    assert_eq!(bench.ask(latch::count_down(&counter.name, &operation(2))).await, Reply::Int(0));
    assert_eq!(counter.value(), "5");
    ear.hears_nothing().await;
    assert_eq!(bench.ask(latch::inspect(&counter.name)).await, Reply::Int(5));
}

async fn what_is_not_set_is_not_taken_below_zero<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let counter = Counter::new(bench, "latch");
    let mut ear = counter.listen(channel(&counter)).await;
    assert_eq!(bench.ask(latch::count_down(&counter.name, &operation(1))).await, Reply::Int(0));
    assert_eq!(bench.tell(&["EXISTS", counter.name.as_str()]), "0");
    for (number, value) in [(2, "0"), (3, "-4")] {
        counter.set(value);
        assert_eq!(bench.ask(latch::count_down(&counter.name, &operation(number))).await, Reply::Int(0));
        assert_eq!(bench.tell(&["EXISTS", counter.name.as_str()]), "0", "as in Redisson");
    }
    ear.hears_nothing().await;
}

async fn the_count_is_set_when_there_is_none<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let counter = Counter::new(bench, "latch");
    let mut ear = counter.listen(channel(&counter)).await;
    for _ in 0..2 {
        assert_eq!(bench.ask(latch::try_set(&counter.name, &operation(1), 3)).await, Reply::Int(1));
    }
    ear.hears("1").await;
    assert_eq!(bench.ask(latch::try_set(&counter.name, &operation(2), 5)).await, Reply::Int(0));
    ear.hears_nothing().await;
    assert_eq!((counter.value(), counter.pttl(counter.name.as_str())), ("3".into(), -1));
}

async fn a_deletion_is_told_to_those_who_waited_before<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let counter = Counter::new(bench, "latch");
    let mut ear = counter.listen(channel(&counter)).await;
    assert_eq!(bench.ask(latch::delete(&counter.name, &operation(1))).await, Reply::Int(0));
    assert_eq!(bench.tell(&["EXISTS", &counter.key("leasehold_latch_deleted")]), "0");
    ear.hears_nothing().await;
    counter.set("2");
    for _ in 0..2 {
        assert_eq!(bench.ask(latch::delete(&counter.name, &operation(2))).await, Reply::Int(1));
    }
    ear.hears("1").await;
    assert_eq!(bench.tell(&["EXISTS", counter.name.as_str()]), "0");
    assert!((1..=60_000).contains(&counter.pttl(&counter.key("leasehold_latch_deleted"))));
    assert_eq!(counter.acquire(&LATCH, (1, 1), REFUSED).await, Reply::Int(-1));
    assert_eq!(counter.acquire(&LATCH, (2, 1), FRESH).await, Reply::Int(0), "as in Redisson");
}

async fn a_new_count_ends_a_deletion<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let counter = Counter::new(bench, "latch");
    let deleted = counter.key("leasehold_latch_deleted");
    bench.tell(&["SET", &deleted, "1", "PX", "60000"]);
    bench.ask(latch::try_set(&counter.name, &operation(1), 3)).await;
    assert_eq!(bench.tell(&["EXISTS", &deleted]), "0");
    // A Java client sets a new count without removing the mark of the deletion. The next waiter removes it.
    bench.tell(&["SET", &deleted, "1", "PX", "60000"]);
    assert_eq!(counter.acquire(&LATCH, (1, 1), FRESH).await, Reply::Int(3));
    assert_eq!(bench.tell(&["EXISTS", &deleted]), "0");
}

async fn arguments_are_checked_before_the_first_write<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let counter = Counter::new(bench, "latch");
    let (set, delete) =
        (latch::try_set(&counter.name, &operation(1), 1), latch::delete(&counter.name, &operation(2)));
    counter.refuses(&set, "count", &["-1", "1.5", "abc", ""]).await;
    counter.refuses(&set, "done_ms", &["abc", ""]).await;
    counter.refuses(&delete, "deleted_ms", &["abc", ""]).await;
    counter.refuses(&latch::count_down(&counter.name, &operation(3)), "done_ms", &["abc", ""]).await;
}

async fn other_kinds_of_keys_are_refused_and_stay_untouched<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let counter = Counter::new(bench, "latch");
    counter
        .leaves_others_alone(|counter| {
            let (wait, _) = counter.acquire_and_release(&LATCH, (1, 1));
            vec![wait, latch::count_down(&counter.name, &operation(1)), latch::inspect(&counter.name)]
        })
        .await;
    bench.tell(&["DEL", counter.name.as_str()]);
    bench.tell(&["HSET", counter.name.as_str(), "field", "1"]);
    for call in [latch::try_set(&counter.name, &operation(2), 1), latch::delete(&counter.name, &operation(3))]
    {
        assert!(bench.run(call).await.is_err());
    }
    assert_eq!(bench.tell(&["HGETALL", counter.name.as_str()]), "field\n1");
}
