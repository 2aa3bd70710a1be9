//! The guard: its clock, every way to end it, and the effect of closing its client.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use leasehold::error::{AcquireErrorKind, EnsureErrorKind, InspectErrorKind, Verb};
use leasehold::{Client, EnsureError, Guard, LostReason, ReleaseOutcome};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait;

use crate::support::{
    Fixture, Monitor, SOON, connect, eventually, fields, hold_as_redisson, is_free, keys, ms, on_both,
    proxied, pttl, run_command, sent, soon, times_sent,
};

const LEASE: Duration = Duration::from_secs(10);

fn is_send_and_static<T: Send + 'static>(_: &T) {}

on_both! {
    async {
        a_guard_and_its_futures_can_be_moved_to_other_threads,
        validity_is_less_than_the_lease_by_the_drift_and_counts_down,
        a_guard_dropped_in_a_panic_frees_the_lock,
        a_task_that_panics_frees_its_lock,
        a_forgotten_guard_ends_at_its_max_hold,
        closing_releases_everything_and_reports_it,
        closing_refuses_waiters_and_everything_later,
        ensuring_available_time_sends_nothing,
        ensuring_more_than_the_remaining_time_renews_once,
        ensures_at_the_same_time_share_their_renewal,
        ensuring_more_than_a_lease_is_rejected,
        ensuring_a_lost_hold_returns_the_loss_reason,
        ensuring_detects_a_deleted_hold,
        ensuring_does_not_shorten_the_lease_on_the_server,
        extending_gives_a_fixed_lease_more_time,
        extending_by_less_than_is_left_sends_nothing,
        extending_is_bounded_by_max_hold_and_by_the_longest_lease,
        extending_a_lost_hold_returns_the_loss_reason,
        extending_detects_a_deleted_hold,
        an_extended_hold_of_the_watchdog_is_kept_and_still_watched,
        an_extended_hold_does_not_pass_to_a_waiter_with_a_shorter_lease,
        extensions_at_the_same_time_give_each_its_lease,
        a_guard_displays_its_name_and_owner,
    }
    sync {
        a_guard_dropped_on_a_thread_without_a_runtime_frees_the_lock,
        the_library_works_without_a_tokio_runtime,
    }
}

async fn a_guard_and_its_futures_can_be_moved_to_other_threads(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job");
    is_send_and_static(&client);
    is_send_and_static(&lock);
    let guard = lock.lock().await.unwrap();
    is_send_and_static(&guard);
    is_send_and_static(&guard.release());
    let waiting = {
        let lock = lock.clone();
        async move { lock.lock().await }
    };
    is_send_and_static(&waiting);
}

async fn validity_is_less_than_the_lease_by_the_drift_and_counts_down(server: Fixture) {
    let began = Instant::now();
    let guard = connect(&server).await.lock("job").lease(LEASE).lock().await.unwrap();
    let most = LEASE - LEASE / 100 - ms(2);
    let mut before = guard.remaining();
    // Validity counts from the send, which comes after `began`, so the duration of the grant does not matter.
    assert!(before < most && before + began.elapsed() >= most, "{before:?}");
    for _ in 0..5 {
        eventually("the clock to move", || guard.remaining() < before).await;
        before = guard.remaining();
    }
    // The guard's validity ends before the lease on the server.
    assert!(guard.remaining() < Duration::from_millis(pttl(&server, "job").try_into().unwrap()));
}

#[tokio::test]
async fn validity_counts_from_before_the_send() {
    let (server, proxy, client) = proxied(Duration::from_secs(5)).await;
    proxy.hold_replies(true);
    let acquiring = tokio::spawn({
        let lock = client.lock("job").lease(LEASE);
        async move { lock.lock().await }
    });
    eventually("the script to run", || !is_free(&server, "job")).await;
    let travelling = ms(300);
    crate::support::a_lease_passes(&server, travelling).await;
    proxy.hold_replies(false);
    let guard = soon("the grant", acquiring).await.unwrap().unwrap();
    assert!(guard.remaining() < LEASE - travelling, "{:?}", guard.remaining());
}

// The next tests keep the client alive, because its end would release the lock too.

async fn a_guard_dropped_in_a_panic_frees_the_lock(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("the work failed");
    }));
    assert!(outcome.is_err());
    eventually("the release", || is_free(&server, "job")).await;
    drop(client);
}

async fn a_task_that_panics_frees_its_lock(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job");
    let task = tokio::spawn(async move {
        let _guard = lock.lock().await.unwrap();
        panic!("the work failed");
    });
    assert!(task.await.unwrap_err().is_panic());
    eventually("the release", || is_free(&server, "job")).await;
    drop(client);
}

