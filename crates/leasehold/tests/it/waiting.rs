//! Waiting: wake-ups, lost wake-ups, deadlines, and the low load on the server meanwhile.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::error::{AcquireErrorKind, Verb};
use leasehold::{AcquireError, Client};
use leasehold_testkit::lateness::Lateness;
use leasehold_testkit::servers::RedisServer;
use tokio::task::JoinHandle;

use crate::support::{
    Fixture, Monitor, NEVER, assert_failed, channel, connect, connect_through, connect_with,
    connect_without_polling, count, eventually, hold_as_redisson, is_free, listeners, ms, on_both,
    run_command, scripts_run, sent, server_and_proxy, sleeps, soon, times_sent,
};

/// The default polling interval, and two round trips: the release's and the waiter's.
const POLL: Duration = ms(1_000 + 10);

/// Waits for the lock in a task of its own, and returns the time of the grant.
fn wait_in_task(
    client: &Client,
    name: &str,
) -> JoinHandle<Result<(leasehold::Guard, Instant), AcquireError>> {
    let lock = client.lock(name);
    tokio::spawn(async move { lock.lock().await.map(|guard| (guard, Instant::now())) })
}

on_both! {
    async {
        a_plain_message_of_redisson_wakes_a_waiter,
        a_message_without_a_release_is_only_a_hint,
        a_release_without_a_message_costs_no_more_than_the_polling_interval,
        a_waiter_gets_a_lock_whose_holder_vanished_when_the_lease_ends,
        waiters_of_one_client_are_served_in_arrival_order,
        a_hand_over_within_one_client_costs_one_release_and_one_acquire,
        a_hand_off_within_one_client_costs_no_call,
        a_wait_that_ends_leaves_no_subscription_and_no_key,
        a_waiter_behind_a_dropped_one_is_woken_without_an_attempt_before,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_up_hands_a_released_lock_over_in_under_twenty_milliseconds_median() {
    const ROUNDS: usize = 31;
    let server = RedisServer::start();
    let (holder, waiter) = (connect(&server).await, connect_without_polling(&server).await);
    let mut delays = Vec::new();
    for _ in 0..ROUNDS {
        let guard = holder.lock("job").lock().await.unwrap();
        let asked = scripts_run(&server);
        let waiting = wait_in_task(&waiter, "job");
        sleeps(&server, &channel("job"), asked).await;
        assert!(guard.remaining() > Duration::from_secs(20), "the lease has most of its 30 s to go");
        let released = Instant::now();
        guard.release().await.unwrap();
        let (guard, got) = soon("the wake-up", waiting).await.unwrap().unwrap();
        delays.push(got.saturating_duration_since(released));
        guard.release().await.unwrap();
        eventually("the subscription to end", || listeners(&server, "job") == 0).await;
    }
    delays.sort();
    assert!(delays[ROUNDS / 2] < ms(20), "{delays:?}");
}

async fn a_plain_message_of_redisson_wakes_a_waiter(server: Fixture) {
    let client = connect_without_polling(&server).await;
    hold_as_redisson(&server, "job", NEVER);
    let waiting = wait_in_task(&client, "job");
    sleeps(&server, &channel("job"), 0).await;
    run_command(&server, &["DEL", "job"]);
    assert!(!waiting.is_finished(), "no message has told the waiter");
    run_command(&server, &["PUBLISH", &channel("job"), "0"]);
    drop(soon("the wake-up", waiting).await.unwrap().unwrap());
}

async fn a_message_without_a_release_is_only_a_hint(server: Fixture) {
    let client = connect_without_polling(&server).await;
    hold_as_redisson(&server, "job", NEVER);
    let waiting = wait_in_task(&client, "job");
    sleeps(&server, &channel("job"), 0).await;
    let asked = scripts_run(&server);
    run_command(&server, &["PUBLISH", &channel("job"), "0"]);
    eventually("the question", || scripts_run(&server) == asked + 1).await;
    assert!(!waiting.is_finished());
    assert_eq!(count(&server, "job"), 1);
    waiting.abort();
}

async fn a_release_without_a_message_costs_no_more_than_the_polling_interval(server: Fixture) {
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", NEVER);
    let waiting = wait_in_task(&client, "job");
    sleeps(&server, &channel("job"), 0).await;
    let (machine, deleted) = (Lateness::start(), Instant::now());
    // A deletion publishes nothing, so this wake-up never comes.
    run_command(&server, &["DEL", "job"]);
    let (_guard, granted) = soon("the next look", waiting).await.unwrap().unwrap();
    let took = granted.saturating_duration_since(deleted);
    machine.assert_within("the lock after a lost message", POLL, took);
}

#[tokio::test]
async fn a_waiter_whose_messages_are_all_dropped_is_within_its_deadline() {
    let (server, proxy) = server_and_proxy();
    let holder = connect(&server).await;
    let waiter = connect_through(&proxy, Duration::from_secs(3)).await;
    proxy.drop_messages(true);
    for _ in 0..3 {
        let guard = holder.lock("job").lock().await.unwrap();
        let asked = scripts_run(&server);
        let waiting = tokio::spawn({
            let lock = waiter.lock("job");
            async move { lock.try_lock_for(Duration::from_secs(15)).await }
        });
        sleeps(&server, &channel("job"), asked).await;
        let (machine, released) = (Lateness::start(), Instant::now());
        guard.release().await.unwrap();
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        machine.assert_within("the lock after a dropped message", POLL, released.elapsed());
        guard.expect("it is got within the deadline").release().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_refuses_subscriptions_is_polled() {
    let server = RedisServer::with(&["--rename-command", "SUBSCRIBE", ""]);
    let (holder, waiter) = (connect(&server).await, connect(&server).await);
    let guard = holder.lock("job").lock().await.unwrap();
    let asked = scripts_run(&server);
    let waiting = wait_in_task(&waiter, "job");
    eventually("the first refusal", || scripts_run(&server) > asked).await;
    guard.release().await.unwrap();
    drop(soon("the lock", waiting).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_killed_subscription_is_restored_and_a_missed_release_is_found() {
    let server = RedisServer::start();
    let (holder, waiter) = (connect(&server).await, connect_without_polling(&server).await);
    let guard = holder.lock("job").lock().await.unwrap();
    let asked = scripts_run(&server);
    let waiting = wait_in_task(&waiter, "job");
    sleeps(&server, &channel("job"), asked).await;
    // Both happen at once, in this order, so the message finds no listener.
    let freed = "redis.call('del', KEYS[1]) return redis.call('publish', ARGV[1], '0')";
    run_command(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    run_command(&server, &["EVAL", freed, "1", "job", &channel("job")]);
    drop(guard);
    drop(soon("the look after the reconnect", waiting).await.unwrap().unwrap());
}

async fn a_waiter_gets_a_lock_whose_holder_vanished_when_the_lease_ends(server: Fixture) {
    let client = connect_without_polling(&server).await;
    hold_as_redisson(&server, "job", ms(300));
    let guard = soon("the end of the lease", client.lock("job").lock()).await.unwrap();
    assert!(guard.is_held());
}

async fn waiters_of_one_client_are_served_in_arrival_order(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..12 {
        let (lock, served) = (client.lock("job"), Arc::clone(&served));
        tasks.push(tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            served.lock().unwrap().push(number);
            guard.release().await.unwrap();
        }));
        // On this runtime of one thread, the task is in the wait queue after the yield.
        tokio::task::yield_now().await;
    }
    guard.release().await.unwrap();
    for task in tasks {
        soon("its turn", task).await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..12).collect::<Vec<_>>());
}

#[tokio::test]
async fn of_fifty_waiters_only_the_head_polls_and_all_share_one_subscription() {
    let server = RedisServer::start();
    let client = connect_without_polling(&server).await;
    hold_as_redisson(&server, "job", NEVER);
    let monitor = Monitor::start(&server);
    let waiters: Vec<_> = (0..50).map(|_| wait_in_task(&client, "job")).collect();
    sleeps(&server, &channel("job"), 0).await;
    assert_eq!(times_sent(&monitor, Verb::Acquire), 2);
    let is_subscription = |words: &Vec<String>| words[0].eq_ignore_ascii_case("subscribe");
    let subscriptions = monitor.commands().into_iter().filter(is_subscription).count();
    assert_eq!(subscriptions, 1);
    // A release wakes one waiter, not a herd.
    run_command(&server, &["PUBLISH", &channel("job"), "0"]);
    eventually("the question", || times_sent(&monitor, Verb::Acquire) == 3).await;
    // The loop aborts from the back, so that no waiter moves to the head.
    for waiter in waiters.iter().rev() {
        waiter.abort();
        eventually("its end", || waiter.is_finished()).await;
    }
    eventually("the subscription to end", || listeners(&server, "job") == 0).await;
    assert_eq!(times_sent(&monitor, Verb::Acquire), 3);
}

async fn a_hand_over_within_one_client_costs_one_release_and_one_acquire(server: Fixture) {
    let builder = Client::builder().poll_interval(NEVER).hand_off(Duration::ZERO);
    let client = connect_with(builder, &server.url()).await;
    let guard = client.lock("job").lock().await.unwrap();
    let waiters: Vec<_> = (0..10).map(|_| wait_in_task(&client, "job")).collect();
    sleeps(&server, &channel("job"), 0).await;
    let monitor = Monitor::start(&server);
    guard.release().await.unwrap();
    for waiter in waiters {
        let (guard, _) = soon("its turn", waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(times_sent(&monitor, Verb::Release), 11);
    // Each hand-over takes one attempt, and a second attempt if the message of the previous release comes late.
    let asked = times_sent(&monitor, Verb::Acquire);
    assert!((10..=20).contains(&asked), "{asked} questions for 10 turns: {:?}", sent(&monitor));
}

async fn a_hand_off_within_one_client_costs_no_call(server: Fixture) {
    // The hold passes on while nine tenths of its validity are left, which is a minute here.
    let builder = Client::builder().poll_interval(NEVER).hand_off(NEVER).watchdog(ms(600_000));
    let client = connect_with(builder, &server.url()).await;
    let guard = client.lock("job").lock().await.unwrap();
    let waiters: Vec<_> = (0..10).map(|_| wait_in_task(&client, "job")).collect();
    // The tasks run in turn on one thread, so all have joined the queue before the first one listens.
    eventually("the waiters to listen", || listeners(&server, "job") == 1).await;
    let (monitor, wire) = (Monitor::start(&server), guard.wire_owner());
    guard.release().await.unwrap();
    for waiter in waiters {
        let (guard, _) = soon("its turn", waiter).await.unwrap().unwrap();
        assert_eq!(guard.wire_owner(), wire);
        assert_eq!(count(&server, "job"), 1);
        guard.release().await.unwrap();
    }
    eventually("the release", || is_free(&server, "job")).await;
    let calls: Vec<_> = sent(&monitor).into_iter().filter_map(Result::ok).collect();
    assert_eq!(calls, [Verb::Release]);
}

async fn a_wait_that_ends_leaves_no_subscription_and_no_key(server: Fixture) {
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", NEVER);
    let started = Instant::now();
    assert!(client.lock("job").try_lock_for(ms(150)).await.unwrap().is_none());
    assert!(started.elapsed() >= ms(150), "it waited for as long as it was told");
    eventually("the subscription to end", || listeners(&server, "job") == 0).await;
    run_command(&server, &["DEL", "job"]);
    assert!(client.lock("job").try_lock().await.unwrap().is_some());
}

async fn a_waiter_behind_a_dropped_one_is_woken_without_an_attempt_before(server: Fixture) {
    let client = connect_without_polling(&server).await;
    hold_as_redisson(&server, "job", NEVER);
    let first = wait_in_task(&client, "job");
    sleeps(&server, &channel("job"), 0).await;
    let second = wait_in_task(&client, "job");
    tokio::task::yield_now().await;
    let asked = scripts_run(&server);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(scripts_run(&server), asked, "the queue has its answer already");
    run_command(&server, &["DEL", "job"]);
    run_command(&server, &["PUBLISH", &channel("job"), "0"]);
    drop(soon("the lock", second).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_frozen_server_does_not_stretch_a_deadline() {
    let server = RedisServer::start();
    let builder = Client::builder().timeout(Duration::from_secs(60));
    let client = connect_with(builder, &server.url()).await;
    server.freeze();
    let (machine, began) = (Lateness::start(), Instant::now());
    let outcome = soon("the deadline", client.lock("job").try_lock_for(ms(200))).await;
    machine.assert_within("a wait of 200 ms", ms(200), began.elapsed());
    let error = outcome.unwrap_err();
    assert!(matches!(error.kind, AcquireErrorKind::Unknown { .. }), "{error}");
    server.thaw();
    eventually("the undo", || is_free(&server, "job") && scripts_run(&server) >= 2).await;
}

#[tokio::test]
async fn a_deadline_behind_a_frozen_head_is_met_too() {
    let server = RedisServer::start();
    let builder = Client::builder().timeout(Duration::from_secs(60));
    let client = connect_with(builder, &server.url()).await;
    server.freeze();
    let head = wait_in_task(&client, "job");
    tokio::task::yield_now().await;
    let (machine, began) = (Lateness::start(), Instant::now());
    let outcome = soon("the deadline", client.lock("job").try_lock_for(ms(200))).await;
    machine.assert_within("a wait of 200 ms", ms(200), began.elapsed());
    let error = outcome.unwrap_err();
    assert!(matches!(error.kind, AcquireErrorKind::Store(_)), "it sent nothing itself: {error}");
    server.thaw();
    drop(soon("the head", head).await.unwrap().unwrap());
}

#[tokio::test]
async fn an_endless_wait_fails_for_the_whole_queue_after_a_server_timeout() {
    const TIMEOUT: Duration = ms(700);
    let mut server = RedisServer::start();
    let builder = Client::builder().timeout(TIMEOUT);
    let client = connect_with(builder, &server.url()).await;
    hold_as_redisson(&server, "job", NEVER);
    let waiters: Vec<_> = (0..20).map(|_| wait_in_task(&client, "job")).collect();
    sleeps(&server, &channel("job"), 0).await;
    let (machine, killed) = (Lateness::start(), Instant::now());
    server.kill();
    for waiter in waiters {
        let outcome = soon("its failure", waiter).await.unwrap().map(drop);
        assert_failed!(outcome, AcquireErrorKind::Store(_) | AcquireErrorKind::Unknown { .. });
    }
    // The head notices at its next attempt, which takes a timeout. One waiter after the other would take 20 timeouts.
    machine.assert_within("the failure of the whole line", POLL + 2 * TIMEOUT, killed.elapsed());
}

#[tokio::test]
async fn a_server_that_comes_back_within_the_timeout_is_waited_for() {
    let mut server = RedisServer::start();
    let builder = Client::builder().timeout(Duration::from_secs(15));
    let client = connect_with(builder, &server.url()).await;
    hold_as_redisson(&server, "job", NEVER);
    let waiting = wait_in_task(&client, "job");
    sleeps(&server, &channel("job"), 0).await;
    server.restart();
    drop(soon("the lock", waiting).await.unwrap().unwrap());
}
