//! The semaphore: a limited number of permits, none lost and none created, with and without a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold::error::{AcquireErrorKind, OperationErrorKind};
use leasehold::{AcquireError, Client, Guard, LostReason, Name, OperationError, ReleaseOutcome, Semaphore};
use leasehold_testkit::servers::RedisServer;
use tokio::task::JoinHandle;

use crate::support::{
    Fixture, Monitor, NEVER, SOON, Subscriber, TestServer, connect, connect_without_polling, eventually,
    is_free, listening, ms, on_both, poll_times, pttl, run_command, scripts_run, sleeps, soon,
};

const CHANNEL: &str = "redisson_sc:{seats}";

/// The semaphore `seats` with this number of permits.
pub(crate) async fn seats(client: &Client, permits: u32) -> Semaphore {
    let seats = client.semaphore("seats");
    assert!(seats.try_set_permits(permits).await.unwrap());
    seats
}

/// The number of available permits on the server.
pub(crate) fn left(server: &impl TestServer) -> i64 {
    server.cli(&["GET", "seats"]).parse().unwrap()
}

/// The markers of acquisitions.
pub(crate) fn markers(server: &impl TestServer) -> Vec<String> {
    let printed = server.cli(&["KEYS", "leasehold_permit:*"]);
    printed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

pub(crate) fn acquire_in_task(
    semaphore: &Semaphore,
    permits: u32,
) -> JoinHandle<Result<Guard, AcquireError>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire_many(permits).await })
}

on_both! {
    async {
        permits_are_acquired_and_released,
        a_dropped_guard_returns_its_permits,
        no_permit_is_available_before_the_count_is_set,
        the_permit_count_is_set_once,
        a_semaphore_with_an_expiry_ends_with_it,
        permits_are_added_and_removed,
        a_waiter_for_two_permits_is_served_when_two_are_available,
        a_release_by_redisson_wakes_a_waiter_for_one_permit,
        a_timed_out_wait_takes_its_whole_duration,
        zero_permits_are_always_granted,
        permits_are_returned_by_number,
        the_available_permits_are_drained,
        a_detached_guard_leaves_its_permits_acquired,
        a_permit_is_lost_only_when_the_client_is_closed,
        a_closed_client_returns_its_permits,
        the_last_handle_of_a_client_returns_its_permits,
        another_kind_of_object_is_rejected_unchanged,
        every_operation_reports_an_invalid_name,
        a_marker_lives_with_its_permits_and_expires,
        the_largest_permit_count_works,
        a_lifetime_below_a_millisecond_is_refused,
    }
}

