//! The fair lock: order, the queue on the server, and waiters that leave, die or belong to Redisson.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use leasehold::error::AcquireErrorKind;
use leasehold::lock::Fair;
use leasehold::{Client, Lock};
use tokio::task::JoinHandle;

use crate::support::{
    Fixture, TestServer, assert_failed, connect, eventually, is_free, ms, on_both, poll_times, pttl,
    run_command, soon,
};

const QUEUE: &str = "redisson_lock_queue:{job}";
const TIMEOUT: &str = "redisson_lock_timeout:{job}";
const SEEN: &str = "leasehold_lock_seen:{job}";

on_both! {
    async {
        a_free_lock_is_granted_and_leaves_no_queue,
        waiters_of_several_clients_are_served_in_arrival_order,
        a_release_wakes_only_the_queue_head,
        a_try_does_not_overtake_waiters,
        a_try_never_enters_the_queue,
        list_and_sets_have_the_same_members,
        a_timed_out_waiter_leaves_the_queue,
        a_dropped_waiter_leaves_the_queue_and_the_next_one_is_served,
        a_dropped_head_of_a_free_lock_hands_it_on,
        a_dead_leasehold_waiter_is_skipped_within_seconds,
        several_dead_waiters_are_skipped_together,
        a_dead_java_waiter_is_skipped_within_seconds,
        a_live_java_waiter_is_not_skipped,
        a_list_entry_without_a_deadline_blocks_no_waiter,
        an_expired_lock_is_granted_to_the_head,
        a_release_of_an_expired_lock_wakes_the_head,
        a_removed_waiter_queues_again,
        the_queue_is_deleted_with_its_last_waiter,
        a_queue_with_a_java_waiter_does_not_expire,
        an_owner_re_enters_its_hold,
        an_owner_that_waits_twice_is_granted_twice,
        a_non_reentrant_fair_lock_rejects_its_owner,
        a_forced_release_wakes_the_head,
        a_slow_head_causes_no_busy_polling,
        deadlines_do_not_drift,
        a_close_leaves_no_waiter_behind,
        a_read_write_lock_of_the_same_name_is_rejected,
    }
}

/// The time of the server's clock.
fn server_ms(server: &impl TestServer) -> u64 {
    let time = server.cli(&["TIME"]);
    time.lines().next().unwrap().parse::<u64>().unwrap() * 1_000
}

fn queue(server: &impl TestServer) -> Vec<String> {
    server.cli(&["LRANGE", QUEUE, "0", "-1"]).lines().map(str::to_owned).collect()
}

fn members(server: &impl TestServer, key: &str) -> BTreeSet<String> {
    server.cli(&["ZRANGE", key, "0", "-1"]).lines().map(str::to_owned).collect()
}

/// Waits for the lock in a task of its own, and records its number when it holds the lock.
fn wait_in_task(
    client: &Client,
    turns: &Arc<Mutex<Vec<usize>>>,
    turn: usize,
) -> JoinHandle<leasehold::Guard> {
    let (lock, turns) = (client.fair_lock("job"), Arc::clone(turns));
    tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        turns.lock().unwrap().push(turn);
        guard
    })
}

async fn queued(server: &impl TestServer, many: usize) {
    eventually("the waiters to be queued", || queue(server).len() == many).await;
}

/// Adds a waiter as Redisson does, in the list and with a deadline.
fn java_waits(server: &impl TestServer, owner: &str, for_ms: u64) {
    run_command(server, &["RPUSH", QUEUE, owner]);
    run_command(server, &["ZADD", TIMEOUT, &(server_ms(server) + for_ms).to_string(), owner]);
}

async fn a_free_lock_is_granted_and_leaves_no_queue(server: Fixture) {
    let lock = connect(&server).await.fair_lock("job");
    let guard = lock.lock().await.unwrap();
    assert!(guard.is_held());
    assert_eq!(server.cli(&["KEYS", "*"]), "job", "the queue has no keys without waiters");
    guard.release().await.unwrap();
    assert!(is_free(&server, "job"));
    assert_eq!(server.cli(&["KEYS", "*"]), "");
}

