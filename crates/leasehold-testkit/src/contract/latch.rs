//! The count-down latch's scripts, as its recipe sends them.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::latch::{self, LATCH};
use leasehold_proto::{Channel, Reply, WireOwner};

use super::Harness;
use super::counters::{Counter, FRESH, operation};

behaviors! {
    a_latch_is_open_at_zero_and_when_it_is_not_set,
    a_count_down_counts_once_and_publishes_only_zero,
    an_unset_latch_is_not_counted_below_zero,
    the_count_is_set_only_when_it_is_absent,
    a_deletion_is_noted_for_earlier_waiters,
    each_round_that_ends_is_noted_once_and_a_new_count_keeps_the_note,
    a_round_of_redisson_leaves_the_note_unchanged,
    a_text_that_is_no_note_counts_as_none,
    arguments_are_checked_before_the_first_write,
    keys_of_other_types_are_rejected_unchanged,
}

/// The prefix of the key of the note.
const NOTE: &str = "leasehold_latch_ended";

/// Returns the count, and the numbers of the last opening and the last deletion.
async fn look(latch: &Counter<'_>) -> [i64; 3] {
    let reply = latch.acquire(&LATCH, (1, 1), FRESH).await;
    let Reply::Array(items) = &reply else { panic!("{reply:?}") };
    let numbers: Vec<i64> =
        items.iter().map(|item| if let Reply::Int(it) = item { *it } else { -1 }).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{reply:?}"))
}

/// Counts down by one as the operation with this number.
async fn count_down(latch: &Counter<'_>, number: u64) -> Reply {
    latch.harness.execute(latch::count_down(&latch.name, &operation(number))).await
}

/// Deletes as the operation with this number.
async fn delete(latch: &Counter<'_>, number: u64) -> Reply {
    latch.harness.execute(latch::delete(&latch.name, &operation(number))).await
}

fn channel(latch: &Counter<'_>) -> Channel {
    let subject = Subject::new(&latch.name, &LATCH);
    let owner = WireOwner::new(leasehold_proto::ClientId::from_random([7; 16]), 1);
    subject.channels(owner).remove(0)
}

async fn a_latch_is_open_at_zero_and_when_it_is_not_set(harness: &Harness<'_>) {
    let counter = Counter::new(harness, "latch");
    assert_eq!(look(&counter).await, [0, 0, 0]);
    for value in [2, 0, -3] {
        counter.set(&value.to_string());
        assert_eq!(look(&counter).await, [value, 0, 0]);
    }
    assert_eq!(counter.value(), "-3", "waiting changes nothing");
}

async fn a_count_down_counts_once_and_publishes_only_zero(harness: &Harness<'_>) {
    let counter = Counter::new(harness, "latch");
    let mut listener = counter.listen(channel(&counter)).await;
    counter.set("2");
    for _ in 0..3 {
        assert_eq!(count_down(&counter, 1).await, Reply::Int(1));
        assert_eq!(counter.value(), "1");
    }
    listener.receives_nothing().await;
    for _ in 0..3 {
        assert_eq!(count_down(&counter, 2).await, Reply::Int(0));
        assert_eq!(harness.run_command(&["EXISTS", counter.name.as_str()]), "0");
    }
    listener.receives("0").await;
    // A late duplicate arrives after the latch is set again.
    counter.set("5");
    assert_eq!(count_down(&counter, 2).await, Reply::Int(0));
    assert_eq!(counter.value(), "5");
    listener.receives_nothing().await;
    assert_eq!(harness.execute(latch::inspect(&counter.name)).await, Reply::Int(5));
}

