//! The semaphore's scripts, as its recipes send them, with and without a queue.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use std::time::Duration;

use leasehold_proto::recipe::semaphore::{self, FIFO_SEMAPHORE, SEMAPHORE};
use leasehold_proto::{Recipe, Reply};

use super::counters::{Counter, EXPIRED, FRESH, ONCE, UNCERTAIN, operation};
use super::{Harness, until};

behaviors! {
    permits_are_acquired_when_enough_are_available,
    a_duplicate_acquire_takes_permits_once,
    a_release_returns_acquired_permits_once,
    a_release_without_a_marker_counts_only_if_the_marker_can_have_expired,
    a_semaphore_whose_lifetime_is_over_stays_gone,
    permits_do_not_bring_a_deleted_semaphore_back,
    late_calls_find_that_their_acquisition_has_ended,
    a_duplicate_operation_has_one_effect_and_the_same_reply,
    the_permit_count_is_set_once_with_or_without_an_expiry,
    adding_permits_removes_an_expiry_and_acquiring_keeps_it,
    a_queue_is_served_from_its_head,
    a_grant_with_permits_left_wakes_the_next_in_the_queue,
    a_leaving_waiter_wakes_the_next,
    an_unseen_waiter_is_passed_over,
    an_attempt_that_drops_an_unseen_waiter_wakes_the_next,
    a_head_seen_in_the_future_is_skipped_within_seconds,
    an_abandoned_queue_expires,
    arguments_are_checked_before_the_first_write,
    keys_of_other_types_are_rejected_unchanged,
    an_expirable_semaphore_is_rejected,
}

/// Returns both kinds of semaphore, each with a counter of its own.
fn both<'a>(harness: &'a Harness<'a>) -> [(Counter<'a>, &'static Recipe); 2] {
    [(Counter::new(harness, "sc"), &SEMAPHORE), (Counter::new(harness, "fifo"), &FIFO_SEMAPHORE)]
}

const TAKEN: Reply = Reply::Int(1);
const REFUSED: Reply = Reply::Int(0);

async fn permits_are_acquired_when_enough_are_available(harness: &Harness<'_>) {
    for (sc, recipe) in both(harness) {
        assert_eq!(sc.acquire(recipe, (1, 1), ONCE).await, REFUSED, "their number was never set");
        assert_eq!(harness.run_command(&["EXISTS", sc.name.as_str()]), "0");
        sc.set("3");
        assert_eq!(sc.acquire(recipe, (2, 2), FRESH).await, TAKEN);
        assert_eq!((sc.value(), harness.run_command(&["GET", &sc.marker(2)])), ("1".into(), "2".into()));
        assert!((1..=3_600_000).contains(&sc.pttl(&sc.marker(2))));
        assert_eq!(sc.acquire(recipe, (3, 2), ONCE).await, REFUSED);
        assert_eq!(sc.acquire(recipe, (4, 0), ONCE).await, TAKEN, "of nothing there is enough");
        assert_eq!(sc.acquire(recipe, (5, 1), FRESH).await, TAKEN);
        assert_eq!(sc.value(), "0");
        sc.set("-2");
        assert_eq!(sc.acquire(recipe, (6, 1), ONCE).await, REFUSED);
        assert_eq!(sc.acquire(recipe, (7, 0), ONCE).await, TAKEN);
    }
}

async fn a_duplicate_acquire_takes_permits_once(harness: &Harness<'_>) {
    for (sc, recipe) in both(harness) {
        sc.set("3");
        for context in [FRESH, FRESH, UNCERTAIN, UNCERTAIN, FRESH] {
            assert_eq!(sc.acquire(recipe, (1, 3), context).await, TAKEN);
            assert_eq!(sc.value(), "0");
        }
    }
}

async fn a_release_returns_acquired_permits_once(harness: &Harness<'_>) {
    for (sc, recipe) in both(harness) {
        let mut listener = sc.listen(sc.channel()).await;
        sc.set("3");
        sc.acquire(recipe, (1, 2), FRESH).await;
        let heard = if recipe.keep_alive.is_none() { Reply::Int(2) } else { TAKEN };
        assert_eq!(sc.release(recipe, (1, 2), FRESH).await, heard, "one connection listens");
        assert_eq!(sc.value(), "3");
        listener.receives("3").await;
        assert_eq!(
            harness.run_command(&["EXISTS", &sc.marker(1)]),
            "0",
            "nothing is left of an ordinary one"
        );
        assert_eq!(sc.release(recipe, (1, 2), UNCERTAIN).await, REFUSED);
        assert_eq!(sc.release(recipe, (2, 0), FRESH).await, TAKEN);
        assert_eq!(sc.value(), "3");
        listener.receives_nothing().await;
    }
}

