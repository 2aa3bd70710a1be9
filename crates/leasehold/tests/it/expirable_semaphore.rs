//! The expirable semaphore. The number of holders is limited, and the permits of a dead process are free again within a
//! lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold::error::{AcquireErrorKind, LeaseError, OperationErrorKind};
use leasehold::lock::Remaining;
use leasehold::semaphore::PermitId;
use leasehold::{
    AcquireError, Client, ExpirableSemaphore, Guard, LostReason, OperationError, Permits, PermitsError,
    ReleaseOutcome,
};
use leasehold_testkit::servers::RedisServer;
use tokio::task::JoinHandle;

use crate::semaphore::left;
use crate::support::{
    Fixture, Monitor, NEVER, SOON, Subscriber, TestServer, connect, connect_without_polling, eventually,
    is_free, ms, on_both, pttl, run_command, scripts_run, sleeps, soon,
};

const CHANNEL: &str = "redisson_sc:{seats}";
const IDS: &str = "{seats}:timeout";

/// The semaphore `seats` with this number of permits.
async fn seats(client: &Client, permits: u32) -> ExpirableSemaphore {
    let seats = client.expirable_semaphore("seats");
    assert!(seats.try_set_permits(permits).await.unwrap());
    seats
}

/// The number of permit ids on the server, including expired ids.
fn ids(server: &impl TestServer) -> u64 {
    server.cli(&["ZCARD", IDS]).parse().unwrap()
}

fn acquire_in_task(
    semaphore: &ExpirableSemaphore,
    permits: u32,
) -> JoinHandle<Result<Permits, AcquireError>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire_many(permits).await })
}

/// Waits until the result of `look` equals the wanted result.
async fn look_until<T, F: Future<Output = T>>(
    what: &str,
    wanted: impl Fn(&T) -> bool,
    mut look: impl FnMut() -> F,
) {
    let began = Instant::now();
    let mut pace = crate::support::pace(ms(5));
    while !wanted(&look().await) {
        assert!(began.elapsed() < SOON, "waited in vain for {what}");
        pace.tick().await;
    }
}

on_both! {
    async {
        permits_are_acquired_and_released,
        every_permit_has_a_unique_id_in_the_format_of_redisson,
        dropped_permits_are_returned,
        no_permit_is_available_before_the_count_is_set,
        the_permit_count_is_set_once_and_then_changed,
        permits_are_added_and_removed,
        permit_counts_include_expired_permits,
        a_waiter_is_woken_by_a_release,
        a_waiter_sleeps_until_the_next_permit_expires,
        the_permits_of_a_dead_process_return_after_their_lease,
        a_late_release_adds_nothing,
        the_watchdog_renews_all_permits_of_an_acquire,
        a_permit_that_is_returned_by_its_id_is_lost_to_its_holder,
        a_fixed_lease_ends,
        permits_are_handed_over_by_their_ids,
        ids_are_returned_all_or_none,
        a_permit_lease_is_extended_and_shortened,
        the_lease_of_a_permit_is_read,
        a_java_permit_without_expiry_is_not_reclaimed,
        zero_permits_are_always_granted,
        too_many_permits_at_once_are_rejected_before_anything_is_sent,
        the_ids_expire_with_the_counter,
        a_closed_client_returns_its_permits,
        another_kind_of_object_is_rejected_unchanged,
        a_waiter_for_many_permits_is_served_when_they_are_available,
        more_than_a_thousand_permits_at_once,
    }
}