async fn permits_are_acquired_and_released(server: Fixture) {
    let client = connect(&server).await;
    let seats = seats(&client, 3).await;
    let two = seats.acquire_many(2).await.unwrap();
    assert_eq!((left(&server), seats.available().await.unwrap()), (1, 1));
    assert!(two.is_held());
    assert_eq!(two.name(), "seats");
    assert!(seats.try_acquire_many(2).await.unwrap().is_none());
    let one = seats.try_acquire().await.unwrap().unwrap();
    assert_eq!(left(&server), 0);
    assert!(seats.try_acquire().await.unwrap().is_none());
    assert_eq!(two.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(one.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(left(&server), 3);
    assert_eq!(markers(&server), Vec::<String>::new(), "an ordinary release leaves nothing behind");
}

async fn a_dropped_guard_returns_its_permits(server: Fixture) {
    let seats = seats(&connect(&server).await, 3).await;
    drop(seats.acquire_many(3).await.unwrap());
    eventually("the release", || left(&server) == 3).await;
}

async fn no_permit_is_available_before_the_count_is_set(server: Fixture) {
    let client = connect_without_polling(&server).await;
    let seats = client.semaphore("seats");
    assert!(seats.try_acquire().await.unwrap().is_none());
    assert_eq!(seats.available().await.unwrap(), 0);
    let asked = scripts_run(&server);
    let waiting = acquire_in_task(&seats, 1);
    sleeps(&server, CHANNEL, asked).await;
    assert!(is_free(&server, "seats"));
    seats.try_set_permits(1).await.unwrap();
    soon("the permit", waiting).await.unwrap().unwrap().release().await.unwrap();
}

async fn the_permit_count_is_set_once(server: Fixture) {
    let seats = seats(&connect(&server).await, 10).await;
    assert!(!seats.try_set_permits(15).await.unwrap());
    assert_eq!(left(&server), 10);
    assert_eq!(pttl(&server, "seats"), -1, "it is there for good");
}

async fn a_semaphore_with_an_expiry_ends_with_it(server: Fixture) {
    let seats = connect(&server).await.semaphore("seats");
    assert!(seats.try_set_permits_for(10, Duration::from_secs(60)).await.unwrap());
    assert!(!seats.try_set_permits_for(15, Duration::from_secs(60)).await.unwrap());
    let permit = seats.acquire().await.unwrap();
    assert!((50_000..=60_000).contains(&pttl(&server, "seats")), "taking keeps it");
    permit.release().await.unwrap();
    assert!((50_000..=60_000).contains(&pttl(&server, "seats")), "so does returning");
    seats.add_permits(1).await.unwrap();
    assert_eq!(pttl(&server, "seats"), -1, "adding does not, as in Redisson");
}

async fn permits_are_added_and_removed(server: Fixture) {
    let client = connect(&server).await;
    let seats = seats(&client, 10).await;
    assert_eq!(seats.add_permits(5).await.unwrap(), 15);
    let permits = seats.acquire_many(15).await.unwrap();
    assert_eq!(seats.add_permits(-5).await.unwrap(), -5);
    assert_eq!(seats.available().await.unwrap(), -5);
    assert_eq!(seats.release(5).await.unwrap(), 0);
    assert!(seats.try_acquire().await.unwrap().is_none());
    permits.release().await.unwrap();
    assert_eq!(left(&server), 15);
    let unset = client.semaphore("others");
    assert_eq!(unset.add_permits(-3).await.unwrap(), -3, "as in Redisson, also when there were none");
}

async fn a_waiter_for_two_permits_is_served_when_two_are_available(server: Fixture) {
    let client = connect_without_polling(&server).await;
    let seats = seats(&client, 1).await;
    let asked = scripts_run(&server);
    let waiting = acquire_in_task(&seats, 2);
    sleeps(&server, CHANNEL, asked).await;
    assert!(!waiting.is_finished());
    assert_eq!(left(&server), 1, "nothing is taken in advance");
    seats.add_permits(1).await.unwrap();
    let two = soon("both of them", waiting).await.unwrap().unwrap();
    assert_eq!(left(&server), 0);
    two.release().await.unwrap();
}

async fn a_release_by_redisson_wakes_a_waiter_for_one_permit(server: Fixture) {
    let seats = connect_without_polling(&server).await.semaphore("seats");
    run_command(&server, &["SET", "seats", "0"]);
    let waiting = acquire_in_task(&seats, 1);
    sleeps(&server, CHANNEL, 0).await;
    let release = "local v = redis.call('incrby', KEYS[1], 1) redis.call('publish', KEYS[2], v) return v";
    assert_eq!(server.cli(&["EVAL", release, "2", "seats", CHANNEL]), "1");
    let permit = soon("the wake-up", waiting).await.unwrap().unwrap();
    let mut heard = Subscriber::start(&server, CHANNEL);
    permit.release().await.unwrap();
    assert_eq!(heard.message(), "1", "what Java waits for: the new total");
}

async fn a_timed_out_wait_takes_its_whole_duration(server: Fixture) {
    let seats = seats(&connect(&server).await, 5).await;
    let _permits = seats.acquire_many(4).await.unwrap();
    let began = Instant::now();
    assert!(seats.try_acquire_many_for(2, ms(300)).await.unwrap().is_none());
    assert!(began.elapsed() >= ms(300));
    assert!(seats.try_acquire_for(Duration::ZERO).await.unwrap().is_some());
    eventually("the release", || left(&server) == 1).await;
    eventually("the subscription to end", || listening(&server, CHANNEL) == 0).await;
}

async fn zero_permits_are_always_granted(server: Fixture) {
    let client = connect(&server).await;
    let seats = client.semaphore("seats");
    for seats in [seats.clone(), seats.fifo()] {
        let none = seats.try_acquire_many(0).await.unwrap().unwrap();
        assert!(none.is_held());
        assert_eq!(none.release().await, Ok(ReleaseOutcome::Released));
        drop(soon("nothing", seats.acquire_many(0)).await.unwrap());
        assert!(seats.try_acquire_many_for(0, SOON).await.unwrap().is_some());
    }
    assert_eq!(client.semaphore("seats").available().await.unwrap(), 0);
    assert_eq!(client.semaphore("seats").release(0).await.unwrap(), 0);
}

async fn permits_are_returned_by_number(server: Fixture) {
    let seats = connect(&server).await.semaphore("seats");
    assert_eq!(seats.release(3).await.unwrap(), 3, "as in Redisson, also when their number was never set");
    assert_eq!(left(&server), 3);
    assert!(seats.try_acquire_many(3).await.unwrap().is_some());
}

async fn the_available_permits_are_drained(server: Fixture) {
    let client = connect(&server).await;
    let seats = seats(&client, 10).await;
    assert_eq!(seats.drain().await.unwrap(), 10);
    assert_eq!((seats.available().await.unwrap(), left(&server)), (0, 0));
    assert_eq!(seats.drain().await.unwrap(), 0);
    assert_eq!(client.semaphore("unset").drain().await.unwrap(), 0);
    assert!(is_free(&server, "unset"));
}

async fn a_detached_guard_leaves_its_permits_acquired(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    seats(&one, 2).await.acquire_many(2).await.unwrap().detach();
    one.close().await;
    assert_eq!(left(&server), 0, "no client has returned them");
    assert_eq!(other.semaphore("seats").release(2).await.unwrap(), 2);
}

async fn a_permit_is_lost_only_when_the_client_is_closed(server: Fixture) {
    let client = connect(&server).await;
    let permit = seats(&client, 1).await.acquire().await.unwrap();
    assert!(permit.remaining() > NEVER);
    permit.ensure(NEVER).await.unwrap();
    assert_eq!(poll_times(1, permit.lost()).await, None);
    run_command(&server, &["FLUSHALL"]);
    assert!(permit.is_held());
    client.close().await;
    assert!(!permit.is_held());
    assert_eq!(permit.lost().await, LostReason::Closed);
}

async fn a_closed_client_returns_its_permits(server: Fixture) {
    let client = connect(&server).await;
    let seats = seats(&client, 4).await;
    let _permits = (seats.acquire().await.unwrap(), seats.acquire_many(2).await.unwrap());
    let report = client.close().await;
    assert_eq!((report.released, report.unconfirmed), (2, 0));
    assert_eq!(left(&server), 4);
    assert!(matches!(seats.try_acquire().await, Err(AcquireError { kind: AcquireErrorKind::Closed, .. })));
    assert!(matches!(seats.release(1).await, Err(OperationError { kind: OperationErrorKind::Closed, .. })));
    assert_eq!(left(&server), 4);
}

async fn the_last_handle_of_a_client_returns_its_permits(server: Fixture) {
    let client = connect(&server).await;
    let permit = seats(&client, 1).await.acquire().await.unwrap();
    drop(client);
    assert!(permit.is_held(), "the guard is a handle");
    drop(permit);
    eventually("the release", || left(&server) == 1).await;
}

async fn another_kind_of_object_is_rejected_unchanged(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["HSET", "a-hash", "u:1", "1"]);
    run_command(&server, &["SET", "some-text", "abc"]);
    client.expirable_semaphore("expires").try_set_permits(3).await.unwrap();
    let _permit = client.expirable_semaphore("expires").acquire().await.unwrap();
    let before = server.cli(&["GET", "expires"]);
    for name in ["a-hash", "some-text", "expires"] {
        for semaphore in [client.semaphore(name), client.semaphore(name).fifo()] {
            let outcome = semaphore.try_acquire().await.map(drop);
            assert!(
                matches!(outcome, Err(AcquireError { kind: AcquireErrorKind::OtherKind(_), .. })),
                "{name}: {outcome:?}"
            );
            let outcome = soon("the refusal", semaphore.acquire()).await.map(drop);
            assert!(
                matches!(outcome, Err(AcquireError { kind: AcquireErrorKind::OtherKind(_), .. })),
                "{name}: {outcome:?}"
            );
        }
        let semaphore = client.semaphore(name);
        let changes = [semaphore.add_permits(1).await, semaphore.release(1).await, semaphore.drain().await];
        for outcome in changes {
            assert!(
                matches!(outcome, Err(OperationError { kind: OperationErrorKind::OtherKind(_), .. })),
                "{name}: {outcome:?}"
            );
        }
        assert!(semaphore.available().await.is_err());
    }
    assert_eq!(server.cli(&["HGETALL", "a-hash"]), "u:1\n1");
    assert_eq!(server.cli(&["GET", "some-text"]), "abc");
    assert_eq!(server.cli(&["GET", "expires"]), before);
}

async fn every_operation_reports_an_invalid_name(server: Fixture) {
    let seats = connect(&server).await.semaphore("a{b");
    assert!(matches!(seats.acquire().await, Err(AcquireError { kind: AcquireErrorKind::Name(_), .. })));
    assert!(matches!(
        seats.try_set_permits(1).await,
        Err(OperationError { kind: OperationErrorKind::Name(_), .. })
    ));
    assert!(matches!(seats.release(1).await, Err(OperationError { kind: OperationErrorKind::Name(_), .. })));
    assert!(seats.available().await.is_err());
    assert_eq!(scripts_run(&server), 0);
}

async fn a_marker_lives_with_its_permits_and_expires(server: Fixture) {
    let seats = seats(&connect(&server).await, 3).await;
    let permits = seats.acquire_many(2).await.unwrap();
    let marker = format!("leasehold_permit:{{seats}}:{}", permits.wire_owner());
    assert_eq!(markers(&server), std::slice::from_ref(&marker));
    assert_eq!(server.cli(&["GET", &marker]), "2");
    assert!((3_500_000..=3_600_000).contains(&pttl(&server, &marker)));
    assert_eq!(permits.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!((left(&server), markers(&server)), (3, Vec::new()));
    // Without its marker a young hold is one of another counter of the name.
    let permits = seats.acquire_many(2).await.unwrap();
    run_command(&server, &["DEL", &format!("leasehold_permit:{{seats}}:{}", permits.wire_owner())]);
    assert_eq!(permits.release().await, Ok(ReleaseOutcome::NotHeld));
    assert_eq!(left(&server), 1);
}

async fn the_largest_permit_count_works(server: Fixture) {
    let seats = seats(&connect(&server).await, u32::MAX).await;
    let all = seats.acquire_many(u32::MAX).await.unwrap();
    assert_eq!(left(&server), 0);
    assert!(seats.try_acquire().await.unwrap().is_none());
    all.release().await.unwrap();
    assert_eq!(left(&server), i64::from(u32::MAX));
}

#[tokio::test]
async fn an_uncontended_acquire_and_its_release_are_one_command_each() {
    let server = RedisServer::start();
    let seats = seats(&connect(&server).await, 3).await;
    for seats in [seats.clone(), seats.fifo()] {
        seats.acquire().await.unwrap().release().await.unwrap();
        let monitor = Monitor::start(&server);
        seats.acquire().await.unwrap().release().await.unwrap();
        let commands: Vec<String> = monitor.commands().into_iter().map(|words| words[0].clone()).collect();
        assert_eq!(commands, ["EVALSHA", "EVALSHA"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_never_exceeded_and_all_return() {
    const PERMITS: u32 = 3;
    let server = RedisServer::start();
    let owner = connect(&server).await;
    for fifo in [false, true] {
        let name = format!("seats:{fifo}");
        owner.semaphore(&name).try_set_permits(PERMITS).await.unwrap();
        let (inside, most, turns) =
            (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let client = connect(&server).await;
            for _ in 0..4 {
                let semaphore = client.semaphore(&name);
                let semaphore = if fifo { semaphore.fifo() } else { semaphore };
                let (inside, most, turns) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&turns));
                tasks.push(tokio::spawn(async move {
                    for _ in 0..10 {
                        let permit = semaphore.acquire().await.unwrap();
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        turns.fetch_add(1, Ordering::SeqCst);
                        permit.release().await.unwrap();
                    }
                }));
            }
        }
        for task in tasks {
            soon("its turns", task).await.unwrap();
        }
        assert_eq!(turns.load(Ordering::SeqCst), 160);
        assert!((1..=PERMITS).contains(&most.load(Ordering::SeqCst)), "{most:?}");
        assert_eq!(server.cli(&["GET", &name]), PERMITS.to_string());
    }
}

#[tokio::test]
async fn a_name_with_a_hash_tag_has_its_helpers_in_one_slot() {
    let server = RedisServer::cluster();
    let client = connect(&server).await;
    for semaphore in
        [client.semaphore("seats"), client.semaphore(Name::with_hash_tag("room", ":seats").unwrap())]
    {
        for semaphore in [semaphore.clone(), semaphore.fifo()] {
            semaphore.try_set_permits(2).await.unwrap();
            let permit = semaphore.acquire().await.unwrap();
            assert_eq!(semaphore.add_permits(1).await.unwrap(), 2);
            assert_eq!(semaphore.add_permits(-1).await.unwrap(), 1);
            permit.release().await.unwrap();
            assert_eq!(semaphore.available().await.unwrap(), 2);
        }
    }
}

async fn a_lifetime_below_a_millisecond_is_refused(server: Fixture) {
    let seats = connect(&server).await.semaphore("seats");
    for lifetime in [Duration::ZERO, Duration::from_nanos(999_999), Duration::MAX] {
        let refused = seats.try_set_permits_for(2, lifetime).await.unwrap_err();
        assert!(refused.to_string().contains("a lifetime must be from 1ms to 365d"), "{refused}");
        assert!(!refused.is_retryable() && !refused.is_unavailable());
        assert!(is_free(&server, "seats"));
    }
    assert!(seats.try_set_permits_for(2, ms(365 * 24 * 3_600_000)).await.unwrap());
}