async fn a_release_without_a_marker_counts_only_if_the_marker_can_have_expired(harness: &Harness<'_>) {
    for (sc, recipe) in both(harness) {
        sc.set("1");
        assert_eq!(sc.release(recipe, (1, 2), FRESH).await, REFUSED, "there was no grant");
        let mut again = EXPIRED;
        again.uncertain = true;
        assert_eq!(sc.release(recipe, (2, 2), again).await, TAKEN, "no earlier attempt has left its zero");
        assert_eq!(sc.release(recipe, (2, 2), again).await, REFUSED, "this one has");
        assert_eq!(sc.value(), "3");
        assert!((1..=3_600_000).contains(&sc.pttl(&sc.marker(2))));
    }
}

async fn a_semaphore_whose_lifetime_is_over_stays_gone(harness: &Harness<'_>) {
    for (sc, recipe) in both(harness) {
        let limited =
            |number, ms| semaphore::try_set(&sc.name, &operation(number), 2, Some(Duration::from_millis(ms)));
        harness.execute(limited(1, 1_500)).await;
        assert_eq!(sc.acquire(recipe, (1, 1), FRESH).await, TAKEN);
        assert!((1..=1_500).contains(&sc.pttl(&sc.marker(1))), "the marker ends with the semaphore");
        assert_eq!(sc.acquire(recipe, (2, 1), UNCERTAIN).await, TAKEN);
        let is_over = || (harness.run_command(&["EXISTS", sc.name.as_str()]) == "0").then_some(());
        until("the end of the lifetime", async || is_over()).await;
        let mut old = EXPIRED;
        for context in [FRESH, UNCERTAIN, old] {
            assert_eq!(sc.release(recipe, (1, 1), context).await, REFUSED);
        }
        assert_eq!(harness.run_command(&["EXISTS", sc.name.as_str()]), "0", "no release brings it back");
        // The permits of the next semaphore of this name are its own.
        harness.execute(limited(2, 60_000)).await;
        old.uncertain = true;
        for (owner, context) in [(1, FRESH), (2, UNCERTAIN), (3, old)] {
            assert_eq!(sc.release(recipe, (owner, 1), context).await, REFUSED);
        }
        assert_eq!(sc.value(), "2");
        assert_eq!(sc.acquire(recipe, (5, 1), FRESH).await, TAKEN);
        assert_ne!(sc.release(recipe, (5, 1), FRESH).await, REFUSED);
        assert_eq!(sc.value(), "2");
        assert!(sc.pttl(sc.name.as_str()) > 0, "it keeps its lifetime");
        sc.set("2");
    }
}

async fn permits_do_not_bring_a_deleted_semaphore_back(harness: &Harness<'_>) {
    for (sc, recipe) in both(harness) {
        sc.set("3");
        assert_eq!(sc.acquire(recipe, (1, 2), FRESH).await, TAKEN);
        harness.run_command(&["DEL", sc.name.as_str()]);
        assert_eq!(sc.release(recipe, (1, 2), FRESH).await, REFUSED);
        assert_eq!(harness.run_command(&["EXISTS", sc.name.as_str(), &sc.marker(1)]), "0");
    }
}

