//! Re-entry: by owner value, by scope, and the hold count.

use std::time::{Duration, Instant};

use leasehold::error::{AcquireErrorKind, Verb};
use leasehold::{LostReason, Owner, ReleaseOutcome, owner};
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    Fixture, Monitor, assert_failed, connect, count, eventually, fields, is_free, ms, on_both, proxied, pttl,
    run_command, sent, soon, times_sent,
};

on_both! {
    async {
        an_owner_re_enters_its_lock,
        n_acquires_need_n_releases_in_any_order,
        dropped_guards_count_like_released_ones,
        each_re_entry_and_each_partial_release_is_one_command,
        owners_of_the_same_client_exclude_each_other,
        an_owner_of_two_clients_is_two_holders_on_the_server,
        a_new_hold_of_the_same_owner_has_a_new_wire_owner,
        within_a_scope_nested_acquires_re_enter,
        a_scope_in_a_scope_is_the_outer_one,
        a_scope_is_not_inherited_by_a_spawned_task,
        an_owner_can_be_carried_into_a_spawned_task,
        an_explicit_owner_overrides_the_scope,
        outside_a_scope_every_acquire_is_its_own_owner,
        a_partial_release_keeps_the_lease,
        a_shorter_lease_of_a_re_entry_does_not_cut_the_outer_hold_short,
        a_longer_lease_of_a_re_entry_is_the_one_that_counts,
        a_watched_re_entry_of_a_fixed_lease_is_renewed_for_as_long_as_it_lasts,
        re_entering_a_hold_that_has_expired_is_lost_and_never_a_fresh_acquire,
        re_entering_a_deleted_hold_is_lost,
        re_entering_a_hold_that_was_taken_over_is_lost,
        a_dropped_re_entry_does_not_affect_the_outer_hold,
        waiters_of_the_granted_owner_re_enter_with_it,
        a_re_entered_hold_is_renewed_by_one_stream,
        detaching_one_of_two_holds_leaves_the_lock_to_its_lease,
        a_non_reentrant_lock_rejects_its_owner,
    }
}

async fn an_owner_re_enters_its_lock(server: Fixture) {
    let client = connect(&server).await;
    let owner = client.owner();
    let lock = client.lock("job").owned_by(&owner);
    let outer = lock.lock().await.unwrap();
    let inner = lock.try_lock().await.unwrap().expect("it is its own");
    assert_eq!(count(&server, "job"), 2);
    assert_eq!(outer.wire_owner(), inner.wire_owner(), "one hold on the server");
}

