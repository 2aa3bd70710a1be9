//! The virtual server of the users' tests, with every method of it. `determinism.rs` checks that every run is the same.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use leasehold::error::{AcquireErrorKind, ReleaseErrorKind, StoreErrorKind};
use leasehold::testing::Server;
use leasehold::{AcquireError, Client, ConnectError, Guard, LostReason, ReleaseError, ReleaseOutcome};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Polls once, without waiting.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn clients_of_one_server_exclude_each_other() {
    let server = Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let guard = one.lock("job").lock().await.unwrap();
    assert!(other.lock("job").try_lock().await.unwrap().is_none());
    assert!(server.client().await.unwrap().lock("other").try_lock().await.unwrap().is_some());
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert!(other.lock("job").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn servers_are_independent() {
    let (one, other) = (Server::new(), Server::default());
    let _guard = one.client().await.unwrap().lock("job").lock().await.unwrap();
    assert!(other.client().await.unwrap().lock("job").try_lock().await.unwrap().is_some());
    one.advance(HOUR).await;
    assert_eq!((one.elapsed(), other.elapsed()), (HOUR, Duration::ZERO));
}

#[tokio::test]
async fn a_client_has_the_given_settings() {
    let server = Server::new();
    let client = server.client_with(Client::builder().timeout(SECOND)).await.unwrap();
    let task = tokio::spawn({
        let server = server.clone();
        async move {
            let outcome = client.lock("job").try_lock().await;
            assert!(
                matches!(outcome, Err(AcquireError { kind: AcquireErrorKind::Unknown { .. }, .. })),
                "{outcome:?}"
            );
            server.elapsed()
        }
    });
    server.lose_replies(true);
    server.advance(HOUR).await;
    assert_eq!(task.await.unwrap(), SECOND);
    let refused = server.client_with(Client::builder().timeout(Duration::ZERO)).await;
    assert!(matches!(refused, Err(ConnectError::TooShort { .. })), "{refused:?}");
}

#[tokio::test]
async fn time_moves_only_when_advanced() {
    let server = Server::new();
    let guard = server.client().await.unwrap().lock("job").lease(SECOND).lock().await.unwrap();
    let before = guard.remaining();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    server.settle().await;
    server.advance(Duration::ZERO).await;
    assert_eq!((guard.remaining(), server.elapsed()), (before, Duration::ZERO));
}

#[tokio::test]
async fn a_fixed_lease_of_thirty_days_ends_after_thirty_days() {
    let server = Server::new();
    let guard = server.client().await.unwrap().lock("job").lease(30 * DAY).lock().await.unwrap();
    assert_eq!(server.holder("job").unwrap().remaining, Some(30 * DAY));
    // The client's validity ends a little before the server's lease.
    server.advance(29 * DAY).await;
    assert!(guard.is_held());
    server.advance(DAY - SECOND).await;
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(server.holder("job").is_some());
    server.advance(2 * SECOND).await;
    assert_eq!(server.holder("job"), None);
    assert_eq!(server.elapsed(), 30 * DAY + SECOND);
}

#[tokio::test]
async fn the_watchdog_renews_a_lock_for_half_a_day() {
    let server = Server::new();
    let guard = server.client().await.unwrap().lock("job").lock().await.unwrap();
    server.advance(DAY / 2).await;
    assert!(guard.is_held());
    assert!(server.holder("job").unwrap().remaining > Some(20 * SECOND));
    assert_eq!(server.elapsed(), DAY / 2);
}

#[tokio::test]
async fn a_hand_over_takes_no_time() {
    let server = Server::new();
    let guard = server.client().await.unwrap().lock("job").lock().await.unwrap();
    let waiting = tokio::spawn({
        let lock = server.client().await.unwrap().lock("job");
        async move { lock.lock().await }
    });
    server.advance(HOUR / 4).await;
    assert!(guard.is_held() && !waiting.is_finished());
    drop(guard);
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(server.holder("job").unwrap().wire_owner, guard.wire_owner().to_string());
    assert_eq!(server.elapsed(), HOUR / 4);
}

#[tokio::test]
async fn time_moves_from_timer_to_timer_and_tasks_run_in_between() {
    let server = Server::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for seconds in [3, 1, 2] {
        let (server, seen) = (server.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            server.sleep(seconds * SECOND).await;
            seen.lock().unwrap().push((seconds, server.elapsed()));
            server.sleep(10 * SECOND).await;
            seen.lock().unwrap().push((seconds + 10, server.elapsed()));
        });
    }
    server.advance(12 * SECOND).await;
    let all: Vec<(u32, Duration)> = seen.lock().unwrap().clone();
    assert_eq!(all, [1, 2, 3, 11, 12].map(|seconds| (seconds, seconds * SECOND)));
    server.advance(SECOND).await;
    assert_eq!(seen.lock().unwrap().last(), Some(&(13, 13 * SECOND)));
}

#[tokio::test]
async fn a_finished_or_dropped_sleep_has_no_effect() {
    let server = Server::new();
    assert_eq!(poll_once(server.sleep(Duration::ZERO)).await, Some(()));
    assert_eq!(poll_once(server.sleep(SECOND)).await, None);
    server.advance(HOUR).await;
    assert_eq!(server.elapsed(), HOUR);
}

#[tokio::test]
async fn a_waiter_gives_up_at_its_deadline_and_not_before() {
    let server = Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let _guard = one.lock("job").lock().await.unwrap();
    let waiting = tokio::spawn({
        let server = server.clone();
        async move { (other.lock("job").try_lock_for(HOUR).await.unwrap().is_some(), server.elapsed()) }
    });
    server.advance(HOUR - Duration::from_nanos(1)).await;
    assert!(!waiting.is_finished());
    server.advance(Duration::from_nanos(1)).await;
    assert!(waiting.is_finished());
    assert_eq!(waiting.await.unwrap(), (false, HOUR));
}

#[tokio::test]
async fn the_next_renewal_detects_an_expired_lease() {
    let server = Server::new();
    let guard = server.client().await.unwrap().lock("job").lock().await.unwrap();
    assert!(!server.expire("other"), "no client holds it");
    assert!(server.expire("job"));
    assert_eq!(server.holder("job"), None);
    assert!(guard.is_held(), "no message has told the guard yet");
    server.advance(10 * SECOND).await;
    assert_eq!(poll_once(guard.lost()).await, Some(LostReason::Deleted));
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::NotHeld));
}