async fn late_calls_find_that_their_acquisition_has_ended(harness: &Harness<'_>) {
    for (sc, recipe) in both(harness) {
        sc.set("9");
        // The undo arrives before the acquire.
        assert_eq!(sc.release(recipe, (1, 2), UNCERTAIN).await, REFUSED);
        assert_eq!(sc.acquire(recipe, (1, 2), FRESH).await, REFUSED);
        // The undo arrives after the acquire, and then a duplicate of the acquire.
        sc.acquire(recipe, (2, 2), FRESH).await;
        assert_eq!(sc.release(recipe, (2, 2), UNCERTAIN).await, TAKEN);
        assert_eq!(sc.acquire(recipe, (2, 2), FRESH).await, REFUSED);
        // The release arrives while an earlier attempt of the acquire may still arrive.
        sc.acquire(recipe, (3, 2), UNCERTAIN).await;
        assert_eq!(sc.release(recipe, (3, 2), FRESH).await, TAKEN);
        assert_eq!(sc.acquire(recipe, (3, 2), FRESH).await, REFUSED);
        // The second attempt of the release takes effect, and then the first attempt arrives.
        sc.acquire(recipe, (4, 2), FRESH).await;
        assert_eq!(sc.release(recipe, (4, 2), UNCERTAIN).await, TAKEN);
        assert_eq!(sc.release(recipe, (4, 2), FRESH).await, REFUSED);
        assert_eq!(sc.value(), "9");
        for number in 1..=4 {
            assert_eq!(harness.run_command(&["GET", &sc.marker(number)]), "0");
            assert!((1..=3_600_000).contains(&sc.pttl(&sc.marker(number))));
        }
    }
}

async fn a_duplicate_operation_has_one_effect_and_the_same_reply(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "sc");
    let mut listener = sc.listen(sc.channel()).await;
    let calls = [
        (semaphore::try_set(&sc.name, &operation(1), 3, None), 1, "3"),
        (semaphore::add(&sc.name, &operation(2), -9), -6, "-6"),
        (semaphore::return_permits(&sc.name, &operation(3), 16), 10, "10"),
        (semaphore::drain(&sc.name, &operation(4)), 10, ""),
    ];
    for (call, answer, message) in calls {
        for _ in 0..2 {
            assert_eq!(harness.execute(call.clone()).await, Reply::Int(answer), "{call:?}");
        }
        if !message.is_empty() {
            listener.receives(message).await;
        }
        listener.receives_nothing().await;
    }
    assert_eq!(sc.value(), "0");
    let done = format!("{}:{}", sc.key("leasehold_op"), operation(2));
    assert_eq!(harness.run_command(&["GET", &done]), "-6");
    assert!((1..=63_000).contains(&sc.pttl(&done)));
    assert_eq!(harness.execute(semaphore::inspect(&sc.name)).await, Reply::Int(0));
}

async fn the_permit_count_is_set_once_with_or_without_an_expiry(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "sc");
    let minute = Some(Duration::from_secs(60));
    assert_eq!(harness.execute(semaphore::try_set(&sc.name, &operation(1), 3, minute)).await, Reply::Int(1));
    assert!((1..=60_000).contains(&sc.pttl(sc.name.as_str())));
    assert_eq!(harness.execute(semaphore::try_set(&sc.name, &operation(2), 5, None)).await, Reply::Int(0));
    assert_eq!(sc.value(), "3");
    harness.run_command(&["DEL", sc.name.as_str()]);
    assert_eq!(harness.execute(semaphore::try_set(&sc.name, &operation(3), 7, None)).await, Reply::Int(1));
    assert_eq!((sc.value(), sc.pttl(sc.name.as_str())), ("7".into(), -1));
}

async fn adding_permits_removes_an_expiry_and_acquiring_keeps_it(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "sc");
    let minute = Some(Duration::from_secs(60));
    harness.execute(semaphore::try_set(&sc.name, &operation(1), 3, minute)).await;
    sc.acquire(&SEMAPHORE, (1, 2), FRESH).await;
    sc.release(&SEMAPHORE, (1, 2), FRESH).await;
    harness.execute(semaphore::return_permits(&sc.name, &operation(2), 1)).await;
    assert!(sc.pttl(sc.name.as_str()) > 0);
    harness.execute(semaphore::add(&sc.name, &operation(3), 1)).await;
    assert_eq!((sc.value(), sc.pttl(sc.name.as_str())), ("5".into(), -1));
}

