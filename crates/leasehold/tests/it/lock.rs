//! The lock: acquire, rejection, inspection, forced unlock, and the cost of each on the server.

use std::time::Duration;

use leasehold::error::Verb;
use leasehold::{Client, ReleaseOutcome};
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    Fixture, Monitor, connect, count, eventually, fields, is_free, ms, on_both, pttl, run_command,
    scripts_run, sent, soon,
};

on_both! {
    async {
        a_free_lock_is_acquired_and_released,
        a_held_lock_is_refused_to_other_owners,
        locks_of_different_names_are_independent,
        the_default_lease_is_thirty_seconds,
        a_dropped_guard_frees_the_lock,
        a_first_use_costs_no_second_round_trip,
        forgotten_scripts_are_sent_to_the_server_again,
        a_single_attempt_is_one_command_without_a_subscription,
        the_inspect_methods_return_the_state_of_the_server,
        a_forced_release_is_reported_at_the_holders_release,
        a_forced_release_wakes_waiters,
        a_late_release_does_not_affect_the_new_holder,
        a_body_runs_under_the_lock_and_returns_its_value,
    }
}

async fn a_free_lock_is_acquired_and_released(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    assert!(guard.is_held());
    assert_eq!(guard.name(), "job");
    assert_eq!(count(&server, "job"), 1);
    assert!(fields(&server, "job").contains_key(&guard.wire_owner().to_string()));
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

async fn a_held_lock_is_refused_to_other_owners(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("job").try_lock().await.unwrap().unwrap();
    assert!(other.lock("job").try_lock().await.unwrap().is_none());
    assert!(one.lock("job").try_lock().await.unwrap().is_none(), "no owner is shared by accident");
    assert!(other.lock("job").try_lock_for(ms(300)).await.unwrap().is_none());
    assert!(guard.is_held());
}

async fn locks_of_different_names_are_independent(server: Fixture) {
    let client = connect(&server).await;
    let _one = client.lock("one").lock().await.unwrap();
    let two = client.lock("two").try_lock().await.unwrap().unwrap();
    two.release().await.unwrap();
    assert!(!is_free(&server, "one"));
}

async fn the_default_lease_is_thirty_seconds(server: Fixture) {
    let client = connect(&server).await;
    let _guard = client.lock("job").lock().await.unwrap();
    let left = pttl(&server, "job");
    assert!((20_000..=30_000).contains(&left), "{left} ms");
}

async fn a_dropped_guard_frees_the_lock(server: Fixture) {
    let client = connect(&server).await;
    drop(client.lock("job").lock().await.unwrap());
    eventually("the release", || is_free(&server, "job")).await;
}

#[tokio::test]
async fn an_uncontended_acquire_and_its_release_are_one_command_each() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lock = client.lock("job");
    for way in ["lock", "try_lock", "try_lock_for"] {
        // Each connection sends a script's full text once, so this call makes both scripts known.
        lock.lock().await.unwrap().release().await.unwrap();
        let monitor = Monitor::start(&server);
        let guard = match way {
            "lock" => lock.lock().await.unwrap(),
            "try_lock" => lock.try_lock().await.unwrap().unwrap(),
            _ => lock.try_lock_for(Duration::from_secs(5)).await.unwrap().unwrap(),
        };
        guard.release().await.unwrap();
        assert_eq!(sent(&monitor), [Ok(Verb::Acquire), Ok(Verb::Release)], "{way}");
        assert!(
            monitor.commands().iter().all(|words| words[0].eq_ignore_ascii_case("evalsha")),
            "{way}: known scripts travel as their hash"
        );
    }
}

#[tokio::test]
async fn the_server_counts_one_script_per_acquire_and_one_per_release() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock("job");
    lock.lock().await.unwrap().release().await.unwrap();
    server.reset_stats();
    for _ in 0..50 {
        lock.lock().await.unwrap().release().await.unwrap();
    }
    let stats = server.commandstats();
    assert_eq!(stats.get("evalsha"), Some(&100));
    assert_eq!(stats.get("eval"), None);
    assert_eq!(stats.get("subscribe"), None);
}

async fn a_first_use_costs_no_second_round_trip(server: Fixture) {
    let client = connect(&server).await;
    let monitor = Monitor::start(&server);
    client.lock("job").lock().await.unwrap().release().await.unwrap();
    assert_eq!(sent(&monitor), [Ok(Verb::Acquire), Ok(Verb::Release)]);
}