fn a_guard_dropped_on_a_thread_without_a_runtime_frees_the_lock(server: Fixture) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(connect(&server));
    let guard = runtime.block_on(client.lock("job").lock()).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    wait::eventually(SOON, "the release", || is_free(&server, "job"));
    drop(client);
}

#[test]
fn a_guard_dropped_after_its_runtime_frees_the_lock() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let client = runtime.block_on(connect(&server));
    let guard = runtime.block_on(client.lock("job").lock()).unwrap();
    drop(runtime);
    drop(guard);
    wait::eventually(SOON, "the release", || is_free(&server, "job"));
    drop(client);
}

#[test]
fn a_runtime_that_ends_with_a_guard_inside_frees_the_lock() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (run_command, told) = std::sync::mpsc::channel();
    let client = runtime.block_on(connect(&server));
    let lock = client.lock("job");
    runtime.spawn(async move {
        let _guard = lock.lock().await.unwrap();
        run_command.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    told.recv().unwrap();
    assert!(!is_free(&server, "job"));
    drop(runtime);
    wait::eventually(SOON, "the release", || is_free(&server, "job"));
    drop(client);
}

fn the_library_works_without_a_tokio_runtime(server: Fixture) {
    futures_util::future::FutureExt::now_or_never(async {}).unwrap();
    let outcome = block_on(async {
        let client = Client::connect(&server.url()).await.unwrap();
        let guard = client.lock("job").lock().await.unwrap();
        guard.ensure(Duration::from_secs(1)).await.unwrap();
        guard.release().await
    });
    assert_eq!(outcome, Ok(ReleaseOutcome::Released));
}

/// A minimal executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) =
            future.as_mut().poll(&mut std::task::Context::from_waker(&waker))
        {
            return output;
        }
        std::thread::park();
    }
}

async fn a_forgotten_guard_ends_at_its_max_hold(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").watchdog(ms(300)).max_hold(ms(700)).lock().await.unwrap();
    std::mem::forget(guard);
    eventually("the bound", || is_free(&server, "job")).await;
}

#[tokio::test]
async fn the_last_handle_of_a_client_releases_its_holds() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guards: Vec<Guard> = {
        let mut guards = Vec::new();
        for number in 0..20 {
            guards.push(client.lock(format!("job:{number}")).lock().await.unwrap());
        }
        guards
    };
    drop(client);
    assert!(guards.iter().all(Guard::is_held), "guards keep their client alive");
    assert_eq!(keys(&server), 20);
    drop(guards);
    eventually("the releases", || keys(&server) == 0).await;
    // The connection of `CLIENT LIST` is the only connection left.
    eventually("the connections to end", || {
        server.cli(&["CLIENT", "LIST", "TYPE", "normal"]).lines().count() == 1
            && server.cli(&["CLIENT", "LIST", "TYPE", "pubsub"]).is_empty()
    })
    .await;
}

async fn closing_releases_everything_and_reports_it(server: Fixture) {
    let client = connect(&server).await;
    let mut guards = Vec::new();
    for number in 0..10 {
        guards.push(client.lock(format!("job:{number}")).lock().await.unwrap());
    }
    let report = soon("the report", client.close()).await;
    assert_eq!((report.released, report.unconfirmed), (10, 0));
    assert_eq!(keys(&server), 0);
    for guard in guards {
        assert!(!guard.is_held());
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert_eq!(guard.lost().await, LostReason::Closed);
        let outcome = guard.ensure(ms(1)).await;
        assert_eq!(outcome.map_err(|error| error.kind), Err(EnsureErrorKind::Lost(LostReason::Closed)));
        assert_eq!(guard.release().await, Ok(ReleaseOutcome::NotHeld));
    }
}

async fn closing_refuses_waiters_and_everything_later(server: Fixture) {
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", Duration::from_secs(600));
    let waiters: Vec<_> = (0..5)
        .map(|_| {
            let lock = client.lock("job");
            tokio::spawn(async move { lock.lock().await.map(drop) })
        })
        .collect();
    eventually("them to wait", || crate::support::listeners(&server, "job") == 1).await;
    soon("the report", client.close()).await;
    for waiter in waiters {
        assert_eq!(
            soon("the refusal", waiter).await.unwrap().map_err(|error| error.kind),
            Err(AcquireErrorKind::Closed)
        );
    }
    let lock = client.lock("other");
    assert_eq!(lock.lock().await.map(drop).map_err(|error| error.kind), Err(AcquireErrorKind::Closed));
    assert_eq!(lock.try_lock().await.map(drop).map_err(|error| error.kind), Err(AcquireErrorKind::Closed));
    assert_eq!(
        lock.try_lock_for(ms(50)).await.map(drop).map_err(|error| error.kind),
        Err(AcquireErrorKind::Closed)
    );
    assert_eq!(lock.is_locked().await.map_err(|error| error.kind), Err(InspectErrorKind::Closed));
    assert_eq!(lock.force_unlock().await.map_err(|error| error.kind), Err(InspectErrorKind::Closed));
    assert_eq!(keys(&server), 1, "another owner's hold stays");
    assert_eq!(soon("a second close", client.close()).await.unconfirmed, 0);
}

