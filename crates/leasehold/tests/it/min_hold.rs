//! Minimum hold times. After an early release, the server keeps the lock closed for the rest of the time.

use std::time::{Duration, Instant};

use leasehold::error::AcquireErrorKind;
use leasehold::terms::LEASE_MAX;
use leasehold::{AcquireError, MultiLock, ReleaseOutcome, owner};

use crate::support::{Place, connect, count, eventually, is_free, ms, on_both, pttl, soon, tell};

const LONG: Duration = Duration::from_secs(600);

on_both! {
    async {
        a_quick_hold_keeps_others_out_for_its_least_time_and_wakes_them_then,
        a_lease_that_would_end_before_is_extended_before_the_release_is_reported,
        nothing_is_sent_for_a_lease_that_lasts,
        a_hold_that_lasted_is_released_at_once,
        its_own_owner_is_kept_out_too,
        a_close_leaves_what_rests,
        every_kind_rests,
        a_rest_that_was_forced_free_takes_nothing_from_the_next_holder,
        what_was_taken_of_several_does_not_rest_when_not_all_can_be_had,
        a_least_time_that_cannot_be_is_refused,
    }
}

async fn a_quick_hold_keeps_others_out_for_its_least_time_and_wakes_them_then(server: Place) {
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

async fn a_lease_that_would_end_before_is_extended_before_the_release_is_reported(server: Place) {
    let client = connect(&server).await;
    let guard = client.lock("job").watchdog(ms(900)).min_hold(LONG).lock().await.unwrap();
    guard.release().await.unwrap();
    assert!((500_000..=600_001).contains(&pttl(&server, "job")), "{}", pttl(&server, "job"));
}

async fn nothing_is_sent_for_a_lease_that_lasts(server: Place) {
    let client = connect(&server).await;
    let guard = client.lock("job").min_hold(ms(9_000)).lock().await.unwrap();
    let before = crate::support::scripts_run(&server);
    guard.release().await.unwrap();
    assert_eq!(crate::support::scripts_run(&server), before);
    assert_eq!(count(&server, "job"), 1);
}

async fn a_hold_that_lasted_is_released_at_once(server: Place) {
    let client = connect(&server).await;
    let guard = client.lock("job").min_hold(ms(30)).lock().await.unwrap();
    crate::support::a_lease_passes(&server, ms(31)).await;
    guard.release().await.unwrap();
    assert!(is_free(&server, "job"));
}

async fn its_own_owner_is_kept_out_too(server: Place) {
    let client = connect(&server).await;
    let lock = client.lock("job").min_hold(LONG);
    owner::scope(async {
        drop(lock.lock().await.unwrap());
        assert!(lock.try_lock().await.unwrap().is_none());
    })
    .await;
    assert_eq!(count(&server, "job"), 1);
}

async fn a_close_leaves_what_rests(server: Place) {
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

async fn every_kind_rests(server: Place) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let seats = client.expirable_semaphore("seats").watchdog(ms(900)).min_hold(LONG);
    seats.try_set_permits(1).await.unwrap();
    client.fair_lock("fair").watchdog(ms(900)).min_hold(LONG).lock().await.unwrap().release().await.unwrap();
    client
        .fenced_lock("fenced")
        .watchdog(ms(900))
        .min_hold(LONG)
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    client.spin_lock("spin").watchdog(ms(900)).min_hold(LONG).lock().await.unwrap().release().await.unwrap();
    let sides = client.rw_lock("sides").watchdog(ms(900)).min_hold(LONG);
    sides.read().await.unwrap().release().await.unwrap();
    seats.acquire().await.unwrap().release().await.unwrap();
    client.close().await;

    for name in ["fair", "fenced", "spin", "sides"] {
        assert!((500_000..=600_001).contains(&pttl(&server, name)), "{name}: {}", pttl(&server, name));
    }
    assert!(other.fair_lock("fair").try_lock().await.unwrap().is_none());
    assert!(other.fenced_lock("fenced").try_lock().await.unwrap().is_none());
    assert!(other.spin_lock("spin").try_lock().await.unwrap().is_none());
    assert!(other.rw_lock("sides").try_read().await.unwrap().is_some(), "readers do not exclude readers");
    assert!(other.rw_lock("sides").try_write().await.unwrap().is_none());
    assert!(other.expirable_semaphore("seats").try_acquire().await.unwrap().is_none());
}

async fn a_rest_that_was_forced_free_takes_nothing_from_the_next_holder(server: Place) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.lock("job").min_hold(ms(200)).lock().await.unwrap().release().await.unwrap();
    assert!(other.lock("job").force_unlock().await.unwrap());
    let guard = other.lock("job").lock().await.unwrap();
    let before = crate::support::scripts_run(&server);
    eventually("the release at the end of the rest", || crate::support::scripts_run(&server) > before).await;
    assert_eq!(count(&server, "job"), 1);
    assert!(guard.is_held());
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    tell(&server, &["DEL", "job"]);
}

async fn what_was_taken_of_several_does_not_rest_when_not_all_can_be_had(server: Place) {
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

async fn a_least_time_that_cannot_be_is_refused(server: Place) {
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