async fn waiters_of_several_clients_are_served_in_arrival_order(server: Fixture) {
    let clients = [connect(&server).await, connect(&server).await, connect(&server).await];
    let turns = Arc::new(Mutex::new(Vec::new()));
    let first = clients[0].fair_lock("job").lock().await.unwrap();
    let mut waiting = Vec::new();
    for turn in 0..9 {
        waiting.push(wait_in_task(&clients[turn % 3], &turns, turn));
        queued(&server, turn + 1).await;
    }
    first.release().await.unwrap();
    for task in waiting {
        soon("its turn", task).await.unwrap().release().await.unwrap();
    }
    assert_eq!(*turns.lock().unwrap(), (0..9).collect::<Vec<_>>());
}

async fn a_release_wakes_only_the_queue_head(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.fair_lock("job").lock().await.unwrap();
    java_waits(&server, "java:1", 300_000);
    java_waits(&server, "java:2", 300_000);
    let (mut head, mut second) = (
        server.listen("redisson_lock__channel:{job}:java:1"),
        server.listen("redisson_lock__channel:{job}:java:2"),
    );
    guard.release().await.unwrap();
    assert_eq!(head.message(), "0");
    run_command(&server, &["PUBLISH", "redisson_lock__channel:{job}:java:2", "7"]);
    assert_eq!(second.message(), "7", "the first that it hears");
}

async fn a_try_does_not_overtake_waiters(server: Fixture) {
    java_waits(&server, "java:1", 300_000);
    let lock = connect(&server).await.fair_lock("job");
    assert!(lock.try_lock().await.unwrap().is_none(), "the lock is free, and a waiter is queued");
    assert_eq!(queue(&server), ["java:1"]);
}

async fn a_try_never_enters_the_queue(server: Fixture) {
    let client = connect(&server).await;
    let _held = client.fair_lock("job").lock().await.unwrap();
    assert!(client.fair_lock("job").try_lock().await.unwrap().is_none());
    assert_eq!(server.cli(&["KEYS", "*"]), "job");
}

async fn list_and_sets_have_the_same_members(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let turns = Arc::new(Mutex::new(Vec::new()));
    let held = one.fair_lock("job").lock().await.unwrap();
    let mut waiting = Vec::new();
    for (turn, client) in [&one, &other, &one].into_iter().enumerate() {
        waiting.push(wait_in_task(client, &turns, turn));
        queued(&server, turn + 1).await;
    }
    let list: BTreeSet<String> = queue(&server).into_iter().collect();
    assert_eq!((list.len(), &list, &list), (3, &members(&server, TIMEOUT), &members(&server, SEEN)));
    assert!(!list.contains(&held.wire_owner().to_string()), "the holder is not queued");
    held.release().await.unwrap();
    for task in waiting {
        soon("its turn", task).await.unwrap().release().await.unwrap();
    }
    eventually("everything to go", || server.cli(&["KEYS", "*"]).is_empty()).await;
}

async fn a_timed_out_waiter_leaves_the_queue(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let _held = one.fair_lock("job").lock().await.unwrap();
    assert!(other.fair_lock("job").try_lock_for(ms(150)).await.unwrap().is_none());
    eventually("it to leave", || queue(&server).is_empty()).await;
    assert_eq!(server.cli(&["KEYS", "*"]), "job");
}

async fn a_dropped_waiter_leaves_the_queue_and_the_next_one_is_served(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let turns = Arc::new(Mutex::new(Vec::new()));
    let held = one.fair_lock("job").lock().await.unwrap();
    let dropped = wait_in_task(&one, &turns, 0);
    queued(&server, 1).await;
    let next = wait_in_task(&other, &turns, 1);
    queued(&server, 2).await;
    dropped.abort();
    queued(&server, 1).await;
    held.release().await.unwrap();
    soon("the next one", next).await.unwrap().release().await.unwrap();
    assert_eq!(*turns.lock().unwrap(), [1]);
}