async fn an_unset_latch_is_not_counted_below_zero(harness: &Harness<'_>) {
    let counter = Counter::new(harness, "latch");
    let mut listener = counter.listen(channel(&counter)).await;
    assert_eq!(count_down(&counter, 1).await, Reply::Int(0));
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

async fn the_count_is_set_only_when_it_is_absent(harness: &Harness<'_>) {
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

async fn a_deletion_is_noted_for_earlier_waiters(harness: &Harness<'_>) {
    let counter = Counter::new(harness, "latch");
    let mut listener = counter.listen(channel(&counter)).await;
    assert_eq!(delete(&counter, 1).await, Reply::Int(0));
    assert_eq!(harness.run_command(&["EXISTS", &counter.key(NOTE)]), "0");
    listener.receives_nothing().await;
    counter.set("2");
    for _ in 0..2 {
        assert_eq!(delete(&counter, 2).await, Reply::Int(1));
    }
    listener.receives("1").await;
    listener.receives_nothing().await;
    assert_eq!(harness.run_command(&["EXISTS", counter.name.as_str()]), "0");
    assert!((1..=60_000).contains(&counter.pttl(&counter.key(NOTE))));
    let [count, opened, deleted] = look(&counter).await;
    assert!((count, opened) == (0, 0) && deleted > 0, "{deleted}");
}

async fn each_round_that_ends_is_noted_once_and_a_new_count_keeps_the_note(harness: &Harness<'_>) {
    let counter = Counter::new(harness, "latch");
    let set = async |number| {
        let set = latch::try_set(&counter.name, &operation(number), 1);
        assert_eq!(counter.harness.execute(set).await, Reply::Int(1));
    };
    let (mut last, mut numbers) = ([0, 0], Vec::new());
    for round in 0..6 {
        let deletes = round % 3 == 2;
        set(10 * round).await;
        assert_eq!(look(&counter).await, [1, last[0], last[1]], "a new count keeps the note");
        for _ in 0..2 {
            let number = 10 * round + 1;
            let reply =
                if deletes { delete(&counter, number).await } else { count_down(&counter, number).await };
            assert_eq!(reply, Reply::Int(i64::from(deletes)));
            let [count, opened, deleted] = look(&counter).await;
            assert_eq!(count, 0);
            assert_eq!([opened, deleted][usize::from(!deletes)], last[usize::from(!deletes)]);
            last = [opened, deleted];
            numbers.push(last[usize::from(deletes)]);
        }
        let repeated = numbers.pop();
        assert_eq!(repeated, numbers.last().copied(), "a repeated call ends no further round");
        assert!((1..=60_000).contains(&counter.pttl(&counter.key(NOTE))));
    }
    assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
    // The server's clock was set back after these rounds.
    let ahead = numbers[5] + 1_000_000_000;
    harness.run_command(&["SET", &counter.key(NOTE), &format!("{} {ahead}", numbers[5])]);
    set(70).await;
    assert_eq!(count_down(&counter, 71).await, Reply::Int(0));
    assert_eq!(look(&counter).await, [0, ahead + 1, ahead]);
}

async fn a_round_of_redisson_leaves_the_note_unchanged(harness: &Harness<'_>) {
    let counter = Counter::new(harness, "latch");
    counter.set("1");
    assert_eq!(count_down(&counter, 1).await, Reply::Int(0));
    let [_, opened, deleted] = look(&counter).await;
    // Redisson's set, count-down and deletion change the plain key alone.
    counter.set("3");
    assert_eq!(look(&counter).await, [3, opened, deleted]);
    harness.run_command(&["DEL", counter.name.as_str()]);
    assert_eq!(look(&counter).await, [0, opened, deleted]);
    // Neither counting down a missing latch nor one at zero ends a round.
    for value in [None, Some("0")] {
        value.into_iter().for_each(|value| counter.set(value));
        assert_eq!(count_down(&counter, 2).await, Reply::Int(0));
        assert_eq!(look(&counter).await, [0, opened, deleted]);
    }
}

async fn a_text_that_is_no_note_counts_as_none(harness: &Harness<'_>) {
    let counter = Counter::new(harness, "latch");
    // The note of the former layout has another key, and is read by nobody.
    harness.run_command(&["SET", &counter.key("leasehold_latch_deleted"), "1", "PX", "60000"]);
    for (number, text) in (1..).zip(["1", "", "7", "7 ", "-1 2", "1.5 2", "7 8 9"]) {
        counter.set("1");
        harness.run_command(&["SET", &counter.key(NOTE), text]);
        assert_eq!(look(&counter).await, [1, 0, 0], "{text:?}");
        assert_eq!(count_down(&counter, number).await, Reply::Int(0));
        let [count, opened, deleted] = look(&counter).await;
        assert!((count, deleted) == (0, 0) && opened > 0, "{text:?}");
        assert!((1..=60_000).contains(&counter.pttl(&counter.key(NOTE))), "{text:?}");
    }
}

async fn arguments_are_checked_before_the_first_write(harness: &Harness<'_>) {
    let counter = Counter::new(harness, "latch");
    let (set, delete) =
        (latch::try_set(&counter.name, &operation(1), 1), latch::delete(&counter.name, &operation(2)));
    counter.refuses(&set, "count", &["-1", "1.5", "abc", ""]).await;
    counter.refuses(&set, "done_ms", &["abc", ""]).await;
    let count_down = latch::count_down(&counter.name, &operation(3));
    for call in [&delete, &count_down] {
        for argument in ["note_ms", "done_ms"] {
            counter.refuses(call, argument, &["abc", ""]).await;
        }
    }
}

async fn keys_of_other_types_are_rejected_unchanged(harness: &Harness<'_>) {
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