async fn a_queue_is_served_from_its_head(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "fifo");
    sc.set("0");
    for number in [1, 2, 3, 2] {
        assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (number, 1), FRESH).await, REFUSED);
    }
    assert_eq!(harness.run_command(&["LLEN", &sc.key("leasehold_sc_queue")]), "3");
    sc.set("2");
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (3, 1), FRESH).await, REFUSED);
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (9, 1), ONCE).await, REFUSED, "others are before it");
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await, TAKEN);
    assert_eq!(
        sc.acquire(&FIFO_SEMAPHORE, (2, 2), FRESH).await,
        REFUSED,
        "the head waits for more than there is"
    );
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (3, 1), FRESH).await, REFUSED, "and those behind it wait with it");
    assert_eq!(sc.acquire(&SEMAPHORE, (9, 1), FRESH).await, TAKEN, "who does not stand there passes");
    assert_eq!(harness.run_command(&["LLEN", &sc.key("leasehold_sc_queue")]), "2");
    assert_eq!(harness.run_command(&["ZCARD", &sc.key("leasehold_sc_seen")]), "2");
}

async fn a_grant_with_permits_left_wakes_the_next_in_the_queue(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "fifo");
    sc.set("0");
    for number in [1, 2] {
        sc.acquire(&FIFO_SEMAPHORE, (number, 1), FRESH).await;
    }
    sc.set("3");
    let mut listener = sc.listen(sc.channel()).await;
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await, TAKEN);
    listener.receives("2").await;
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (2, 1), FRESH).await, TAKEN);
    listener.receives_nothing().await;
}

async fn a_leaving_waiter_wakes_the_next(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "fifo");
    sc.set("1");
    sc.acquire(&FIFO_SEMAPHORE, (1, 2), FRESH).await;
    sc.acquire(&FIFO_SEMAPHORE, (2, 1), FRESH).await;
    let mut listener = sc.listen(sc.channel()).await;
    assert_eq!(sc.release(&FIFO_SEMAPHORE, (1, 2), FRESH).await, REFUSED, "it had taken nothing");
    listener.receives("1").await;
    assert_eq!(sc.release(&FIFO_SEMAPHORE, (1, 2), FRESH).await, REFUSED);
    listener.receives_nothing().await;
    assert_eq!(harness.run_command(&["EXISTS", &sc.marker(1)]), "0");
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (2, 1), FRESH).await, TAKEN);
    assert_eq!(
        harness.run_command(&["EXISTS", &sc.key("leasehold_sc_queue"), &sc.key("leasehold_sc_seen")]),
        "0"
    );
}

async fn an_unseen_waiter_is_passed_over(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "fifo");
    let seconds: u64 =
        harness.run_command(&["TIME"]).lines().next().expect("it has two").parse().expect("a number");
    let (queue, seen) = (sc.key("leasehold_sc_queue"), sc.key("leasehold_sc_seen"));
    sc.set("1");
    harness.run_command(&["RPUSH", &queue, "dead:1", "no-score:1", "quiet:1"]);
    harness.run_command(&["ZADD", &seen, &((seconds - 7) * 1000).to_string(), "dead:1"]);
    harness.run_command(&["ZADD", &seen, &((seconds - 2) * 1000).to_string(), "quiet:1"]);
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await, REFUSED);
    let waiting = harness.run_command(&["LRANGE", &queue, "0", "-1"]);
    assert_eq!(waiting.lines().collect::<Vec<_>>()[0], "quiet:1", "{waiting}");
    assert_eq!(waiting.lines().count(), 2, "{waiting}");
    let granted = until("it to be passed by as well", async || {
        (sc.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await == TAKEN).then_some(())
    });
    granted.await;
    assert_eq!(harness.run_command(&["EXISTS", &queue, &seen]), "0");
}

async fn an_attempt_that_drops_an_unseen_waiter_wakes_the_next(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "fifo");
    sc.set("1");
    sc.acquire(&FIFO_SEMAPHORE, (1, 2), FRESH).await;
    harness.run_command(&["LPUSH", &sc.key("leasehold_sc_queue"), "dead:1"]);
    let mut listener = sc.listen(sc.channel()).await;
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (2, 1), ONCE).await, REFUSED);
    listener.receives("1").await;
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (2, 1), ONCE).await, REFUSED);
    listener.receives_nothing().await;
}