async fn a_dropped_head_of_a_free_lock_hands_it_on(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let turns = Arc::new(Mutex::new(Vec::new()));
    java_waits(&server, "java:1", 300_000);
    let lock = one.fair_lock("job");
    assert!(poll_times(1, lock.lock()).await.is_none());
    let next = wait_in_task(&other, &turns, 1);
    eventually("both to leave their place or be queued", || queue(&server).len() >= 2).await;
    run_command(&server, &["LREM", QUEUE, "0", "java:1"]);
    run_command(&server, &["ZREM", TIMEOUT, "java:1"]);
    soon("the next one", next).await.unwrap().release().await.unwrap();
}

async fn a_dead_leasehold_waiter_is_skipped_within_seconds(server: Fixture) {
    let started = Instant::now();
    // The waiter polled a moment ago, and never polls again.
    java_waits(&server, "dead:1", 300_000);
    run_command(&server, &["ZADD", SEEN, &server_ms(&server).to_string(), "dead:1"]);
    let guard = soon("the lock", connect(&server).await.fair_lock("job").lock()).await.unwrap();
    assert!(started.elapsed() > ms(3_000), "it might have come back");
    assert!(started.elapsed() < ms(9_000), "{:?}", started.elapsed());
    guard.release().await.unwrap();
    assert_eq!(server.cli(&["KEYS", "*"]), "");
}

async fn several_dead_waiters_are_skipped_together(server: Fixture) {
    let started = Instant::now();
    for dead in ["dead:1", "dead:2", "dead:3"] {
        java_waits(&server, dead, 300_000);
        run_command(&server, &["ZADD", SEEN, &server_ms(&server).to_string(), dead]);
    }
    let _guard = soon("the lock", connect(&server).await.fair_lock("job").lock()).await.unwrap();
    assert!(started.elapsed() < ms(9_000), "{:?}", started.elapsed());
}

async fn a_dead_java_waiter_is_skipped_within_seconds(server: Fixture) {
    let started = Instant::now();
    java_waits(&server, "java:1", 300_000);
    let mut woken = server.listen("redisson_lock__channel:{job}:java:1");
    let guard = soon("the lock", connect(&server).await.fair_lock("job").lock()).await.unwrap();
    assert_eq!(woken.message(), "0", "it was given a chance");
    assert!(started.elapsed() > ms(4_000) && started.elapsed() < ms(9_000), "{:?}", started.elapsed());
    guard.release().await.unwrap();
}

async fn a_live_java_waiter_is_not_skipped(server: Fixture) {
    let client = connect(&server).await;
    let held = client.fair_lock("job").lock().await.unwrap();
    java_waits(&server, "java:1", 300_000);
    let turns = Arc::new(Mutex::new(Vec::new()));
    let waiting = wait_in_task(&client, &turns, 1);
    queued(&server, 2).await;
    let mut woken = server.listen("redisson_lock__channel:{job}:java:1");
    held.release().await.unwrap();
    woken.message();
    // Redisson's acquire in one script, which removes the waiter from the queue and moves the deadlines behind it
    // forward by its wait.
    let taken = "if redis.call('lindex', KEYS[2], 0) ~= 'java:1' then return 'passed by' end
        redis.call('lpop', KEYS[2])
        redis.call('zrem', KEYS[3], 'java:1')
        redis.call('hset', KEYS[1], 'java:1', '1')
        redis.call('pexpire', KEYS[1], 30000)
        local ours, time = redis.call('lindex', KEYS[2], 0), redis.call('time')
        local due = redis.call('zincrby', KEYS[3], -300000, ours)
        return due - (time[1] * 1000 + math.floor(time[2] / 1000)) > 0 and 'alive' or 'dead'";
    assert_eq!(
        server.cli(&["EVAL", taken, "3", "job", QUEUE, TIMEOUT]),
        "alive",
        "Redisson counts ours as such"
    );
    run_command(&server, &["DEL", "job"]);
    soon("our turn", waiting).await.unwrap().release().await.unwrap();
}