#[tokio::test]
async fn the_next_renewal_detects_a_deleted_key_and_wakes_no_waiter() {
    let server = Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let guard = one.lock("job").lock().await.unwrap();
    let waiting = tokio::spawn(async move { other.lock("job").lock().await });
    server.settle().await;
    assert!(!server.delete("other"));
    assert!(server.delete("job"));
    server.settle().await;
    assert!(!waiting.is_finished(), "no message was sent");
    server.advance(SECOND).await;
    let taken = waiting.await.unwrap().unwrap();
    server.advance(10 * SECOND).await;
    assert_eq!(poll_once(guard.lost()).await, Some(LostReason::TakenOver));
    assert!(taken.is_held());
}

#[tokio::test]
async fn the_holder_is_read_from_the_server() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    assert_eq!(server.holder("job"), None);
    let lock = client.lock("job").owned_by(&client.owner()).lease(HOUR);
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    let holder = server.holder("job").unwrap();
    assert_eq!((holder.hold_count, holder.remaining), (2, Some(HOUR)));
    assert_eq!(holder.wire_owner, outer.wire_owner().to_string());
    inner.release().await.unwrap();
    server.advance(HOUR / 2).await;
    let holder = server.holder(String::from("job")).unwrap();
    assert_eq!((holder.hold_count, holder.remaining), (1, Some(HOUR / 2)));
}