#[tokio::test]
async fn closing_at_a_silent_server_ends_in_time_and_reports_open_holds() {
    let (server, proxy, client) = proxied(ms(250)).await;
    let _guard = client.lock("job").lock().await.unwrap();
    proxy.black_hole(true);
    let report = soon("the report", client.close()).await;
    assert_eq!((report.released, report.unconfirmed), (0, 1));
    proxy.black_hole(false);
    eventually("the release", || is_free(&server, "job")).await;
}

async fn ensuring_available_time_sends_nothing(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(LEASE).lock().await.unwrap();
    let monitor = Monitor::start(&server);
    guard.ensure(LEASE / 2).await.unwrap();
    guard.ensure(Duration::ZERO).await.unwrap();
    assert_eq!(sent(&monitor), []);
}

async fn ensuring_more_than_the_remaining_time_renews_once(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(ms(2000)).lock().await.unwrap();
    let monitor = Monitor::start(&server);
    eventually("some of the lease to pass", || guard.remaining() < ms(1700)).await;
    guard.ensure(ms(1800)).await.unwrap();
    assert!(guard.remaining() > ms(1700), "{:?}", guard.remaining());
    assert_eq!(sent(&monitor), [Ok(Verb::Renew)]);
}

async fn ensures_at_the_same_time_share_their_renewal(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(ms(5000)).lock().await.unwrap();
    let monitor = Monitor::start(&server);
    eventually("some of the lease to pass", || guard.remaining() < ms(4700)).await;
    let all = (0..8).map(|_| guard.ensure(ms(4800)));
    for outcome in futures_util::future::join_all(all).await {
        outcome.unwrap();
    }
    assert_eq!(times_sent(&monitor, Verb::Renew), 1);
}

async fn ensuring_more_than_a_lease_is_rejected(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(LEASE).lock().await.unwrap();
    let monitor = Monitor::start(&server);
    let EnsureErrorKind::TooLong { most, .. } = guard.ensure(LEASE).await.unwrap_err().kind else {
        panic!("more than the validity of a lease")
    };
    assert!(most < LEASE);
    assert!(matches!(
        guard.ensure(Duration::MAX).await,
        Err(EnsureError { kind: EnsureErrorKind::TooLong { .. }, .. })
    ));
    assert_eq!(sent(&monitor), []);
    assert!(guard.is_held());
}

async fn ensuring_a_lost_hold_returns_the_loss_reason(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(ms(300)).lock().await.unwrap();
    soon("the end", guard.lost()).await;
    let outcome = guard.ensure(ms(1)).await;
    assert_eq!(outcome.map_err(|error| error.kind), Err(EnsureErrorKind::Lost(LostReason::Expired)));
}

async fn ensuring_detects_a_deleted_hold(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(ms(2000)).lock().await.unwrap();
    eventually("some of the lease to pass", || guard.remaining() < ms(1900)).await;
    run_command(&server, &["DEL", "job"]);
    let outcome = guard.ensure(ms(1950)).await;
    assert_eq!(outcome.map_err(|error| error.kind), Err(EnsureErrorKind::Lost(LostReason::Deleted)));
    assert!(!guard.is_held());
    assert!(is_free(&server, "job"), "a renewal never takes a lock");
}

async fn ensuring_does_not_shorten_the_lease_on_the_server(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(ms(2000)).lock().await.unwrap();
    run_command(&server, &["PEXPIRE", "job", "60000"]);
    eventually("some of the lease to pass", || guard.remaining() < ms(1800)).await;
    guard.ensure(ms(1900)).await.unwrap();
    assert!(pttl(&server, "job") > 30_000);
}

async fn extending_gives_a_fixed_lease_more_time(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(ms(2_000)).lock().await.unwrap();
    let monitor = Monitor::start(&server);
    guard.extend(ms(60_000)).await.unwrap();
    assert!(guard.remaining() > ms(55_000) && guard.remaining() < ms(60_000));
    assert!(pttl(&server, "job") > 55_000);
    assert_eq!(times_sent(&monitor, Verb::Renew), 1);
    guard.release().await.unwrap();
    assert!(is_free(&server, "job"));
}

async fn extending_by_less_than_is_left_sends_nothing(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(LEASE).lock().await.unwrap();
    let monitor = Monitor::start(&server);
    guard.extend(LEASE / 2).await.unwrap();
    guard.extend(Duration::ZERO).await.unwrap();
    assert_eq!(sent(&monitor), []);
}