async fn n_acquires_need_n_releases_in_any_order(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let mut guards = Vec::new();
    for number in 1..=5 {
        guards.push(lock.lock().await.unwrap());
        assert_eq!(count(&server, "job"), number);
    }
    for left in (1..5).rev() {
        let guard = guards.swap_remove(left / 2);
        assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
        assert_eq!(count(&server, "job"), u32::try_from(left).unwrap());
        assert!(client.lock("job").try_lock().await.unwrap().is_none(), "others see one hold");
    }
    assert_eq!(guards.pop().unwrap().release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

async fn dropped_guards_count_like_released_ones(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    drop(outer);
    eventually("the count to go down", || count(&server, "job") == 1).await;
    assert!(inner.is_held());
    drop(inner);
    eventually("the release", || is_free(&server, "job")).await;
}

async fn each_re_entry_and_each_partial_release_is_one_command(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let outer = lock.lock().await.unwrap();
    let monitor = Monitor::start(&server);
    lock.lock().await.unwrap().release().await.unwrap();
    assert_eq!(sent(&monitor), [Ok(Verb::Renew), Ok(Verb::Release)]);
    outer.release().await.unwrap();
}

async fn owners_of_the_same_client_exclude_each_other(server: Fixture) {
    let client = connect(&server).await;
    let (one, other) = (client.owner(), Owner::unique());
    let _guard = client.lock("job").owned_by(&one).lock().await.unwrap();
    assert!(client.lock("job").owned_by(&other).try_lock().await.unwrap().is_none());
}

async fn an_owner_of_two_clients_is_two_holders_on_the_server(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let owner = Owner::unique();
    let _guard = one.lock("job").owned_by(&owner).lock().await.unwrap();
    assert!(other.lock("job").owned_by(&owner).try_lock().await.unwrap().is_none());
}

async fn a_new_hold_of_the_same_owner_has_a_new_wire_owner(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let mut seen = Vec::new();
    for _ in 0..5 {
        let guard = lock.lock().await.unwrap();
        assert!(!seen.contains(&guard.wire_owner()), "a wire owner is never used twice");
        seen.push(guard.wire_owner());
        guard.release().await.unwrap();
    }
}

async fn within_a_scope_nested_acquires_re_enter(server: Fixture) {
    let client = connect(&server).await;
    owner::scope(async {
        let outer = client.lock("job").lock().await.unwrap();
        let inner = soon("the re-entry", client.lock("job").lock()).await.unwrap();
        assert_eq!(count(&server, "job"), 2);
        inner.release().await.unwrap();
        assert_eq!(count(&server, "job"), 1);
        outer.release().await.unwrap();
    })
    .await;
    assert!(is_free(&server, "job"));
}

async fn a_scope_in_a_scope_is_the_outer_one(server: Fixture) {
    let client = connect(&server).await;
    owner::scope(async {
        let ambient = owner::ambient().unwrap();
        let _outer = client.lock("job").lock().await.unwrap();
        owner::scope(async {
            assert_eq!(owner::ambient(), Some(ambient));
            let _inner = soon("the re-entry", client.lock("job").lock()).await.unwrap();
            assert_eq!(count(&server, "job"), 2);
        })
        .await;
    })
    .await;
    assert_eq!(owner::ambient(), None);
}

async fn a_scope_is_not_inherited_by_a_spawned_task(server: Fixture) {
    let client = connect(&server).await;
    owner::scope(async {
        let _guard = client.lock("job").lock().await.unwrap();
        let lock = client.lock("job");
        let child = tokio::spawn(async move {
            assert_eq!(owner::ambient(), None);
            lock.try_lock().await.unwrap().is_some()
        });
        assert!(!child.await.unwrap(), "a spawned task is other code");
    })
    .await;
}

async fn an_owner_can_be_carried_into_a_spawned_task(server: Fixture) {
    let client = connect(&server).await;
    let owner = client.owner();
    let _guard = client.lock("job").owned_by(&owner).lock().await.unwrap();
    let lock = client.lock("job").owned_by(&owner);
    let child = tokio::spawn(async move { lock.try_lock().await.unwrap().is_some() });
    assert!(child.await.unwrap());
}

async fn an_explicit_owner_overrides_the_scope(server: Fixture) {
    let client = connect(&server).await;
    owner::scope(async {
        let _guard = client.lock("job").lock().await.unwrap();
        let other = client.lock("job").owned_by(&client.owner());
        assert!(other.try_lock().await.unwrap().is_none());
    })
    .await;
}

async fn outside_a_scope_every_acquire_is_its_own_owner(server: Fixture) {
    let client = connect(&server).await;
    let _guard = client.lock("job").lock().await.unwrap();
    assert!(client.lock("job").try_lock().await.unwrap().is_none());
}

async fn a_partial_release_keeps_the_lease(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner()).lease(Duration::from_secs(60));
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    // The test shortens the lease by hand, so a release that sets it anew would show.
    run_command(&server, &["PEXPIRE", "job", "20000"]);
    inner.release().await.unwrap();
    let left = pttl(&server, "job");
    assert!(left <= 20_000, "it was raised to {left} ms");
    run_command(&server, &["PEXPIRE", "job", "90000"]);
    let inner = lock.lock().await.unwrap();
    run_command(&server, &["PEXPIRE", "job", "90000"]);
    inner.release().await.unwrap();
    let left = pttl(&server, "job");
    assert!(left > 60_000, "it was shortened to {left} ms");
    drop(outer);
}

async fn a_shorter_lease_of_a_re_entry_does_not_cut_the_outer_hold_short(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let outer = lock.clone().lease(Duration::from_secs(60)).lock().await.unwrap();
    let inner = lock.lease(ms(100)).lock().await.unwrap();
    assert!(pttl(&server, "job") > 30_000);
    assert!(outer.remaining() > Duration::from_secs(30));
    inner.release().await.unwrap();
    assert!(outer.is_held());
}

async fn a_longer_lease_of_a_re_entry_is_the_one_that_counts(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let outer = lock.clone().lease(Duration::from_secs(10)).lock().await.unwrap();
    let _inner = lock.lease(Duration::from_secs(60)).lock().await.unwrap();
    assert!(pttl(&server, "job") > 30_000);
    assert!(outer.remaining() > Duration::from_secs(30));
}

async fn a_watched_re_entry_of_a_fixed_lease_is_renewed_for_as_long_as_it_lasts(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let outer = lock.clone().lease(ms(400)).lock().await.unwrap();
    let inner = lock.watchdog(ms(400)).lock().await.unwrap();
    crate::support::a_lease_passes(&server, ms(900)).await;
    assert!(outer.is_held() && inner.is_held());
    inner.release().await.unwrap();
    assert_eq!(soon("the end of the fixed lease", outer.lost()).await, LostReason::Expired);
}

async fn re_entering_a_hold_that_has_expired_is_lost_and_never_a_fresh_acquire(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner()).lease(ms(300));
    let stale = lock.lock().await.unwrap();
    soon("the end", stale.lost()).await;
    eventually("the key to run out", || is_free(&server, "job")).await;
    for _ in 0..2 {
        let outcome = lock.try_lock().await;
        let expected = AcquireErrorKind::Lost(LostReason::Expired);
        assert_eq!(outcome.unwrap_err(), expected);
        assert_eq!(soon("the verdict", lock.lock()).await.unwrap_err(), expected);
    }
    assert!(is_free(&server, "job"));
    drop(stale);
    let fresh = lock.lease(ms(60_000)).lock().await.unwrap();
    assert_eq!(count(&server, "job"), 1);
    assert!(fresh.is_held());
}

