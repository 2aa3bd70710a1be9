//! Minimum hold times. After an early release, the server keeps the lock closed for the rest of the time.

use std::time::{Duration, Instant};

use leasehold::error::AcquireErrorKind;
use leasehold::terms::LEASE_MAX;
use leasehold::{AcquireError, MultiLock, ReleaseOutcome, owner};

use crate::support::{Fixture, connect, count, eventually, is_free, ms, on_both, pttl, run_command, soon};

const LONG: Duration = Duration::from_secs(600);

on_both! {
    async {
        a_short_hold_excludes_others_for_min_hold_and_then_wakes_them,
        a_lease_shorter_than_min_hold_is_extended_before_the_release_is_reported,
        a_lease_longer_than_min_hold_needs_no_call,
        a_hold_older_than_min_hold_is_released_at_once,
        min_hold_excludes_the_same_owner_too,
        a_close_does_not_cut_min_hold,
        a_plain_lock_opens_after_min_hold_without_its_client,
        every_kind_has_min_hold,
        a_forced_release_during_min_hold_does_not_affect_the_next_holder,
        members_of_a_failed_multi_acquire_have_no_min_hold,
        an_impossible_min_hold_is_rejected,
    }
}

async fn a_short_hold_excludes_others_for_min_hold_and_then_wakes_them(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let began = Instant::now();
    let lock = client.lock("job").min_hold(ms(400));
    assert_eq!(lock.lock().await.unwrap().release().await, Ok(ReleaseOutcome::Released));
    assert!(other.lock("job").try_lock().await.unwrap().is_none());
    // The lease would keep the lock for 30 s, so only the release can let the other client in.
    let guard = soon("the end of the rest", other.lock("job").lock()).await.unwrap();
    assert!(began.elapsed() >= ms(400), "{:?}", began.elapsed());
    guard.release().await.unwrap();
}

async fn a_lease_shorter_than_min_hold_is_extended_before_the_release_is_reported(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").watchdog(ms(900)).min_hold(LONG).lock().await.unwrap();
    guard.release().await.unwrap();
    assert!((500_000..=600_001).contains(&pttl(&server, "job")), "{}", pttl(&server, "job"));
}

async fn a_lease_longer_than_min_hold_needs_no_call(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").min_hold(ms(9_000)).lock().await.unwrap();
    let before = crate::support::scripts_run(&server);
    guard.release().await.unwrap();
    assert_eq!(crate::support::scripts_run(&server), before);
    assert_eq!(count(&server, "job"), 1);
}

async fn a_hold_older_than_min_hold_is_released_at_once(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").min_hold(ms(30)).lock().await.unwrap();
    crate::support::a_lease_passes(&server, ms(31)).await;
    guard.release().await.unwrap();
    assert!(is_free(&server, "job"));
}

async fn min_hold_excludes_the_same_owner_too(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").min_hold(LONG);
    owner::scope(async {
        drop(lock.lock().await.unwrap());
        assert!(lock.try_lock().await.unwrap().is_none());
    })
    .await;
    assert_eq!(count(&server, "job"), 1);
}

async fn a_close_does_not_cut_min_hold(server: Fixture) {
    let client = connect(&server).await;
    let released = client.lock("released").watchdog(ms(900)).min_hold(LONG).lock().await.unwrap();
    let held = client.lock("held").watchdog(ms(900)).min_hold(LONG).lock().await.unwrap();
    let plain = client.lock("plain").lock().await.unwrap();
    drop(released);
    let report = client.close().await;
    assert_eq!((report.released, report.unconfirmed), (1, 0), "the one without a least time");
    assert!(!held.is_held() && !plain.is_held());
    assert!(is_free(&server, "plain"));
    for name in ["released", "held"] {
        assert!((500_000..=600_001).contains(&pttl(&server, name)), "{name}: {}", pttl(&server, name));
    }
}

