//! The watchdog and its bounds: the holds that it renews, and for how long.

use std::time::{Duration, Instant};

use leasehold::error::{AcquireErrorKind, Verb};
use leasehold::{LostReason, ReleaseOutcome};
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    Fixture, Monitor, assert_failed, connect, eventually, is_free, ms, on_both, proxied, pttl, sent, soon,
    times_sent,
};

/// Short enough for many leases in a test, long enough for a busy machine to renew in time.
const LEASE: Duration = ms(300);

on_both! {
    async {
        a_watched_lock_is_never_lost_for_ten_leases,
        fifty_locks_of_one_client_are_all_renewed,
        renewals_come_a_third_of_the_lease_apart_or_a_tenth_less,
        a_fixed_lease_is_not_renewed_and_ends_by_itself,
        a_hold_ends_at_its_bound,
        a_bound_shorter_than_the_lease_is_the_lease,
        renewals_stop_at_their_number,
        zero_renewals_is_a_valid_limit,
        a_detached_lock_is_neither_released_nor_renewed,
        no_renewal_follows_a_release_or_a_drop,
        the_failure_of_one_lock_does_not_affect_another,
        renewals_do_not_wait_for_a_busy_runtime,
        a_silent_holder_loses_its_lock_and_the_next_one_gets_it,
        a_holder_that_beats_keeps_its_lock,
        a_silent_body_is_cancelled,
        a_margin_ends_the_trust_before_the_lease,
    }
    sync {
        renewals_and_the_release_outlive_the_users_runtime,
    }
}

async fn a_silent_holder_loses_its_lock_and_the_next_one_gets_it(server: Fixture) {
    let client = connect(&server).await;
    let hung = client.lock("job").watchdog(ms(300)).silent_for(ms(100)).lock().await.unwrap();
    let next = soon("the lease", client.lock("job").lock()).await.unwrap();
    assert_eq!(soon("the loss", hung.lost()).await, LostReason::Silent);
    assert!(next.is_held());
}

async fn a_holder_that_beats_keeps_its_lock(server: Fixture) {
    let guard =
        connect(&server).await.lock("job").watchdog(ms(300)).silent_for(ms(200)).lock().await.unwrap();
    let began = Instant::now();
    eventually("three leases to pass", || {
        guard.beat();
        began.elapsed() > ms(900)
    })
    .await;
    assert!(guard.is_held());
}

async fn a_silent_body_is_cancelled(server: Fixture) {
    let lock = connect(&server).await.lock("job").watchdog(ms(300)).silent_for(ms(100));
    let ended = soon("the loss", lock.run(async |_| std::future::pending::<()>().await)).await;
    assert!(matches!(ended, Err(leasehold::RunError::Lost { reason: LostReason::Silent, .. })), "{ended:?}");
}

async fn a_margin_ends_the_trust_before_the_lease(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").lease(ms(2_000)).margin(ms(1_700)).lock().await.unwrap();
    assert!(guard.remaining() <= ms(300));
    soon("the end of the trust", guard.lost()).await;
    assert!(pttl(&server, "job") > 0, "nobody else has it yet");
    let refused = client.lock("job").lease(ms(2_000)).margin(ms(2_000)).lock().await.unwrap_err();
    let said = "lock \"job\" not acquired: margin of 2s leaves nothing of a validity of 1.9s";
    assert_eq!(refused.to_string(), said);
}

async fn a_watched_lock_is_never_lost_for_ten_leases(server: Fixture) {
    let (holder, other) = (connect(&server).await, connect(&server).await);
    let guard = holder.lock("job").watchdog(LEASE).lock().await.unwrap();
    let (started, mut pace) = (Instant::now(), crate::support::pace(ms(5)));
    let mut looks = 0;
    while started.elapsed() < 10 * LEASE {
        assert!(guard.is_held());
        assert!(other.lock("job").try_lock().await.unwrap().is_none());
        looks += 1;
        pace.tick().await;
    }
    assert!(looks > 10);
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
}

async fn fifty_locks_of_one_client_are_all_renewed(server: Fixture) {
    let client = connect(&server).await;
    let mut guards = Vec::new();
    for number in 0..50 {
        let lock = client.lock(format!("job:{number}")).watchdog(LEASE);
        guards.push(lock.lock().await.unwrap());
    }
    crate::support::a_lease_passes(&server, 5 * LEASE).await;
    assert!(guards.iter().all(leasehold::Guard::is_held));
    assert_eq!(crate::support::keys(&server), 50);
}

async fn renewals_come_a_third_of_the_lease_apart_or_a_tenth_less(server: Fixture) {
    let lease = ms(600);
    let guard = connect(&server).await.lock("job").watchdog(lease).lock().await.unwrap();
    let monitor = Monitor::start(&server);
    let started = Instant::now();
    eventually("nine renewals", || times_sent(&monitor, Verb::Renew) >= 9).await;
    let took = started.elapsed();
    assert!(guard.is_held());
    assert!(took > ms(1_550), "nine renewals, at least 180 ms of 600 ms apart, in {took:?}");
    drop(guard);
}