async fn re_entering_a_deleted_hold_is_lost(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let outer = lock.lock().await.unwrap();
    run_command(&server, &["DEL", "job"]);
    let outcome = lock.try_lock().await;
    assert_failed!(outcome, AcquireErrorKind::Lost(LostReason::Deleted));
    assert!(is_free(&server, "job"), "it was not taken afresh");
    assert!(!outer.is_held(), "the outer hold has heard of it");
}

async fn re_entering_a_hold_that_was_taken_over_is_lost(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.lock("job").owned_by(&client.owner());
    let _outer = lock.lock().await.unwrap();
    other.lock("job").force_unlock().await.unwrap();
    let _thief = other.lock("job").lock().await.unwrap();
    let outcome = lock.try_lock().await;
    assert_failed!(outcome, AcquireErrorKind::Lost(LostReason::TakenOver));
}

#[tokio::test]
async fn an_unanswered_re_entry_extends_nothing_and_leaves_one_hold() {
    let (server, proxy, client) = proxied(ms(250)).await;
    let lock = client.lock("job").owned_by(&client.owner()).lease(Duration::from_secs(20));
    let outer = lock.lock().await.unwrap();
    let before = outer.remaining();
    proxy.drop_replies(true);
    let outcome = soon("the timeout", lock.try_lock()).await;
    assert_failed!(outcome, AcquireErrorKind::Unknown { .. });
    assert!(outer.remaining() < before, "its own lease was confirmed, and nothing since");
    assert_eq!(count(&server, "job"), 2, "the script did run");
    proxy.drop_replies(false);
    eventually("the count to be put right", || count(&server, "job") == 1).await;
    assert!(outer.is_held());
    assert_eq!(outer.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn a_waiting_re_entry_retries_after_a_lost_reply_and_counts_once() {
    let (server, proxy, client) = proxied(Duration::from_secs(5)).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let outer = lock.lock().await.unwrap();
    proxy.cut_on_nth_reply(1);
    let inner = soon("the second question", lock.lock()).await.unwrap();
    assert_eq!(count(&server, "job"), 2);
    inner.release().await.unwrap();
    assert_eq!(count(&server, "job"), 1);
    outer.release().await.unwrap();
    assert!(is_free(&server, "job"));
}

async fn a_dropped_re_entry_does_not_affect_the_outer_hold(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let outer = lock.lock().await.unwrap();
    for polls in 0..40 {
        drop(crate::support::poll_without_wake_ups(polls, lock.lock()).await);
    }
    eventually("the count to be put right", || count(&server, "job") == 1).await;
    assert!(outer.is_held());
    assert_eq!(outer.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_tasks_of_one_owner_re_enter_without_waiting_for_each_other() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let outer = lock.lock().await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                for _ in 0..25 {
                    let guard = lock.lock().await.unwrap();
                    assert!(guard.is_held());
                    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
                }
            })
        })
        .collect();
    for task in tasks {
        soon("the task", task).await.unwrap();
    }
    assert_eq!(count(&server, "job"), 1);
    assert!(outer.is_held());
    assert_eq!(outer.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_tasks_of_one_owner_acquire_and_release_without_an_outer_hold() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let lock = lock.clone();
            tokio::spawn(async move {
                for round in 0..25 {
                    let guard = lock.lock().await.unwrap();
                    if (round + number) % 2 == 0 {
                        assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        soon("the task", task).await.unwrap();
    }
    eventually("the last release", || is_free(&server, "job")).await;
}

async fn waiters_of_the_granted_owner_re_enter_with_it(server: Fixture) {
    let client = connect(&server).await;
    crate::support::hold_as_redisson(&server, "job", Duration::from_secs(60));
    let lock = client.lock("job").owned_by(&client.owner());
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.lock().await })
        })
        .collect();
    eventually("them to wait", || crate::support::listeners(&server, "job") == 1).await;
    run_command(&server, &["DEL", "job"]);
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(soon("the lock", waiter).await.unwrap().unwrap());
    }
    assert_eq!(count(&server, "job"), 3);
    drop(guards);
    eventually("the releases", || is_free(&server, "job")).await;
}

