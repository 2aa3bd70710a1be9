//! Unknown outcomes: a script that ran and whose reply was lost, a call without an answer, an answer too late. The
//! error says so, and the client undoes any effect.

use std::time::Duration;

use leasehold::error::{AcquireErrorKind, EnsureErrorKind, ReleaseErrorKind, StoreErrorKind};
use leasehold::{AcquireError, EnsureError, ReleaseError, ReleaseOutcome};
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    assert_failed, connect, connect_with, count, eventually, fields, hold_as_redisson, is_free, keys,
    listeners, ms, proxied, pttl, run_command, scripts_run, soon,
};

/// The timeout of the clients in these tests.
const TIMEOUT: Duration = ms(250);

#[tokio::test]
async fn an_acquire_that_ran_without_its_reply_is_unknown_and_undone_when_the_server_answers_again() {
    let (server, proxy, client) = proxied(TIMEOUT).await;
    proxy.drop_replies(true);
    let outcome = soon("the timeout", client.lock("job").try_lock()).await;
    let Err(AcquireError { kind: AcquireErrorKind::Unknown { free_within, source, .. }, .. }) = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(source.kind, StoreErrorKind::Timeout);
    let bound = free_within.bound().expect("the lease bounds it");
    assert!(bound > Duration::from_secs(25) && bound < Duration::from_secs(31), "{bound:?}");
    assert!(!is_free(&server, "job"), "the script did run");
    proxy.drop_replies(false);
    let left = pttl(&server, "job");
    eventually("the undo", || is_free(&server, "job")).await;
    assert!(left == -2 || left > 5_000, "the lease would have lasted: {left} ms");
}