async fn a_list_entry_without_a_deadline_blocks_no_waiter(server: Fixture) {
    run_command(&server, &["RPUSH", QUEUE, "java:1"]);
    let guard = connect(&server).await.fair_lock("job").try_lock().await.unwrap();
    assert!(guard.is_some());
    assert!(queue(&server).is_empty());
}

async fn an_expired_lock_is_granted_to_the_head(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    one.fair_lock("job").lease(ms(300)).lock().await.unwrap().detach();
    let turns = Arc::new(Mutex::new(Vec::new()));
    let first = wait_in_task(&one, &turns, 0);
    queued(&server, 1).await;
    let second = wait_in_task(&other, &turns, 1);
    soon("the first", first).await.unwrap().release().await.unwrap();
    soon("the second", second).await.unwrap().release().await.unwrap();
    assert_eq!(*turns.lock().unwrap(), [0, 1]);
}

async fn a_release_of_an_expired_lock_wakes_the_head(server: Fixture) {
    let client = connect(&server).await;
    let held = client.fair_lock("job").lock().await.unwrap();
    java_waits(&server, "java:1", 300_000);
    let mut woken = server.listen("redisson_lock__channel:{job}:java:1");
    run_command(&server, &["DEL", "job"]);
    held.release().await.unwrap();
    assert_eq!(woken.message(), "0");
}

async fn a_removed_waiter_queues_again(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let held = one.fair_lock("job").lock().await.unwrap();
    let turns = Arc::new(Mutex::new(Vec::new()));
    let waiting = wait_in_task(&other, &turns, 0);
    queued(&server, 1).await;
    run_command(&server, &["DEL", QUEUE, TIMEOUT]);
    queued(&server, 1).await;
    assert_eq!(members(&server, TIMEOUT).len(), 1);
    held.release().await.unwrap();
    soon("its turn", waiting).await.unwrap().release().await.unwrap();
}

async fn the_queue_is_deleted_with_its_last_waiter(server: Fixture) {
    let client = connect(&server).await;
    let _held = client.fair_lock("job").lock().await.unwrap();
    let turns = Arc::new(Mutex::new(Vec::new()));
    let waiting = wait_in_task(&connect(&server).await, &turns, 0);
    queued(&server, 1).await;
    for key in [QUEUE, TIMEOUT, SEEN] {
        assert!((1..=15_000).contains(&pttl(&server, key)), "{key} goes by itself");
    }
    waiting.abort();
}

async fn a_queue_with_a_java_waiter_does_not_expire(server: Fixture) {
    let client = connect(&server).await;
    let _held = client.fair_lock("job").lock().await.unwrap();
    java_waits(&server, "java:1", 300_000);
    let turns = Arc::new(Mutex::new(Vec::new()));
    let waiting = wait_in_task(&client, &turns, 0);
    queued(&server, 2).await;
    assert_eq!((pttl(&server, QUEUE), pttl(&server, TIMEOUT)), (-1, -1));
    waiting.abort();
    queued(&server, 1).await;
}

async fn an_owner_re_enters_its_hold(server: Fixture) {
    let client = connect(&server).await;
    let owner = client.owner();
    let lock = client.fair_lock("job").owned_by(&owner);
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 2);
    drop(inner);
    eventually("the count to fall", || server.cli(&["HVALS", "job"]) == "1").await;
    outer.release().await.unwrap();
    assert!(is_free(&server, "job"));
}