async fn forgotten_scripts_are_sent_to_the_server_again(server: Fixture) {
    let lock = connect(&server).await.lock("job");
    lock.lock().await.unwrap().release().await.unwrap();
    run_command(&server, &["SCRIPT", "FLUSH"]);
    let guard = lock.lock().await.unwrap();
    assert_eq!(count(&server, "job"), 1);
    run_command(&server, &["SCRIPT", "FLUSH"]);
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

async fn a_single_attempt_is_one_command_without_a_subscription(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let _guard = one.lock("job").lock().await.unwrap();
    let monitor = Monitor::start(&server);
    assert!(other.lock("job").try_lock().await.unwrap().is_none());
    assert!(other.lock("job").try_lock_for(Duration::ZERO).await.unwrap().is_none());
    assert_eq!(sent(&monitor), [Ok(Verb::Acquire), Ok(Verb::Acquire)]);
}

async fn the_inspect_methods_return_the_state_of_the_server(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let (owner, stranger) = (one.owner(), one.owner());
    let (lock, view) = (one.lock("job").owned_by(&owner), other.lock("job"));
    assert!(!view.is_locked().await.unwrap());
    assert_eq!(view.remaining().await.unwrap(), None);
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 0);

    let guards = [lock.lock().await.unwrap(), lock.lock().await.unwrap()];
    assert!(view.is_locked().await.unwrap());
    let left = view.remaining().await.unwrap().unwrap();
    assert!(left > ms(20_000) && left <= ms(30_000), "{left:?}");
    assert!(lock.is_held_by(&owner).await.unwrap());
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 2);
    assert!(!lock.is_held_by(&stranger).await.unwrap());
    assert_eq!(lock.hold_count(&stranger).await.unwrap(), 0);

    for guard in guards {
        guard.release().await.unwrap();
    }
    assert!(!view.is_locked().await.unwrap());
    assert!(!lock.is_held_by(&owner).await.unwrap());
}

async fn a_forced_release_is_reported_at_the_holders_release(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("job").lock().await.unwrap();
    assert!(other.lock("job").force_unlock().await.unwrap());
    assert!(is_free(&server, "job"));
    assert!(!other.lock("job").force_unlock().await.unwrap(), "it was free");
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::NotHeld));
}

async fn a_forced_release_wakes_waiters(server: Fixture) {
    let slow_to_poll = Client::builder().poll_interval(Duration::from_secs(600));
    let (one, other) = (connect(&server).await, slow_to_poll.connect(&server.url()).await.unwrap());
    let _guard = one.lock("job").lock().await.unwrap();
    let waiter = tokio::spawn({
        let lock = other.lock("job");
        async move { lock.lock().await }
    });
    eventually("the waiter to sleep", || crate::support::listeners(&server, "job") == 1).await;
    assert!(one.lock("job").force_unlock().await.unwrap());
    let guard = soon("the grant", waiter).await.unwrap().unwrap();
    assert!(guard.is_held());
}

async fn a_late_release_does_not_affect_the_new_holder(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let old = one.lock("job").lock().await.unwrap();
    one.lock("job").force_unlock().await.unwrap();
    let new = other.lock("job").lock().await.unwrap();
    let before = (fields(&server, "job"), scripts_run(&server));
    assert_eq!(old.release().await, Ok(ReleaseOutcome::NotHeld));
    assert_eq!((fields(&server, "job"), scripts_run(&server)), (before.0, before.1 + 1));
    assert_eq!(new.release().await, Ok(ReleaseOutcome::Released));
}

async fn a_body_runs_under_the_lock_and_returns_its_value(server: Fixture) {
    let lock = connect(&server).await.lock("job");
    let value = lock
        .run(async |guard| {
            assert!(guard.is_held());
            count(&server, "job") + 41
        })
        .await;
    assert_eq!(value, Ok(42));
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn a_unix_socket_works_too() {
    let socket = std::env::temp_dir().join(format!("leasehold-socket-{}", std::process::id()));
    let path = socket.to_str().unwrap();
    let server = RedisServer::with(&["--unixsocket", path]);
    let client = Client::connect(&format!("unix://{path}")).await.unwrap();
    let guard = client.lock("job").lock().await.unwrap();
    assert_eq!(count(&server, "job"), 1);
    guard.release().await.unwrap();
    std::fs::remove_file(&socket).unwrap();
}