#[tokio::test]
async fn an_acquire_whose_connection_breaks_is_unknown_and_undone_at_once() {
    let (server, proxy, client) = proxied(TIMEOUT).await;
    proxy.cut_on_nth_reply(1);
    let outcome = client.lock("job").try_lock().await;
    let Err(AcquireError { kind: AcquireErrorKind::Unknown { source, .. }, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(source.kind, StoreErrorKind::ConnectionLost);
    eventually("acquire and undo", || scripts_run(&server) >= 2 && is_free(&server, "job")).await;
}

#[tokio::test]
async fn a_waiting_acquire_retries_after_a_lost_reply_and_holds_once() {
    let (server, proxy, client) = proxied(Duration::from_secs(5)).await;
    proxy.cut_on_nth_reply(1);
    let guard = soon("the second question", client.lock("job").lock()).await.unwrap();
    assert_eq!(count(&server, "job"), 1);
    assert!(fields(&server, "job").contains_key(&guard.wire_owner().to_string()));
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn a_wait_whose_replies_are_all_lost_ends_as_unknown_at_its_deadline() {
    let (server, proxy, client) = proxied(Duration::from_secs(30)).await;
    proxy.drop_replies(true);
    let outcome = soon("the deadline", client.lock("job").try_lock_for(ms(200))).await;
    assert_failed!(outcome, AcquireErrorKind::Unknown { .. });
    assert!(!is_free(&server, "job"));
    // The call is still within its own timeout when the proxy resets its connection.
    proxy.drop_replies(false);
    eventually("the undo", || is_free(&server, "job")).await;
}

#[tokio::test]
async fn a_request_that_never_arrived_leaves_nothing() {
    let (server, proxy, client) = proxied(TIMEOUT).await;
    proxy.drop_requests(true);
    let outcome = soon("the timeout", client.lock("job").try_lock()).await;
    assert_failed!(outcome, AcquireErrorKind::Unknown { .. });
    proxy.drop_requests(false);
    let guard = soon("the next acquire", client.lock("job").lock()).await.unwrap();
    assert_eq!(keys(&server), 1);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_refused_connection_is_known_not_to_have_acquired() {
    let (server, proxy, client) = proxied(TIMEOUT).await;
    proxy.refuse(true);
    proxy.cut();
    // The client may still write the first call to the broken connection.
    eventually("the connection to be known as gone", || proxy.connections() == 0).await;
    let mut outcome = soon("the first refusal", client.lock("job").try_lock()).await;
    if matches!(outcome, Err(AcquireError { kind: AcquireErrorKind::Unknown { .. }, .. })) {
        outcome = soon("the second refusal", client.lock("job").try_lock()).await;
    }
    let Err(AcquireError { kind: AcquireErrorKind::Store(source), .. }) = outcome else {
        panic!("{outcome:?}")
    };
    assert_ne!(source.kind, StoreErrorKind::Server);
    proxy.refuse(false);
    assert_eq!(keys(&server), 0);
}

#[tokio::test]
async fn a_grant_after_the_deadline_is_undone_and_not_reported() {
    let (server, proxy, client) = proxied(Duration::from_secs(30)).await;
    proxy.hold_replies(true);
    let outcome = soon("the deadline", client.lock("job").try_lock_for(ms(100))).await;
    assert_failed!(outcome, AcquireErrorKind::Unknown { .. });
    assert_eq!(count(&server, "job"), 1);
    proxy.hold_replies(false);
    eventually("the undo", || is_free(&server, "job")).await;
    assert_eq!(scripts_run(&server), 2);
}

#[tokio::test]
async fn a_grant_older_than_its_lease_is_not_reported() {
    let (server, proxy, client) = proxied(Duration::from_secs(30)).await;
    proxy.hold_replies(true);
    let attempt = tokio::spawn({
        let lock = client.lock("job").lease(ms(80));
        async move { lock.try_lock().await }
    });
    eventually("the script to run", || scripts_run(&server) >= 1).await;
    eventually("the lease to run out", || is_free(&server, "job")).await;
    proxy.hold_replies(false);
    let outcome = soon("the verdict", attempt).await.unwrap();
    assert_failed!(outcome, AcquireErrorKind::LeaseTooShort { .. });
}

#[tokio::test]
async fn an_unanswered_release_is_unconfirmed_and_done_later() {
    let (server, proxy, client) = proxied(TIMEOUT).await;
    let guard = client.lock("job").lock().await.unwrap();
    proxy.black_hole(true);
    let outcome = soon("the timeout", guard.release()).await;
    let Err(ReleaseError { kind: ReleaseErrorKind::Unconfirmed { free_within, .. }, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    let bound = free_within.bound().expect("the lease bounds it");
    assert!(bound > Duration::from_secs(20) && bound < Duration::from_secs(31), "{bound:?}");
    assert!(!is_free(&server, "job"));
    proxy.black_hole(false);
    eventually("the release", || is_free(&server, "job")).await;
}

#[tokio::test]
async fn a_release_with_a_lost_reply_is_retried() {
    let (server, proxy, client) = proxied(Duration::from_secs(5)).await;
    let guard = client.lock("job").lock().await.unwrap();
    proxy.cut_on_nth_reply(1);
    assert_eq!(soon("the answer", guard.release()).await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
    assert_eq!(scripts_run(&server), 3, "acquire, release, release again");
}

#[tokio::test]
async fn a_guard_dropped_while_the_server_is_silent_is_released_later() {
    let (server, proxy, client) = proxied(TIMEOUT).await;
    let guard = client.lock("job").lock().await.unwrap();
    proxy.black_hole(true);
    drop(guard);
    proxy.black_hole(false);
    eventually("the release", || is_free(&server, "job")).await;
}

#[tokio::test]
async fn a_late_second_release_does_not_affect_a_newer_hold_of_its_owner() {
    let (server, proxy, client) = proxied(Duration::from_secs(5)).await;
    let owner = client.owner();
    let lock = client.lock("job").owned_by(&owner);
    let old = lock.lock().await.unwrap();
    // The release runs and its reply is lost. The client sends it again behind the next acquire at the earliest.
    proxy.cut_on_nth_reply(1);
    drop(old);
    let new = soon("the lock", lock.lock()).await.unwrap();
    eventually("the second release", || scripts_run(&server) >= 4).await;
    assert!(fields(&server, "job").contains_key(&new.wire_owner().to_string()));
    assert_eq!(new.release().await, Ok(ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_frozen_server_that_thaws_ends_up_with_no_lock_of_timed_out_acquires() {
    let server = RedisServer::start();
    let builder = leasehold::Client::builder().timeout(TIMEOUT);
    let client = connect_with(builder, &server.url()).await;
    server.freeze();
    let attempts: Vec<_> = (0..40)
        .map(|number| {
            let lock = client.lock(format!("job:{number}"));
            tokio::spawn(async move { lock.try_lock().await.map(drop) })
        })
        .collect();
    for attempt in attempts {
        let outcome = soon("the timeout", attempt).await.unwrap();
        assert!(outcome.is_err(), "{outcome:?}");
    }
    server.thaw();
    // The earlier calls are in the server's socket, so the undo must come behind them.
    let other = connect(&server).await;
    for number in 0..40 {
        let lock = other.lock(format!("job:{number}"));
        drop(soon("the undo", lock.lock()).await.unwrap());
    }
    eventually("the releases", || keys(&server) == 0).await;
}

#[tokio::test]
async fn a_dropped_waiter_with_an_attempt_in_flight_leaves_nothing() {
    let (server, proxy, client) = proxied(TIMEOUT).await;
    proxy.drop_replies(true);
    let lock = client.lock("job");
    assert!(crate::support::poll_times(1, lock.lock()).await.is_none());
    eventually("the script to run", || !is_free(&server, "job")).await;
    proxy.drop_replies(false);
    eventually("the undo", || is_free(&server, "job")).await;
}

#[tokio::test]
async fn an_unanswered_renewal_on_demand_is_unconfirmed() {
    let (_server, proxy, client) = proxied(TIMEOUT).await;
    let guard = client.lock("job").lease(Duration::from_secs(20)).lock().await.unwrap();
    let whole = guard.remaining();
    eventually("some of it to pass", || guard.remaining() + ms(15) < whole).await;
    let before = guard.remaining();
    proxy.black_hole(true);
    let outcome = soon("the timeout", guard.ensure(before + ms(10))).await;
    let Err(EnsureError { kind: EnsureErrorKind::Unconfirmed { remaining, .. }, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(remaining <= before, "an unanswered renewal extends nothing");
    assert!(guard.is_held());
    proxy.black_hole(false);
}

#[tokio::test]
async fn an_undo_does_not_affect_the_current_holder() {
    let (server, proxy, client) = proxied(TIMEOUT).await;
    hold_as_redisson(&server, "job", Duration::from_secs(60));
    let before = fields(&server, "job");
    proxy.cut_on_nth_reply(1);
    let outcome = client.lock("job").try_lock().await;
    assert_failed!(outcome, AcquireErrorKind::Unknown { .. });
    eventually("the undo", || scripts_run(&server) >= 2).await;
    assert_eq!(fields(&server, "job"), before);
    run_command(&server, &["DEL", "job"]);
    assert_eq!(listeners(&server, "job"), 0);
}

#[tokio::test]
async fn an_unanswered_inspect_is_an_error_within_the_timeout() {
    let (_server, proxy, client) = proxied(TIMEOUT).await;
    proxy.black_hole(true);
    let lock = client.lock("job");
    let outcome = soon("the timeout", lock.is_locked()).await;
    assert!(
        matches!(
            outcome,
            Err(leasehold::InspectError { kind: leasehold::error::InspectErrorKind::Store(_), .. })
        ),
        "{outcome:?}"
    );
    let outcome = soon("the timeout", lock.force_unlock()).await;
    assert!(
        matches!(
            outcome,
            Err(leasehold::InspectError { kind: leasehold::error::InspectErrorKind::Store(_), .. })
        ),
        "{outcome:?}"
    );
}