async fn permits_are_acquired_and_released(server: Fixture) {
    let seats = seats(&connect(&server).await, 3).await;
    let two = seats.acquire_many(2).await.unwrap();
    assert_eq!((left(&server), ids(&server)), (1, 2));
    assert!(two.is_held() && two.remaining() <= Duration::from_secs(30));
    assert_eq!((two.count(), two.name()), (2, "seats"));
    assert!(seats.try_acquire_many(2).await.unwrap().is_none());
    let one = seats.try_acquire().await.unwrap().unwrap();
    assert!(seats.try_acquire().await.unwrap().is_none());
    assert!(seats.try_acquire_for(ms(500)).await.unwrap().is_none());
    assert_eq!(two.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(Guard::from(one).release().await, Ok(ReleaseOutcome::Released));
    assert_eq!((left(&server), ids(&server)), (3, 0));
    assert!(is_free(&server, IDS));
}

async fn every_permit_has_a_unique_id_in_the_format_of_redisson(server: Fixture) {
    let seats = seats(&connect(&server).await, 10).await;
    let permits = [seats.acquire_many(4).await.unwrap(), seats.acquire_many(2).await.unwrap()];
    let mut all: Vec<PermitId> = permits.iter().flat_map(Permits::ids).collect();
    for id in &all {
        assert_eq!(id.to_string().len(), 32);
        assert!(id.to_string().chars().all(|digit| matches!(digit, '0'..='9' | 'a'..='f')));
        let lease = seats.lease_of(*id).await.unwrap();
        assert!(matches!(lease, Some(Remaining::For(left)) if left > Duration::from_secs(20)), "{lease:?}");
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6);
    let sixteen_bytes = "local n = 0 for _, id in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do \
                         if #id == 16 then n = n + 1 end end return n";
    assert_eq!(server.cli(&["EVAL", sixteen_bytes, "1", IDS]), "6");
}

async fn dropped_permits_are_returned(server: Fixture) {
    let seats = seats(&connect(&server).await, 3).await;
    drop(seats.acquire_many(3).await.unwrap());
    eventually("the release", || left(&server) == 3).await;
    assert_eq!(ids(&server), 0);
}

async fn no_permit_is_available_before_the_count_is_set(server: Fixture) {
    let seats = connect_without_polling(&server).await.expirable_semaphore("seats");
    assert!(seats.try_acquire().await.unwrap().is_none());
    let counts =
        (seats.available().await.unwrap(), seats.acquired().await.unwrap(), seats.permits().await.unwrap());
    assert_eq!(counts, (0, 0, 0));
    let asked = scripts_run(&server);
    let waiting = acquire_in_task(&seats, 1);
    sleeps(&server, CHANNEL, asked).await;
    assert_eq!(seats.set_permits(1).await.unwrap(), 1);
    drop(soon("the permit", waiting).await.unwrap().unwrap());
}

async fn the_permit_count_is_set_once_and_then_changed(server: Fixture) {
    let seats = seats(&connect(&server).await, 10).await;
    assert!(!seats.try_set_permits(15).await.unwrap());
    assert_eq!(left(&server), 10);
    let _permits = seats.acquire_many(4).await.unwrap();
    assert_eq!(seats.set_permits(15).await.unwrap(), 11, "it grows");
    assert_eq!(seats.set_permits(15).await.unwrap(), 11, "as it is");
    assert_eq!(seats.permits().await.unwrap(), 15);
    assert_eq!(seats.set_permits(3).await.unwrap(), -1, "it shrinks below what is taken");
    assert_eq!((left(&server), seats.permits().await.unwrap()), (-1, 3));
    assert!(seats.try_acquire().await.unwrap().is_none());
}

async fn permits_are_added_and_removed(server: Fixture) {
    let seats = seats(&connect(&server).await, 10).await;
    let mut heard = Subscriber::start(&server, CHANNEL);
    assert_eq!(seats.add_permits(5).await.unwrap(), 15);
    assert_eq!(seats.add_permits(-20).await.unwrap(), -5);
    assert_eq!(seats.add_permits(6).await.unwrap(), 1);
    assert_eq!([heard.message(), heard.message()], ["5", "6"], "what is taken away is not told");
    assert_eq!(seats.available().await.unwrap(), 1);
}

async fn permit_counts_include_expired_permits(server: Fixture) {
    let seats = seats(&connect(&server).await, 10).await;
    let lasting = seats.acquire_many(3).await.unwrap();
    let short = seats.clone().lease(ms(60)).acquire_many(2).await.unwrap().detach();
    let counts = async || {
        (seats.available().await.unwrap(), seats.acquired().await.unwrap(), seats.permits().await.unwrap())
    };
    assert_eq!(counts().await, (5, 5, 10));
    look_until("the short ones to end", |counts| *counts == (7, 3, 10), || async { counts().await }).await;
    assert_eq!((left(&server), ids(&server)), (5, 5), "looking changes nothing");
    assert_eq!(seats.lease_of(short[0]).await.unwrap(), None);
    drop(seats.acquire().await.unwrap());
    eventually("them to be taken back, with the next one who takes", || ids(&server) == 3).await;
    assert_eq!(left(&server), 7);
    drop(lasting);
}

async fn a_waiter_is_woken_by_a_release(server: Fixture) {
    let (one, other) = (connect(&server).await, connect_without_polling(&server).await);
    let permit = seats(&one, 1).await.acquire().await.unwrap();
    let asked = scripts_run(&server);
    let waiting = acquire_in_task(&other.expirable_semaphore("seats"), 1);
    sleeps(&server, CHANNEL, asked).await;
    let mut heard = Subscriber::start(&server, CHANNEL);
    permit.release().await.unwrap();
    drop(soon("the wake-up", waiting).await.unwrap().unwrap());
    assert_eq!(heard.message(), "1", "the new total");
}

async fn a_waiter_sleeps_until_the_next_permit_expires(server: Fixture) {
    let (one, other) = (connect(&server).await, connect_without_polling(&server).await);
    let began = Instant::now();
    let _kept = seats(&one, 1).await.lease(ms(700)).acquire().await.unwrap().detach();
    let asked = scripts_run(&server);
    let permit = soon("the end of the lease", other.expirable_semaphore("seats").acquire()).await.unwrap();
    assert!(began.elapsed() >= ms(690), "{:?}", began.elapsed());
    assert!(began.elapsed() < ms(10_000), "{:?}", began.elapsed());
    assert!(scripts_run(&server) <= asked + 5, "it did not ask all the time");
    permit.release().await.unwrap();
    assert_eq!((left(&server), ids(&server)), (1, 0));
}

async fn the_permits_of_a_dead_process_return_after_their_lease(server: Fixture) {
    let seats = seats(&connect(&server).await, 2).await;
    // A detached permit has no renewals, as if its process were dead.
    let _ = seats.clone().watchdog(ms(300)).acquire_many(2).await.unwrap().detach();
    assert!(seats.try_acquire().await.unwrap().is_none());
    let both = soon("the end of the lease", seats.acquire_many(2)).await.unwrap();
    assert_eq!((left(&server), ids(&server)), (0, 2));
    both.release().await.unwrap();
    assert_eq!(left(&server), 2);
}

async fn a_late_release_adds_nothing(server: Fixture) {
    let seats = seats(&connect(&server).await, 1).await;
    let late = seats.clone().lease(ms(60)).acquire().await.unwrap();
    let id = late.ids()[0];
    assert_eq!(soon("the end", late.lost()).await, LostReason::Expired);
    let next = soon("the permit", seats.acquire()).await.unwrap();
    assert_eq!(late.release().await, Ok(ReleaseOutcome::NotHeld));
    assert!(!seats.release_ids(&[id]).await.unwrap());
    assert!(!seats.update_lease(id, NEVER).await.unwrap());
    assert_eq!((left(&server), ids(&server)), (0, 1));
    next.release().await.unwrap();
    assert_eq!(left(&server), 1);
}

async fn the_watchdog_renews_all_permits_of_an_acquire(server: Fixture) {
    let seats = seats(&connect(&server).await, 3).await.watchdog(ms(400));
    let three = seats.acquire_many(3).await.unwrap();
    crate::support::a_lease_passes(&server, ms(1_300)).await;
    assert!(three.is_held());
    for id in three.ids() {
        assert!(seats.lease_of(id).await.unwrap().is_some());
    }
    three.ensure(ms(1)).await.unwrap();
    assert_eq!(three.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!((left(&server), ids(&server)), (3, 0));
}

async fn a_permit_that_is_returned_by_its_id_is_lost_to_its_holder(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let three = seats(&one, 3).await.watchdog(ms(600)).acquire_many(3).await.unwrap();
    let seats = other.expirable_semaphore("seats");
    assert!(seats.release_ids(&three.ids()[1..2]).await.unwrap());
    assert_eq!(left(&server), 1);
    assert_eq!(soon("the next renewal", three.lost()).await, LostReason::Deleted);
    let _ = three.release().await;
    look_until("what is left of it to end", |left| *left == 3, || async { seats.available().await.unwrap() })
        .await;
}

async fn a_fixed_lease_ends(server: Fixture) {
    let seats = seats(&connect(&server).await, 1).await;
    let permit = seats.clone().lease(ms(100)).acquire().await.unwrap();
    assert_eq!(soon("the end", permit.lost()).await, LostReason::Expired);
    assert!(!permit.is_held());
    let next = soon("the permit", seats.acquire()).await.unwrap();
    drop(permit);
    next.release().await.unwrap();
    assert_eq!(left(&server), 1);
}

async fn permits_are_handed_over_by_their_ids(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let ids = seats(&one, 2).await.lease(NEVER).acquire_many(2).await.unwrap().detach();
    one.close().await;
    assert_eq!(left(&server), 0, "they are taken still");
    let text: Vec<String> = ids.iter().map(PermitId::to_string).collect();
    let ids: Vec<PermitId> = text.iter().map(|id| id.parse().unwrap()).collect();
    let mut heard = Subscriber::start(&server, CHANNEL);
    assert!(other.expirable_semaphore("seats").release_ids(&ids).await.unwrap());
    assert_eq!(left(&server), 2);
    assert_eq!(heard.message(), "2", "as Redisson: how many were returned");
}

async fn ids_are_returned_all_or_none(server: Fixture) {
    let seats = seats(&connect(&server).await, 5).await;
    let kept = seats.clone().lease(NEVER).acquire_many(3).await.unwrap().detach();
    let unknown = PermitId::from_bytes([7; 16]);
    assert!(!seats.release_ids(&[kept[0], unknown]).await.unwrap());
    assert_eq!((left(&server), ids(&server)), (2, 3));
    assert!(seats.release_ids(&[]).await.unwrap());
    assert!(seats.release_ids(&kept[..2]).await.unwrap());
    assert!(!seats.release_ids(&kept[1..]).await.unwrap(), "one of them is returned");
    assert!(seats.release_ids(&[kept[2], kept[2]]).await.unwrap(), "twice is once");
    assert_eq!((left(&server), ids(&server)), (5, 0));
    let short = seats.clone().lease(ms(40)).acquire_many(2).await.unwrap().detach();
    crate::support::a_lease_passes(&server, ms(40)).await;
    assert!(!seats.release_ids(&short).await.unwrap(), "they have ended");
    assert_eq!(seats.available().await.unwrap(), 5);
}

async fn a_permit_lease_is_extended_and_shortened(server: Fixture) {
    let seats = seats(&connect(&server).await, 1).await;
    let id = seats.clone().lease(ms(500)).acquire().await.unwrap().detach()[0];
    assert!(seats.update_lease(id, Duration::from_secs(60)).await.unwrap());
    let lease = seats.lease_of(id).await.unwrap();
    assert!(matches!(lease, Some(Remaining::For(left)) if left > Duration::from_secs(50)), "{lease:?}");
    assert!(seats.try_acquire_for(ms(700)).await.unwrap().is_none());
    assert!(seats.update_lease(id, ms(50)).await.unwrap());
    drop(soon("its end", seats.acquire()).await.unwrap());
    assert!(!seats.update_lease(id, ms(50)).await.unwrap());
    let outcome = seats.update_lease(id, Duration::ZERO).await;
    assert!(
        matches!(outcome, Err(PermitsError::Lease { source: LeaseError::TooShort { .. }, .. })),
        "{outcome:?}"
    );
}

async fn the_lease_of_a_permit_is_read(server: Fixture) {
    let seats = seats(&connect(&server).await, 1).await;
    let permit = seats.clone().lease(Duration::from_secs(10)).acquire().await.unwrap();
    let id = permit.ids()[0];
    let lease = seats.lease_of(id).await.unwrap();
    let Some(Remaining::For(left)) = lease else { panic!("{lease:?}") };
    assert!(left <= Duration::from_secs(10) && left > permit.remaining(), "a client trusts it for less");
    permit.release().await.unwrap();
    assert_eq!(seats.lease_of(id).await.unwrap(), None);
}

async fn a_java_permit_without_expiry_is_not_reclaimed(server: Fixture) {
    let client = connect_without_polling(&server).await;
    let seats = seats(&client, 1).await;
    run_command(&server, &["DECR", "seats"]);
    run_command(&server, &["ZADD", IDS, "922337203685477", "sixteen-bytes-id"]);
    let id = PermitId::from_bytes(*b"sixteen-bytes-id");
    assert_eq!(seats.lease_of(id).await.unwrap(), Some(Remaining::NoExpiry));
    assert_eq!((seats.available().await.unwrap(), seats.acquired().await.unwrap()), (0, 1));
    let asked = scripts_run(&server);
    let waiting = acquire_in_task(&seats, 1);
    sleeps(&server, CHANNEL, asked).await;
    assert!(seats.release_ids(&[id]).await.unwrap());
    drop(soon("the permit", waiting).await.unwrap().unwrap());
}

async fn zero_permits_are_always_granted(server: Fixture) {
    let seats = connect(&server).await.expirable_semaphore("seats").watchdog(ms(200));
    let none = soon("nothing", seats.acquire_many(0)).await.unwrap();
    assert_eq!((none.count(), none.ids()), (0, Vec::new()));
    crate::support::a_lease_passes(&server, ms(300)).await;
    assert!(none.is_held());
    assert_eq!(none.release().await, Ok(ReleaseOutcome::Released));
    assert!(seats.try_acquire_many(0).await.unwrap().is_some());
    // The lease outlasts any stall, because the second permit must arrive within it.
    let seats = seats.watchdog(SOON);
    let _one = seats.set_permits(2).await.unwrap();
    let (nothing, one) = (seats.acquire_many(0).await.unwrap(), seats.acquire().await.unwrap());
    assert_ne!(nothing.wire_owner(), one.wire_owner());
}

async fn too_many_permits_at_once_are_rejected_before_anything_is_sent(server: Fixture) {
    let seats = connect(&server).await.expirable_semaphore("seats");
    let outcome = seats.acquire_many(4097).await.map(drop);
    assert!(matches!(outcome.unwrap_err().kind, AcquireErrorKind::TooManyPermits { given: 4097, .. }));
    let ids = vec![PermitId::from_bytes([0; 16]); 4097];
    let refused = seats.release_ids(&ids).await.unwrap_err();
    assert!(matches!(refused, PermitsError::TooMany { given: 4097, .. }), "{refused}");
    let outcome = seats.clone().lease(Duration::ZERO).acquire().await.map(drop);
    assert!(matches!(outcome, Err(AcquireError { kind: AcquireErrorKind::Lease(_), .. })));
    assert_eq!(scripts_run(&server), 0);
}

async fn the_ids_expire_with_the_counter(server: Fixture) {
    let seats = seats(&connect(&server).await, 3).await;
    let permit = seats.acquire().await.unwrap();
    assert_eq!(pttl(&server, IDS), -1, "ids live as long as their counter: it is there for good");
    run_command(&server, &["PEXPIRE", "seats", "60000"]);
    let other = seats.acquire().await.unwrap();
    assert!((50_000..=60_000).contains(&pttl(&server, IDS)));
    seats.add_permits(1).await.unwrap();
    assert_eq!((pttl(&server, "seats"), pttl(&server, IDS)), (-1, -1));
    permit.release().await.unwrap();
    other.release().await.unwrap();
    assert_eq!(left(&server), 4);
}

async fn a_closed_client_returns_its_permits(server: Fixture) {
    let client = connect(&server).await;
    let seats = seats(&client, 4).await;
    let permits = seats.acquire_many(3).await.unwrap();
    let report = client.close().await;
    assert_eq!((report.released, report.unconfirmed), (1, 0));
    assert_eq!(permits.lost().await, LostReason::Closed);
    assert_eq!((left(&server), ids(&server)), (4, 0));
    assert!(matches!(seats.acquire().await, Err(AcquireError { kind: AcquireErrorKind::Closed, .. })));
}

async fn another_kind_of_object_is_rejected_unchanged(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["HSET", "a-hash", "u:1", "1"]);
    run_command(&server, &["SET", "some-text", "abc"]);
    let id = PermitId::from_bytes([0; 16]);
    for name in ["a-hash", "some-text"] {
        let semaphore = client.expirable_semaphore(name);
        let outcome = soon("the refusal", semaphore.acquire()).await.map(drop);
        assert!(
            matches!(outcome, Err(AcquireError { kind: AcquireErrorKind::OtherKind(_), .. })),
            "{name}: {outcome:?}"
        );
        let changes = [
            semaphore.add_permits(1).await.map(drop).map_err(PermitsError::from),
            semaphore.set_permits(1).await.map(drop).map_err(PermitsError::from),
            semaphore.release_ids(&[id]).await.map(drop),
            semaphore.update_lease(id, NEVER).await.map(drop),
        ];
        for outcome in changes {
            assert!(
                matches!(
                    outcome,
                    Err(PermitsError::Operation(OperationError {
                        kind: OperationErrorKind::OtherKind(_),
                        ..
                    }))
                ),
                "{name}: {outcome:?}"
            );
        }
        assert!(semaphore.available().await.is_err());
        assert!(semaphore.lease_of(id).await.is_err());
    }
    assert_eq!(server.cli(&["HGETALL", "a-hash"]), "u:1\n1");
    assert_eq!(server.cli(&["GET", "some-text"]), "abc");
}

async fn a_waiter_for_many_permits_is_served_when_they_are_available(server: Fixture) {
    let client = connect_without_polling(&server).await;
    let seats = seats(&client, 1).await;
    let asked = scripts_run(&server);
    let waiting = acquire_in_task(&seats, 2);
    sleeps(&server, CHANNEL, asked).await;
    assert_eq!(left(&server), 1, "nothing is taken in advance");
    seats.add_permits(1).await.unwrap();
    assert_eq!(soon("both of them", waiting).await.unwrap().unwrap().count(), 2);
}

async fn more_than_a_thousand_permits_at_once(server: Fixture) {
    let seats = seats(&connect(&server).await, 5000).await;
    let most = seats.acquire_many(4096).await.unwrap();
    assert_eq!((left(&server), ids(&server)), (904, 4096));
    assert_eq!(most.release().await, Ok(ReleaseOutcome::Released));
    let kept = seats.acquire_many(4096).await.unwrap().detach();
    assert!(seats.release_ids(&kept).await.unwrap());
    assert_eq!((left(&server), ids(&server)), (5000, 0));
}

#[tokio::test]
async fn an_uncontended_acquire_and_its_release_are_one_command_each() {
    let server = RedisServer::start();
    let seats = seats(&connect(&server).await, 3).await;
    seats.acquire().await.unwrap().release().await.unwrap();
    let monitor = Monitor::start(&server);
    seats.acquire_many(3).await.unwrap().release().await.unwrap();
    let commands: Vec<String> = monitor.commands().into_iter().map(|words| words[0].clone()).collect();
    assert_eq!(commands, ["EVALSHA", "EVALSHA"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_never_exceeded_and_all_return() {
    const PERMITS: u32 = 6;
    let server = RedisServer::start();
    seats(&connect(&server).await, PERMITS).await;
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let client = connect(&server).await;
        for wanted in [1, 2, 3, 1] {
            let seats = client.expirable_semaphore("seats");
            let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
            tasks.push(tokio::spawn(async move {
                for _ in 0..10 {
                    let permits = seats.acquire_many(wanted).await.unwrap();
                    most.fetch_max(inside.fetch_add(wanted, Ordering::SeqCst) + wanted, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(wanted, Ordering::SeqCst);
                    permits.release().await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        soon("its turns", task).await.unwrap();
    }
    assert!(most.load(Ordering::SeqCst) <= PERMITS, "{most:?}");
    assert_eq!((left(&server), ids(&server)), (i64::from(PERMITS), 0));
}

#[tokio::test]
async fn everything_works_in_a_cluster() {
    let server = RedisServer::cluster();
    let seats = seats(&connect(&server).await, 2).await;
    let permits = seats.acquire_many(2).await.unwrap();
    assert_eq!(seats.set_permits(3).await.unwrap(), 1);
    assert!(seats.update_lease(permits.ids()[0], NEVER).await.unwrap());
    let whole = permits.remaining();
    eventually("some of it to pass", || permits.remaining() + ms(10) < whole).await;
    permits.ensure(permits.remaining() + ms(1)).await.unwrap();
    assert!(seats.release_ids(&permits.ids()[..1]).await.unwrap());
    assert_eq!(permits.release().await, Ok(ReleaseOutcome::NotHeld));
    assert_eq!(seats.available().await.unwrap(), 3);
}