async fn a_re_entered_hold_is_renewed_by_one_stream(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner()).watchdog(ms(600));
    let mut guards = Vec::new();
    for _ in 0..5 {
        guards.push(lock.lock().await.unwrap());
    }
    let monitor = Monitor::start(&server);
    let started = Instant::now();
    eventually("six renewals", || times_sent(&monitor, Verb::Renew) >= 6).await;
    let took = started.elapsed();
    assert!(took > ms(950), "six renewals, a third of 600 ms apart, in {took:?}");
    assert_eq!(fields(&server, "job").len(), 1);
}

async fn detaching_one_of_two_holds_leaves_the_lock_to_its_lease(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner()).lease(ms(500));
    let (kept, released) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    kept.detach();
    assert_eq!(released.release().await, Ok(ReleaseOutcome::Released));
    assert!(!is_free(&server, "job"));
    eventually("the lease to run out", || is_free(&server, "job")).await;
}

async fn a_non_reentrant_lock_rejects_its_owner(server: Fixture) {
    let client = connect(&server).await;
    let owner = client.owner();
    let lock = client.lock("job").owned_by(&owner).non_reentrant();
    let _guard = lock.lock().await.unwrap();
    let another = client.lock("job").owned_by(&owner).non_reentrant();
    for again in [lock.lock().await.map(Some), another.try_lock().await, lock.try_lock_for(ms(50)).await] {
        assert_eq!(again.unwrap_err(), AcquireErrorKind::AlreadyHeld);
    }
    assert_eq!(count(&server, "job"), 1);
}