#[tokio::test]
#[should_panic(expected = "this cannot be the name of a lock")]
async fn an_invalid_name_panics_in_the_test() {
    Server::new().holder("{");
}

#[tokio::test]
async fn a_lost_reply_leaves_an_acquire_unknown_and_undone_later() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    server.lose_replies(true);
    let asking = tokio::spawn(async move { client.lock("job").try_lock().await });
    server.settle().await;
    assert!(server.holder("job").is_some(), "the script did run");
    assert!(!asking.is_finished());
    server.advance(3 * SECOND).await;
    let outcome = asking.await.unwrap();
    let Err(AcquireError { kind: AcquireErrorKind::Unknown { source, free_within, .. }, .. }) = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(source.kind, StoreErrorKind::Timeout);
    server.lose_replies(false);
    server.advance(free_within.bound().expect("the lease bounds it")).await;
    assert_eq!(server.holder("job"), None);
}

#[tokio::test]
async fn a_waiter_retries_after_a_dropped_connection_lost_the_reply() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    server.lose_replies(true);
    let asking = tokio::spawn(async move { client.lock("job").lock().await });
    server.settle().await;
    server.lose_replies(false);
    server.drop_connection();
    server.advance(SECOND).await;
    let guard = asking.await.unwrap().unwrap();
    assert!(guard.is_held());
    assert_eq!(server.holder("job").unwrap().hold_count, 1);
}

#[tokio::test]
async fn a_waiter_learns_of_a_release_after_the_connection_dropped() {
    let server = Server::new();
    let builder = Client::builder().poll_interval(DAY);
    let (one, other) = (server.client().await.unwrap(), server.client_with(builder).await.unwrap());
    let guard = one.lock("job").lock().await.unwrap();
    let waiting = tokio::spawn(async move { other.lock("job").lock().await });
    server.settle().await;
    server.drop_connection();
    server.settle().await;
    guard.release().await.unwrap();
    server.settle().await;
    assert!(waiting.is_finished());
    assert_eq!(server.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn an_unreachable_server_executes_nothing() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    server.set_reachable(false);
    let outcome = client.lock("job").try_lock().await;
    assert!(
        matches!(&outcome, Err(AcquireError { kind: AcquireErrorKind::Store(source), .. }) if source.kind == StoreErrorKind::Unreachable)
    );
    let refused = server.client().await;
    assert!(matches!(refused, Err(ConnectError::Store { .. })), "{refused:?}");
    server.set_reachable(true);
    assert_eq!(server.holder("job"), None);
    assert!(client.lock("job").try_lock().await.unwrap().is_some());
    assert!(server.client().await.is_ok());
}

#[tokio::test]
async fn an_unreachable_holder_loses_its_lock_before_the_next_grant() {
    let server = Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let guard = one.lock("job").lock().await.unwrap();
    let lost_at = tokio::spawn({
        let server = server.clone();
        async move { (guard.lost().await, server.elapsed(), guard) }
    });
    let taken_at = tokio::spawn({
        let server = server.clone();
        async move { (other.lock("job").lock().await.unwrap(), server.elapsed()) }
    });
    server.settle().await;
    server.connection(&one).set_reachable(false);
    server.advance(40 * SECOND).await;
    let (reason, lost_at, _guard) = lost_at.await.unwrap();
    let (_taken, taken_at) = taken_at.await.unwrap();
    assert_eq!(reason, LostReason::Unreachable);
    assert!(lost_at < 30 * SECOND && taken_at >= 30 * SECOND, "{lost_at:?} {taken_at:?}");
}

#[tokio::test]
async fn one_connection_fails_alone() {
    let server = Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let guard = one.lock("job").lock().await.unwrap();
    server.connection(&one).lose_replies(true);
    let releasing = tokio::spawn(guard.release());
    server.settle().await;
    assert!(other.lock("job").try_lock().await.unwrap().is_some());
    assert!(!releasing.is_finished());
    server.connection(&one).drop_connection();
    server.connection(&one).lose_replies(false);
    server.advance(3 * SECOND).await;
    // The server executed the release, and the second try finds that out.
    assert!(matches!(
        releasing.await.unwrap(),
        Ok(_) | Err(ReleaseError { kind: ReleaseErrorKind::Unconfirmed { .. }, .. })
    ));
    server.connection(&other).set_reachable(false);
    assert!(other.lock("job").try_lock().await.is_err());
    assert!(one.lock("job").try_lock().await.unwrap().is_some());
}

#[tokio::test]
#[should_panic(expected = "is not a client of this server")]
async fn the_connection_of_a_foreign_client_panics_in_the_test() {
    let (one, other) = (Server::new(), Server::new());
    let client = other.client().await.unwrap();
    let _own = one.client().await.unwrap();
    let _connection = one.connection(&client);
}

#[tokio::test]
async fn closing_a_client_takes_no_time() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    let guards: Vec<Guard> = {
        let mut guards = Vec::new();
        for number in 0..5 {
            guards.push(client.lock(format!("job:{number}")).lock().await.unwrap());
        }
        guards
    };
    assert_eq!(client.close().await.released, 5);
    assert!(guards.iter().all(|guard| !guard.is_held()));
    assert_eq!(server.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_dropped_client_releases_its_holds() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    let guard = client.lock("job").lock().await.unwrap();
    drop(client);
    assert!(server.holder("job").is_some());
    drop(guard);
    assert_eq!(server.holder("job"), None);
}

#[tokio::test]
async fn a_client_can_outlive_its_server_and_close() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    drop(server);
    let guard = client.lock("job").lock().await.unwrap();
    assert!(guard.is_held());
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(client.close().await.unconfirmed, 0);
}

