//! Calls for permits without an answer. No permit is lost or created, and the error states the known facts.

use std::time::Duration;

use leasehold::error::{AcquireErrorKind, FreeWithin, OperationErrorKind};
use leasehold::{AcquireError, Client, OperationError, ReleaseOutcome};

use crate::support::{
    NEVER, TestServer, assert_failed, connect, connect_through, eventually, ms, pttl, scripts_run,
    server_and_proxy, soon,
};

/// Sets the number of permits of the semaphore `seats` and of the expirable semaphore `places`.
async fn set(client: &Client, permits: u32) {
    assert!(client.semaphore("seats").try_set_permits(permits).await.unwrap());
    assert!(client.expirable_semaphore("places").try_set_permits(permits).await.unwrap());
}

/// The number of available permits of `seats` on the server.
fn left(server: &impl TestServer) -> i64 {
    server.cli(&["GET", "seats"]).parse().unwrap()
}

/// The number of available permits of `places` on the server, and the number of its permit ids.
fn places(server: &impl TestServer) -> (i64, u64) {
    let ids = server.cli(&["ZCARD", "{places}:timeout"]).parse().unwrap();
    (server.cli(&["GET", "places"]).parse().unwrap(), ids)
}

/// The markers of acquisitions.
fn markers(server: &impl TestServer) -> Vec<String> {
    let printed = server.cli(&["KEYS", "leasehold_permit:*"]);
    printed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[tokio::test]
async fn an_acquire_without_a_reply_is_undone_however_late_it_arrives() {
    let (server, proxy) = server_and_proxy();
    let other = connect(&server).await;
    set(&other, 3).await;
    let through = connect_through(&proxy, ms(250)).await.semaphore("seats");
    proxy.drop_replies(true);
    let outcome = soon("the timeout", through.try_acquire_many(2)).await.map(drop);
    let error = outcome.unwrap_err();
    let AcquireErrorKind::Unknown { free_within, .. } = error.kind else { panic!("{error}") };
    assert_eq!(free_within, FreeWithin::Unbounded, "no lease ends it");
    assert_eq!(
        error.to_string(),
        "semaphore \"seats\" may or may not be acquired: no reply within the timeout; any effect of this attempt is \
         gone when the server has replied"
    );
    assert!(!format!("{error:#?}").contains("18446"), "{error:#?}");
    proxy.drop_replies(false);
    eventually("the undo", || left(&server) == 3).await;
    // A late duplicate of the first call would find this marker.
    let marker = markers(&server).pop().unwrap();
    assert_eq!(server.cli(&["GET", &marker]), "0");
    assert!((3_000_000..=3_600_000).contains(&pttl(&server, &marker)));
    assert!(other.semaphore("seats").try_acquire_many(3).await.unwrap().is_some());
}

#[tokio::test]
async fn an_acquire_that_never_arrived_is_retried_and_takes_permits_once() {
    for fifo in [false, true] {
        let (server, proxy) = server_and_proxy();
        set(&connect(&server).await, 3).await;
        let through = connect_through(&proxy, Duration::from_secs(5)).await.semaphore("seats");
        let through = if fifo { through.fifo() } else { through };
        for cut in [1, 2] {
            proxy.cut_on_nth_reply(cut);
            let permits = soon("the permits", through.acquire_many(2)).await.unwrap();
            assert_eq!(left(&server), 1, "however often it was sent");
            assert_eq!(soon("the release", permits.release()).await, Ok(ReleaseOutcome::Released));
            assert_eq!(left(&server), 3);
        }
    }
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_returns_its_permits_once() {
    for fifo in [false, true] {
        let (server, proxy) = server_and_proxy();
        set(&connect(&server).await, 3).await;
        let through = connect_through(&proxy, Duration::from_secs(5)).await.semaphore("seats");
        let through = if fifo { through.fifo() } else { through };
        let permits = through.acquire_many(2).await.unwrap();
        let before = scripts_run(&server);
        proxy.cut_on_nth_reply(1);
        assert_eq!(soon("the release", permits.release()).await, Ok(ReleaseOutcome::Released));
        assert!(scripts_run(&server) >= before + 2, "it was sent twice");
        assert_eq!(left(&server), 3);
    }
}

#[tokio::test]
async fn an_operation_with_a_lost_reply_runs_once_and_returns_its_result() {
    let (server, proxy) = server_and_proxy();
    let through = connect_through(&proxy, Duration::from_secs(5)).await.semaphore("seats");
    proxy.cut_on_nth_reply(1);
    assert!(soon("the set", through.try_set_permits(10)).await.unwrap(), "it was this call that set it");
    proxy.cut_on_nth_reply(1);
    assert_eq!(soon("the addition", through.add_permits(5)).await.unwrap(), 15);
    proxy.cut_on_nth_reply(1);
    assert_eq!(soon("the return", through.release(2)).await.unwrap(), 17);
    assert_eq!(left(&server), 17);
    proxy.cut_on_nth_reply(1);
    assert_eq!(soon("the drain", through.drain()).await.unwrap(), 17);
    assert_eq!(left(&server), 0);
    for key in server.cli(&["KEYS", "leasehold_op:*"]).lines() {
        assert!((1..=65_000).contains(&pttl(&server, key)), "{key} stays");
    }
}

#[tokio::test]
async fn an_unanswered_operation_is_unknown_and_an_unsent_one_is_not() {
    let (server, proxy) = server_and_proxy();
    let through = connect_through(&proxy, ms(250)).await.semaphore("seats");
    proxy.drop_replies(true);
    let outcome = soon("the timeout", through.add_permits(5)).await;
    assert_failed!(outcome, OperationErrorKind::Unknown(_));
    assert_eq!(left(&server), 5, "once, whatever was sent");
    proxy.drop_replies(false);
    proxy.refuse(true);
    proxy.cut();
    eventually("the connection to be known as gone", || proxy.connections() == 0).await;
    let mut outcome = soon("the refusal", through.add_permits(1)).await;
    if matches!(outcome, Err(OperationError { kind: OperationErrorKind::Unknown(_), .. })) {
        // The client may still write the first call to the broken connection.
        outcome = soon("the second refusal", through.add_permits(1)).await;
    }
    assert_failed!(outcome, OperationErrorKind::Store(_));
    assert_eq!(left(&server), 5);
}

#[tokio::test]
async fn an_acquire_sent_twice_takes_permits_once() {
    let (server, proxy) = server_and_proxy();
    set(&connect(&server).await, 3).await;
    let through = connect_through(&proxy, Duration::from_secs(5)).await.expirable_semaphore("places");
    for cut in [1, 2] {
        proxy.cut_on_nth_reply(cut);
        let permits = soon("the permits", through.acquire_many(2)).await.unwrap();
        assert_eq!(places(&server), (1, 2));
        proxy.cut_on_nth_reply(1);
        assert_eq!(soon("the release", permits.release()).await, Ok(ReleaseOutcome::Released));
        assert_eq!(places(&server), (3, 0));
    }
}

#[tokio::test]
async fn an_acquire_without_a_reply_is_undone() {
    let (server, proxy) = server_and_proxy();
    set(&connect(&server).await, 3).await;
    let through = connect_through(&proxy, ms(250)).await.expirable_semaphore("places");
    proxy.drop_replies(true);
    let outcome = soon("the timeout", through.try_acquire_many(2)).await.map(drop);
    let Err(AcquireError { kind: AcquireErrorKind::Unknown { free_within, .. }, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    let bound = free_within.bound().expect("the lease bounds it");
    assert!(bound < Duration::from_secs(31), "{bound:?}");
    assert_eq!(places(&server).0, 1);
    proxy.drop_replies(false);
    eventually("the undo", || places(&server).0 == 3).await;
}

#[tokio::test]
async fn an_expirable_operation_with_a_lost_reply_runs_once() {
    let (server, proxy) = server_and_proxy();
    let through = connect_through(&proxy, Duration::from_secs(5)).await.expirable_semaphore("places");
    proxy.cut_on_nth_reply(1);
    assert!(soon("the set", through.try_set_permits(10)).await.unwrap(), "it was this call that set it");
    proxy.cut_on_nth_reply(1);
    assert_eq!(soon("the addition", through.add_permits(5)).await.unwrap(), 15);
    proxy.cut_on_nth_reply(1);
    assert_eq!(soon("the change", through.set_permits(9)).await.unwrap(), 9);
    let ids = through.clone().lease(NEVER).acquire_many(2).await.unwrap().detach();
    proxy.cut_on_nth_reply(1);
    assert!(
        soon("the return", through.release_ids(&ids)).await.unwrap(),
        "it was this call that returned them"
    );
    assert_eq!(places(&server).0, 9);
}