async fn a_head_seen_in_the_future_is_skipped_within_seconds(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "fifo");
    let seconds: i64 =
        harness.run_command(&["TIME"]).lines().next().expect("it has two").parse().expect("a number");
    let (queue, seen) = (sc.key("leasehold_sc_queue"), sc.key("leasehold_sc_seen"));
    sc.set("1");
    harness.run_command(&["RPUSH", &queue, "dead:1"]);
    harness.run_command(&["ZADD", &seen, &((seconds + 3_600) * 1_000).to_string(), "dead:1"]);
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await, REFUSED);
    let shown: f64 = harness.run_command(&["ZSCORE", &seen, "dead:1"]).parse().expect("it still waits");
    assert!((shown as i64) < (seconds + 60) * 1_000, "{shown} is no time of now, {seconds} s");
    harness.run_command(&["ZADD", &seen, &((seconds - 7) * 1_000).to_string(), "dead:1"]);
    assert_eq!(sc.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await, TAKEN, "and is passed by like any other");
}

async fn an_abandoned_queue_expires(harness: &Harness<'_>) {
    let sc = Counter::new(harness, "fifo");
    sc.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await;
    for key in [sc.key("leasehold_sc_queue"), sc.key("leasehold_sc_seen")] {
        assert!((1..=10_000).contains(&sc.pttl(&key)));
        harness.run_command(&["PEXPIRE", &key, "500"]);
    }
    sc.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await;
    assert!(sc.pttl(&sc.key("leasehold_sc_queue")) > 5_000, "who shows itself keeps it");
}

async fn arguments_are_checked_before_the_first_write(harness: &Harness<'_>) {
    const NO_COUNT: [&str; 5] = ["-1", "1.5", "abc", "", "nan"];
    for (sc, recipe) in both(harness) {
        for number in [1, 2] {
            let (acquire, release) = sc.acquire_and_release(recipe, (number, 1));
            sc.refuses(&acquire, "permits", &NO_COUNT).await;
            sc.refuses(&release, "permits", &NO_COUNT).await;
        }
    }
    let sc = Counter::new(harness, "sc");
    sc.refuses(&semaphore::try_set(&sc.name, &operation(1), 3, None), "permits", &["1.5", "abc", ""]).await;
    let set = semaphore::try_set(&sc.name, &operation(1), 3, None);
    sc.refuses(&set, "lifetime_ms", &["-1", "1.5", "abc", "", "9007199254740992"]).await;
    sc.refuses(&semaphore::add(&sc.name, &operation(2), 3), "permits", &["1.5", "abc", ""]).await;
    sc.refuses(&semaphore::return_permits(&sc.name, &operation(3), 3), "permits", &NO_COUNT).await;
    sc.refuses(&semaphore::drain(&sc.name, &operation(4)), "done_ms", &["", "abc"]).await;
}

async fn keys_of_other_types_are_rejected_unchanged(harness: &Harness<'_>) {
    for (sc, recipe) in both(harness) {
        sc.rejects_other_types(|sc| {
            let (acquire, release) = sc.acquire_and_release(recipe, (1, 1));
            vec![
                acquire,
                release,
                semaphore::add(&sc.name, &operation(1), 1),
                semaphore::return_permits(&sc.name, &operation(2), 1),
                semaphore::drain(&sc.name, &operation(3)),
                semaphore::inspect(&sc.name),
            ]
        })
        .await;
        harness.run_command(&["DEL", sc.name.as_str()]);
        harness.run_command(&["HSET", sc.name.as_str(), "field", "1"]);
        assert!(harness.run(semaphore::try_set(&sc.name, &operation(4), 1, None)).await.is_err());
        assert_eq!(harness.run_command(&["HGETALL", sc.name.as_str()]), "field\n1");
    }
}

async fn an_expirable_semaphore_is_rejected(harness: &Harness<'_>) {
    for (sc, recipe) in both(harness) {
        sc.set("3");
        harness.run_command(&["ZADD", &sc.ids(), "922337203685477", "sixteen-bytes-id"]);
        let (acquire, release) = sc.acquire_and_release(recipe, (1, 1));
        let calls = [
            acquire,
            release,
            semaphore::return_permits(&sc.name, &operation(1), 1),
            semaphore::inspect(&sc.name),
        ];
        for call in calls {
            let refused = harness.run(call).await.expect_err("its permits have ids");
            assert_eq!(refused.kind, leasehold_proto::StoreErrorKind::WrongType);
        }
        assert_eq!(sc.value(), "3");
    }
}