#[tokio::test]
async fn an_unpolled_future_does_not_stop_time() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    let lock = client.lock("job");
    let mut acquiring = Box::pin(lock.lock());
    assert!(poll_once(acquiring.as_mut()).await.is_none());
    server.advance(HOUR).await;
    assert_eq!(server.holder("job"), None, "it was granted, and undone because no caller claimed it");
    assert!(acquiring.await.unwrap().is_held(), "asked again");
    assert_eq!(server.elapsed(), HOUR);
}

#[tokio::test]
async fn holders_of_read_write_locks_and_semaphores_are_known() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    let prices = client.rw_lock("prices");
    assert_eq!(server.holder("prices"), None);
    let readers = [prices.read().await.unwrap(), prices.read().await.unwrap()];
    let mut told: Vec<_> = server.holders("prices").into_iter().map(|holder| holder.wire_owner).collect();
    told.sort_unstable();
    let mut held = readers.each_ref().map(|reader| reader.wire_owner().to_string()).to_vec();
    held.sort_unstable();
    assert_eq!(told, held);
    drop(readers);
    let writer = prices.write().await.unwrap();
    let holder = server.holder("prices").unwrap();
    assert_eq!(holder.wire_owner, format!("{}:write", writer.wire_owner()));
    assert_eq!((holder.hold_count, holder.remaining), (1, Some(30 * SECOND)));

    let seats = client.expirable_semaphore("seats").lease(60 * SECOND);
    seats.try_set_permits(3).await.unwrap();
    assert_eq!(server.holders("seats"), []);
    let permits = seats.acquire_many(2).await.unwrap();
    server.advance(SECOND).await;
    let mut told: Vec<_> = server.holders("seats");
    told.sort_by_key(|holder| holder.wire_owner.clone());
    let mut ids: Vec<_> = permits.ids().iter().map(ToString::to_string).collect();
    ids.sort_unstable();
    assert_eq!(told.iter().map(|holder| holder.wire_owner.clone()).collect::<Vec<_>>(), ids);
    assert!(told.iter().all(|holder| holder.remaining == Some(59 * SECOND)), "{told:?}");
    let plain = client.semaphore("plain");
    plain.try_set_permits(1).await.unwrap();
    let _permit = plain.acquire().await.unwrap();
    assert_eq!(server.holder("plain"), None, "the server has a number");
}