async fn a_fixed_lease_is_not_renewed_and_ends_by_itself(server: Fixture) {
    let client = connect(&server).await;
    let monitor = Monitor::start(&server);
    let guard = client.lock("job").lease(LEASE).lock().await.unwrap();
    assert_eq!(soon("the end", guard.lost()).await, LostReason::Expired);
    assert!(!guard.is_held());
    eventually("the key to run out", || is_free(&server, "job")).await;
    assert_eq!(sent(&monitor).iter().filter(|one| one.is_ok()).count(), 1);
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::NotHeld));
}

async fn a_hold_ends_at_its_bound(server: Fixture) {
    let lock = connect(&server).await.lock("job").watchdog(LEASE).max_hold(ms(1000));
    let started = Instant::now();
    let guard = lock.lock().await.unwrap();
    let mut longest = 0;
    eventually("the end", || {
        longest = longest.max(started.elapsed().as_millis() as i64 + pttl(&server, "job"));
        !guard.is_held()
    })
    .await;
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    let lasted = started.elapsed();
    assert!(lasted > 2 * LEASE, "it was renewed up to its bound, and lasted {lasted:?}");
    // Reading both clocks takes a while, so their sum may be a little high.
    assert!(longest < 1000 + 150, "the key would have lived for {longest} ms");
    eventually("the key to run out", || is_free(&server, "job")).await;
}

async fn a_bound_shorter_than_the_lease_is_the_lease(server: Fixture) {
    let guard = connect(&server).await.lock("job").max_hold(ms(400)).lock().await.unwrap();
    assert!(pttl(&server, "job") <= 400);
    assert_eq!(soon("the end", guard.lost()).await, LostReason::MaxHold);
}

async fn renewals_stop_at_their_number(server: Fixture) {
    let client = connect(&server).await;
    let monitor = Monitor::start(&server);
    let guard = client.lock("job").watchdog(LEASE).max_renewals(2).lock().await.unwrap();
    assert_eq!(soon("the end", guard.lost()).await, LostReason::MaxRenewals);
    assert_eq!(times_sent(&monitor, Verb::Renew), 2);
}

async fn zero_renewals_is_a_valid_limit(server: Fixture) {
    let client = connect(&server).await;
    let monitor = Monitor::start(&server);
    let guard = client.lock("job").watchdog(LEASE).max_renewals(0).lock().await.unwrap();
    assert_eq!(soon("the end", guard.lost()).await, LostReason::MaxRenewals);
    assert_eq!(times_sent(&monitor, Verb::Renew), 0);
}

async fn a_detached_lock_is_neither_released_nor_renewed(server: Fixture) {
    let client = connect(&server).await;
    let monitor = Monitor::start(&server);
    client.lock("job").watchdog(LEASE).lock().await.unwrap().detach();
    assert!(!is_free(&server, "job"));
    eventually("the lease to run out", || is_free(&server, "job")).await;
    let verbs: Vec<_> = sent(&monitor).into_iter().filter_map(Result::ok).collect();
    assert_eq!(verbs, [Verb::Acquire]);
}

async fn no_renewal_follows_a_release_or_a_drop(server: Fixture) {
    let lock = connect(&server).await.lock("job").watchdog(ms(90));
    let monitor = Monitor::start(&server);
    for round in 0..20 {
        let guard = lock.lock().await.unwrap();
        // The release comes near the next renewal, which is due after 27 to 30 ms.
        let nearly = guard.remaining().saturating_sub(ms(19 + round % 8));
        eventually("a renewal to be nearly due", || guard.remaining() <= nearly).await;
        if round % 2 == 0 {
            guard.release().await.unwrap();
        } else {
            drop(guard);
        }
    }
    eventually("the last release", || is_free(&server, "job")).await;
    let mut held = false;
    for verb in sent(&monitor).into_iter().filter_map(Result::ok) {
        match verb {
            Verb::Acquire => held = true,
            Verb::Release => held = false,
            _ => assert!(held, "a renewal followed its release"),
        }
    }
}

async fn the_failure_of_one_lock_does_not_affect_another(server: Fixture) {
    let client = connect(&server).await;
    let kept = client.lock("kept").watchdog(LEASE).lock().await.unwrap();
    let taken = client.lock("taken").watchdog(LEASE).lock().await.unwrap();
    crate::support::run_command(&server, &["DEL", "taken"]);
    crate::support::run_command(&server, &["SET", "taken", "something else"]);
    soon("the loss", taken.lost()).await;
    crate::support::a_lease_passes(&server, 3 * LEASE).await;
    assert!(kept.is_held());
    assert_eq!(server.cli(&["GET", "taken"]), "something else");
}