async fn an_owner_that_waits_twice_is_granted_twice(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let held = one.fair_lock("job").lock().await.unwrap();
    let owner = other.owner();
    let wait = |lock: Lock<Fair>| tokio::spawn(async move { lock.lock().await.unwrap() });
    let lock = other.fair_lock("job").owned_by(&owner);
    let (first, second) = (wait(lock.clone()), wait(lock.clone()));
    queued(&server, 2).await;
    held.release().await.unwrap();
    let (first, second) = (soon("one", first).await.unwrap(), soon("two", second).await.unwrap());
    assert_eq!(first.wire_owner(), second.wire_owner());
    eventually("the second to leave the queue", || queue(&server).is_empty()).await;
}

async fn a_non_reentrant_fair_lock_rejects_its_owner(server: Fixture) {
    let client = connect(&server).await;
    let owner = client.owner();
    let lock = client.fair_lock("job").owned_by(&owner).non_reentrant();
    let _guard = lock.lock().await.unwrap();
    for again in [lock.lock().await.map(Some), lock.try_lock().await, lock.try_lock_for(ms(50)).await] {
        assert_eq!(again.unwrap_err(), AcquireErrorKind::AlreadyHeld);
    }
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 1);
}

async fn a_forced_release_wakes_the_head(server: Fixture) {
    let client = connect(&server).await;
    client.fair_lock("job").lock().await.unwrap().detach();
    java_waits(&server, "java:1", 300_000);
    let mut woken = server.listen("redisson_lock__channel:{job}:java:1");
    assert!(client.fair_lock("job").force_unlock().await.unwrap());
    assert_eq!(woken.message(), "0");
    assert!(!client.fair_lock("job").force_unlock().await.unwrap());
}

async fn a_slow_head_causes_no_busy_polling(server: Fixture) {
    java_waits(&server, "java:1", 300_000);
    let client = connect(&server).await;
    let before = server.scripts_run();
    let started = Instant::now();
    let guard = soon("the lock", client.fair_lock("job").lock()).await.unwrap();
    let (asked, took) = (server.scripts_run() - before, started.elapsed());
    assert!(asked <= 4 + u64::try_from(took.as_millis()).unwrap() / 500, "asked {asked} times in {took:?}");
    drop(guard);
}

async fn deadlines_do_not_drift(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let turns = Arc::new(Mutex::new(Vec::new()));
    for round in 0..40 {
        let held = one.fair_lock("job").lock().await.unwrap();
        let waiting = wait_in_task(&other, &turns, round);
        queued(&server, 1).await;
        let newest = server.cli(&["ZRANGE", TIMEOUT, "-1", "-1", "WITHSCORES"]);
        let due: f64 = newest.lines().last().unwrap().parse().unwrap();
        assert!(due <= (server_ms(&server) + 1_000 + 5_000) as f64, "round {round}");
        held.release().await.unwrap();
        soon("its turn", waiting).await.unwrap().release().await.unwrap();
    }
}

async fn a_close_leaves_no_waiter_behind(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let _held = one.fair_lock("job").lock().await.unwrap();
    let lock = other.fair_lock("job");
    let waiting = tokio::spawn(async move { lock.lock().await });
    queued(&server, 1).await;
    other.close().await;
    assert_eq!(soon("the waiter", waiting).await.unwrap().unwrap_err(), AcquireErrorKind::Closed);
    eventually("the queue to be empty", || queue(&server).is_empty()).await;
}

async fn a_read_write_lock_of_the_same_name_is_rejected(server: Fixture) {
    run_command(&server, &["HSET", "job", "mode", "read", "java:1", "1"]);
    run_command(&server, &["PEXPIRE", "job", "30000"]);
    let client = connect(&server).await;
    for outcome in [client.fair_lock("job").try_lock().await, client.fair_lock("job").lock().await.map(Some)]
    {
        assert_failed!(outcome, AcquireErrorKind::OtherKind(_));
    }
    assert_eq!(server.cli(&["KEYS", "*"]), "job");
}