#[tokio::test]
async fn a_section_of_permits_sets_their_number_once_a_minute() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    let seats = client.expirable_semaphore("seats");
    seats.section(2).run(async |_permit| ()).await.unwrap();
    assert_eq!(seats.permits().await.unwrap(), 2);
    // The test deletes the permits on the server. The client trusts its record of them for the rest of the minute.
    assert!(server.delete("seats"));
    let wait = seats.section(2).wait(Duration::ZERO);
    assert!(wait.clone().run(async |_permit| ()).await.unwrap_err().is_busy());
    server.advance(60 * SECOND).await;
    wait.run(async |_permit| ()).await.unwrap();
    assert_eq!(seats.permits().await.unwrap(), 2);
}

#[tokio::test]
async fn waits_on_a_clock_that_stands_still_panic_after_five_seconds() {
    let server = Server::new();
    let client = server.client_with(Client::builder().poll_interval(DAY)).await.unwrap();
    let guard = client.lock("job").lock().await.unwrap();
    let began = std::time::Instant::now();
    let waiting = tokio::spawn({
        let lock = client.lock("job");
        async move { lock.try_lock_for(3 * SECOND).await.map(drop) }
    });
    let blocked = tokio::task::spawn_blocking({
        let lock = leasehold::blocking::Client::from(client).lock("job");
        move || lock.try_lock_for(3 * SECOND).map(drop)
    });
    for waiting in [waiting, blocked] {
        let ended = tokio::time::timeout(60 * SECOND, waiting).await.expect("it does not hang");
        let panic = ended.unwrap_err().into_panic();
        let said = panic.downcast_ref::<String>().unwrap();
        assert!(said.starts_with("a client waits until 1.5ms of the test's clock"), "{said}");
        assert!(said.ends_with("call `testing::Server::advance`"), "{said}");
        assert!(began.elapsed() >= 5 * SECOND);
    }
    assert!(guard.is_held(), "the holder, and with it the driver, lives on");
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
}

#[tokio::test]
async fn an_advance_beside_a_loop_that_never_waits_panics_after_five_seconds() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    let (one, other) = (client.lock("job"), client.lock("job"));
    for lock in [one, other] {
        tokio::spawn(async move {
            loop {
                lock.lock().await.unwrap().release().await.unwrap();
            }
        });
    }
    let began = std::time::Instant::now();
    let advancing = tokio::spawn(async move { server.advance(SECOND).await });
    let ended = tokio::time::timeout(60 * SECOND, advancing).await.expect("it does not hang");
    let panic = ended.unwrap_err().into_panic();
    let said = panic.downcast_ref::<String>().unwrap();
    assert!(said.contains("keeps a client busy") && said.contains("`testing::Server::sleep`"), "{said}");
    assert!(began.elapsed() >= 5 * SECOND);
}

#[tokio::test]
async fn the_holder_of_a_plain_lock_is_its_client_or_its_value() {
    let server = Server::new();
    let (client, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let lock = client.plain_lock("job");
    let guard = lock.lock().await.unwrap();
    let waiting = tokio::spawn(async move { other.plain_lock("job").lock().await.unwrap() });
    // The waiter marks the value.
    server.settle().await;
    let [holder] = server.holders("job").try_into().unwrap();
    assert_eq!(holder.wire_owner, guard.wire_owner().to_string());
    assert_eq!((holder.hold_count, holder.remaining), (1, Some(Duration::from_secs(30))));
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap();
    assert_eq!(server.holder("job").unwrap().wire_owner, guard.wire_owner().to_string());
    let _of_a_program = client.plain_lock("chosen").token("our-job").lock().await.unwrap();
    assert_eq!(server.holder("chosen").unwrap().wire_owner, "our-job");
    drop(guard);
    server.settle().await;
    assert_eq!(server.holders("job"), []);
}