async fn a_plain_lock_opens_after_min_hold_without_its_client(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let released = client.plain_lock("released").min_hold(ms(600)).lock().await.unwrap();
    let held = client.plain_lock("held").min_hold(ms(600)).lock().await.unwrap();
    let waiting = tokio::spawn(async move {
        let (released, held) = (other.plain_lock("released"), other.plain_lock("held"));
        tokio::join!(released.lock(), held.lock())
    });
    eventually("a mark on both", || {
        ["released", "held"].iter().all(|name| server.cli(&["GET", name]).ends_with("-1"))
    })
    .await;
    assert_eq!(released.release().await, Ok(ReleaseOutcome::Released));
    assert!((1..=601).contains(&pttl(&server, "released")), "{}", pttl(&server, "released"));
    client.close().await;
    assert!(!held.is_held());
    assert!((1..=601).contains(&pttl(&server, "held")), "{}", pttl(&server, "held"));
    // The leases were 30 s, so these waiters have read the new ones.
    let (released, held) = soon("the end of both", waiting).await.unwrap();
    assert_eq!(released.unwrap().release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(held.unwrap().release().await, Ok(ReleaseOutcome::Released));
}

async fn every_kind_has_min_hold(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let seats = client.expirable_semaphore("seats").watchdog(ms(900)).min_hold(LONG);
    seats.try_set_permits(1).await.unwrap();
    client.fair_lock("fair").watchdog(ms(900)).min_hold(LONG).lock().await.unwrap().release().await.unwrap();
    let fenced = client.fenced_lock("fenced").watchdog(ms(900)).min_hold(LONG);
    fenced.lock().await.unwrap().release().await.unwrap();
    client.spin_lock("spin").watchdog(ms(900)).min_hold(LONG).lock().await.unwrap().release().await.unwrap();
    let plain = client.plain_lock("plain").watchdog(ms(900)).min_hold(LONG);
    plain.lock().await.unwrap().release().await.unwrap();
    let sides = client.rw_lock("sides").watchdog(ms(900)).min_hold(LONG);
    sides.read().await.unwrap().release().await.unwrap();
    seats.acquire().await.unwrap().release().await.unwrap();
    client.close().await;

    for name in ["fair", "fenced", "spin", "plain", "sides"] {
        assert!((500_000..=600_001).contains(&pttl(&server, name)), "{name}: {}", pttl(&server, name));
    }
    assert!(other.fair_lock("fair").try_lock().await.unwrap().is_none());
    assert!(other.fenced_lock("fenced").try_lock().await.unwrap().is_none());
    assert!(other.spin_lock("spin").try_lock().await.unwrap().is_none());
    assert!(other.plain_lock("plain").try_lock().await.unwrap().is_none());
    assert!(other.rw_lock("sides").try_read().await.unwrap().is_some(), "readers do not exclude readers");
    assert!(other.rw_lock("sides").try_write().await.unwrap().is_none());
    assert!(other.expirable_semaphore("seats").try_acquire().await.unwrap().is_none());
}

async fn a_forced_release_during_min_hold_does_not_affect_the_next_holder(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.lock("job").min_hold(ms(200)).lock().await.unwrap().release().await.unwrap();
    assert!(other.lock("job").force_unlock().await.unwrap());
    let guard = other.lock("job").lock().await.unwrap();
    let before = crate::support::scripts_run(&server);
    eventually("the release at the end of the rest", || crate::support::scripts_run(&server) > before).await;
    assert_eq!(count(&server, "job"), 1);
    assert!(guard.is_held());
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    run_command(&server, &["DEL", "job"]);
}

async fn members_of_a_failed_multi_acquire_have_no_min_hold(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let guard = other.fair_lock("b").lock().await.unwrap();
    let lock = |name| client.fair_lock(name).min_hold(LONG).into();
    let both = MultiLock::of([lock("a"), lock("b")]);
    assert!(both.try_lock().await.unwrap().is_none());
    eventually("the first to be given back", || is_free(&server, "a")).await;
    guard.release().await.unwrap();
    both.lock().await.unwrap().release().await.unwrap();
    assert_eq!((count(&server, "a"), count(&server, "b")), (1, 1), "both rest");
}

/// The rejected minimum, and the maximum that it exceeds.
fn least_and_most(error: &AcquireError) -> Option<(Duration, Duration)> {
    match error.kind {
        AcquireErrorKind::MinHold { given, most, .. } => Some((given, most)),
        _ => None,
    }
}

async fn an_impossible_min_hold_is_rejected(server: Fixture) {
    let client = connect(&server).await;
    let bounded = client.lock("job").max_hold(ms(50)).min_hold(ms(60));
    assert_eq!(least_and_most(&bounded.lock().await.unwrap_err()), Some((ms(60), ms(50))));
    let fixed = client.lock("job").lease(ms(50)).min_hold(ms(60));
    let error = fixed.lock().await.unwrap_err();
    assert_eq!(least_and_most(&error), Some((ms(60), ms(50))), "a fixed lease ends the hold before: {error}");
    let endless = client.lock("job").min_hold(LEASE_MAX + ms(1));
    let refused = Some((LEASE_MAX + ms(1), LEASE_MAX));
    assert_eq!(least_and_most(&endless.lock().await.unwrap_err()), refused);
    let bounded = endless.max_hold(LEASE_MAX * 2);
    assert_eq!(least_and_most(&bounded.lock().await.unwrap_err()), refused, "no lease keeps it for so long");
    for (member, refused) in [
        (client.lock("job").min_hold(LEASE_MAX + ms(1)), refused),
        (client.lock("job").max_hold(ms(50)).min_hold(ms(60)), Some((ms(60), ms(50)))),
    ] {
        let both = MultiLock::of([client.lock("a").into(), member.into()]);
        assert_eq!(least_and_most(&both.lock().await.unwrap_err()), refused, "of a member");
        assert!(is_free(&server, "a"), "nothing was taken");
    }
}