async fn extending_is_bounded_by_max_hold_and_by_the_longest_lease(server: Fixture) {
    let client = connect(&server).await;
    let most = |outcome: Result<(), EnsureError>| match outcome.unwrap_err().kind {
        EnsureErrorKind::TooLong { most, .. } => most,
        other => panic!("{other:?}"),
    };
    let bounded = client.lock("job").lease(LEASE).max_hold(2 * LEASE).lock().await.unwrap();
    let rest = most(bounded.extend(3 * LEASE).await);
    assert!(rest <= 2 * LEASE && rest > LEASE, "{rest:?}");
    bounded.extend(15 * LEASE / 10).await.unwrap();
    assert!(bounded.remaining() > LEASE);
    let unbounded = client.lock("other").lease(LEASE).lock().await.unwrap();
    assert_eq!(most(unbounded.extend(Duration::MAX).await), Duration::from_secs(365 * 86_400));
    assert!(unbounded.is_held());
}

async fn extending_a_lost_hold_returns_the_loss_reason(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(ms(300)).lock().await.unwrap();
    soon("the end", guard.lost()).await;
    let outcome = guard.extend(LEASE).await;
    assert_eq!(outcome.map_err(|error| error.kind), Err(EnsureErrorKind::Lost(LostReason::Expired)));
}

async fn extending_detects_a_deleted_hold(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(LEASE).lock().await.unwrap();
    run_command(&server, &["DEL", "job"]);
    let outcome = guard.extend(2 * LEASE).await;
    assert_eq!(outcome.map_err(|error| error.kind), Err(EnsureErrorKind::Lost(LostReason::Deleted)));
    assert!(is_free(&server, "job"), "an extension never takes a lock");
}

async fn an_extended_hold_of_the_watchdog_is_kept_and_still_watched(server: Fixture) {
    let guard = connect(&server).await.lock("job").watchdog(ms(600)).lock().await.unwrap();
    guard.extend(ms(60_000)).await.unwrap();
    let monitor = Monitor::start(&server);
    eventually("a renewal by the watchdog", || times_sent(&monitor, Verb::Renew) > 0).await;
    assert!(pttl(&server, "job") > 50_000, "a renewal does not shorten the lease");
    assert!(guard.remaining() > ms(50_000));
    run_command(&server, &["DEL", "job"]);
    assert_eq!(soon("the next renewal", guard.lost()).await, LostReason::Deleted);
}

async fn an_extended_hold_does_not_pass_to_a_waiter_with_a_shorter_lease(server: Fixture) {
    let lock = connect(&server).await.lock("job").hand_off(ms(5_000));
    let guard = lock.lock().await.unwrap();
    guard.extend(ms(60_000)).await.unwrap();
    let waiting = tokio::spawn(async move { lock.lock().await });
    let owner = guard.wire_owner();
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    let next = soon("the waiter", waiting).await.unwrap().unwrap();
    assert_ne!(next.wire_owner(), owner);
    assert!(pttl(&server, "job") <= 30_000);
}

async fn extensions_at_the_same_time_give_each_its_lease(server: Fixture) {
    let guard = connect(&server).await.lock("job").lease(ms(2_000)).lock().await.unwrap();
    let all = (1..8).map(|more| guard.extend(ms(10_000 * more)));
    for outcome in futures_util::future::join_all(all).await {
        outcome.unwrap();
    }
    assert!(guard.remaining() > ms(65_000));
}

async fn a_guard_displays_its_name_and_owner(server: Fixture) {
    let guard = connect(&server).await.lock("job").lock().await.unwrap();
    let shown = format!("{guard:?}");
    assert!(shown.contains("job") && shown.contains(&guard.wire_owner().to_string()), "{shown}");
    assert_eq!(fields(&server, "job").len(), 1);
}

#[tokio::test]
async fn closing_undoes_an_acquire_in_flight() {
    let (server, proxy, client) = proxied(Duration::from_secs(30)).await;
    proxy.hold_replies(true);
    let acquiring = tokio::spawn({
        let lock = client.lock("job");
        async move { lock.lock().await.map(drop) }
    });
    eventually("the script to run", || !is_free(&server, "job")).await;
    let closing = tokio::spawn(async move { client.close().await });
    assert_eq!(
        soon("the refusal", acquiring).await.unwrap().map_err(|error| error.kind),
        Err(AcquireErrorKind::Closed)
    );
    assert!(!closing.is_finished(), "it waits for what is on its way");
    proxy.hold_replies(false);
    assert_eq!(soon("the report", closing).await.unwrap().unconfirmed, 0);
    assert!(is_free(&server, "job"));
}