#[tokio::test]
async fn an_intermittent_server_loses_only_locks_with_an_expired_lease() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let short = client.lock("short").watchdog(ms(150)).lock().await.unwrap();
    server.freeze();
    let asked = tokio::spawn({
        let lock = client.lock("other");
        async move { lock.try_lock().await }
    });
    // The renewal has no answer by now, but the connection serves all locks and stays.
    soon("the loss", short.lost()).await;
    server.thaw();
    assert!(soon("the answer", asked).await.unwrap().unwrap().is_some());
}

#[tokio::test]
async fn a_renewal_with_a_lost_reply_is_retried_within_the_lease() {
    // A third of this lease is more than one second, the shortest timeout of a renewal.
    let lease = ms(3600);
    let (server, proxy, client) = proxied(Duration::from_secs(3)).await;
    let monitor = Monitor::start(&server);
    let guard = client.lock("job").watchdog(lease).lock().await.unwrap();
    proxy.drop_nth_reply(1);
    eventually("the lost renewal and the one after it", || times_sent(&monitor, Verb::Renew) >= 2).await;
    // The first lease is over at the end of this loop.
    let (started, mut pace) = (Instant::now(), crate::support::pace(ms(20)));
    while started.elapsed() < lease {
        assert!(guard.is_held());
        pace.tick().await;
    }
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_renewal_with_a_broken_connection_is_retried_within_the_lease() {
    let lease = ms(900);
    let (server, proxy, client) = proxied(Duration::from_secs(3)).await;
    let guard = client.lock("job").watchdog(lease).lock().await.unwrap();
    let monitor = Monitor::start(&server);
    for _ in 0..4 {
        let before = times_sent(&monitor, Verb::Renew);
        proxy.cut_on_nth_reply(1);
        eventually("the renewal that is cut off and the next one", || {
            times_sent(&monitor, Verb::Renew) >= before + 2
        })
        .await;
        assert!(guard.is_held());
    }
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn a_server_that_is_away_for_less_than_a_lease_costs_no_lock() {
    let lease = ms(1500);
    let mut server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let guard = connect(&server).await.lock("job").watchdog(lease).lock().await.unwrap();
    server.restart();
    crate::support::a_lease_passes(&server, 2 * lease).await;
    assert!(guard.is_held(), "{:?}", guard.lost().await);
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_failed_re_entry_does_not_delay_the_renewals_of_the_outer_hold() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let outer = lock.clone().watchdog(ms(600)).lock().await.unwrap();
    // The timer key needs memory, so the wait begins before the memory limit.
    let more_than_two_leases = crate::support::a_lease_passes(&server, ms(2_000));
    crate::support::run_command(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    let inner = lock.watchdog(Duration::from_secs(60)).try_lock().await;
    assert_failed!(inner, AcquireErrorKind::Store(_));
    more_than_two_leases.await;
    assert!(outer.is_held(), "it was lost: {}", outer.lost().await);
}

async fn renewals_do_not_wait_for_a_busy_runtime(server: Fixture) {
    let guard = connect(&server).await.lock("job").watchdog(LEASE).lock().await.unwrap();
    // The loop blocks the only thread of this runtime.
    let started = Instant::now();
    leasehold_testkit::wait::eventually(crate::support::SOON, "the blocking work", || {
        assert!(guard.is_held());
        started.elapsed() > 5 * LEASE
    });
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
}

fn renewals_and_the_release_outlive_the_users_runtime(server: Fixture) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lock = async { connect(&server).await.lock("job").watchdog(LEASE).lock().await };
    let guard = runtime.block_on(lock).unwrap();
    drop(runtime);
    let started = Instant::now();
    leasehold_testkit::wait::eventually(crate::support::SOON, "several leases", || {
        assert!(guard.is_held());
        started.elapsed() > 4 * LEASE
    });
    drop(guard);
    leasehold_testkit::wait::eventually(crate::support::SOON, "the release", || is_free(&server, "job"));
}

#[test]
fn renewals_do_not_wait_for_a_runtime_whose_workers_are_all_blocked() {
    let server = RedisServer::start();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    let lock = async { connect(&server).await.lock("job").watchdog(LEASE).lock().await };
    let guard = runtime.block_on(lock).unwrap();
    let (block, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Arc::new(std::sync::Mutex::new(blocked));
    for _ in 0..2 {
        let blocked = std::sync::Arc::clone(&blocked);
        // The receive blocks until the sender is dropped.
        runtime.spawn(async move { blocked.lock().unwrap().recv().is_err() });
    }
    let started = Instant::now();
    leasehold_testkit::wait::eventually(crate::support::SOON, "several leases", || {
        assert!(guard.is_held());
        started.elapsed() > 4 * LEASE
    });
    drop(block);
    drop(guard);
    leasehold_testkit::wait::eventually(crate::support::SOON, "the release", || is_free(&server, "job"));
}
