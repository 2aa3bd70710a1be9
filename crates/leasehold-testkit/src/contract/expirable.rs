//! The expirable semaphore's scripts, as its recipe sends them.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use std::time::Duration;

use leasehold_proto::recipe::expirable::{self, Census, EXPIRABLE_SEMAPHORE};
use leasehold_proto::recipe::{Remaining, semaphore};
use leasehold_proto::{Lease, PermitId, Recipe, Reply};

use super::counters::{Counter, FRESH, id, operation};
use super::{Harness, until};

behaviors! {
    permits_are_acquired_under_their_ids,
    a_duplicate_acquire_takes_permits_once,
    a_duplicate_acquire_does_not_shorten_a_lease,
    a_refusal_returns_the_time_until_the_next_permit_expires,
    an_expired_permit_is_reclaimed_and_published_once,
    a_permit_renewal_needs_all_ids_and_never_shortens,
    a_release_returns_each_once,
    ids_are_returned_all_or_none,
    changing_the_permit_count_includes_acquired_permits,
    a_permit_lease_is_set_and_read,
    the_ids_expire_with_their_counter,
    arguments_are_checked_before_the_first_write,
    keys_of_other_types_are_rejected_unchanged,
}

const EXPIRABLE: &Recipe = &EXPIRABLE_SEMAPHORE;

fn pe<'a>(harness: &'a Harness<'a>, permits: &str) -> Counter<'a> {
    let pe = Counter::new(harness, "pe");
    pe.set(permits);
    pe
}

async fn census(pe: &Counter<'_>) -> (i64, u64) {
    let reply = pe.harness.execute(expirable::inspect(&pe.name)).await;
    let Census { available, acquired, is_set } = expirable::read_inspect(&reply).expect("it is a census");
    assert!(is_set);
    (available, acquired)
}

async fn permits_are_acquired_under_their_ids(harness: &Harness<'_>) {
    let pe = pe(harness, "3");
    assert_eq!(pe.acquire(EXPIRABLE, (1, 2), FRESH).await, Reply::Nil);
    assert_eq!((pe.value(), census(&pe).await), ("1".into(), (1, 2)));
    let ends: f64 = harness
        .run_command(&["ZRANGE", &pe.ids(), "0", "0", "WITHSCORES"])
        .lines()
        .last()
        .expect("it has a score")
        .parse()
        .expect("a number");
    let seconds: f64 =
        harness.run_command(&["TIME"]).lines().next().expect("it has two").parse().expect("a number");
    assert!((ends / 1000.0 - seconds - 30.0).abs() < 5.0, "30 s from now by the server's clock: {ends}");
    assert_eq!(pe.acquire(EXPIRABLE, (3, 0), FRESH).await, Reply::Nil);
    assert!(matches!(pe.acquire(EXPIRABLE, (4, 2), FRESH).await, Reply::Int(1..=30_000)));
    assert_eq!(pe.acquire(EXPIRABLE, (6, 1), FRESH).await, Reply::Nil);
    assert_eq!((pe.value(), census(&pe).await), ("0".into(), (0, 3)));
}

async fn a_duplicate_acquire_takes_permits_once(harness: &Harness<'_>) {
    let pe = pe(harness, "3");
    for _ in 0..3 {
        assert_eq!(pe.acquire(EXPIRABLE, (1, 3), FRESH).await, Reply::Nil);
        assert_eq!((pe.value(), census(&pe).await), ("0".into(), (0, 3)));
    }
}

async fn a_duplicate_acquire_does_not_shorten_a_lease(harness: &Harness<'_>) {
    let pe = pe(harness, "2");
    assert_eq!(pe.acquire_for(EXPIRABLE, (1, 2), 500_000, FRESH).await, Reply::Nil);
    let ends = || harness.run_command(&["ZRANGE", &pe.ids(), "0", "-1", "WITHSCORES"]);
    let before = ends();
    assert_eq!(pe.acquire_for(EXPIRABLE, (1, 2), 9_000, FRESH).await, Reply::Nil);
    assert_eq!(ends(), before);
}

async fn a_refusal_returns_the_time_until_the_next_permit_expires(harness: &Harness<'_>) {
    let pe = pe(harness, "0");
    assert_eq!(pe.acquire(EXPIRABLE, (1, 1), FRESH).await, Reply::Int(-1), "none is taken");
    harness.run_command(&["ZADD", &pe.ids(), "922337203685477", "sixteen-bytes-id"]);
    assert_eq!(pe.acquire(EXPIRABLE, (1, 1), FRESH).await, Reply::Int(-1), "none ends by itself");
    pe.set("2");
    pe.acquire_for(EXPIRABLE, (2, 1), 9_000, FRESH).await;
    pe.acquire_for(EXPIRABLE, (3, 1), 20_000, FRESH).await;
    assert!(matches!(pe.acquire(EXPIRABLE, (4, 1), FRESH).await, Reply::Int(1..=9_000)));
    harness.run_command(&["DEL", pe.name.as_str(), &pe.ids()]);
    assert_eq!(pe.acquire(EXPIRABLE, (5, 1), FRESH).await, Reply::Int(-1), "their number was never set");
    assert_eq!(harness.run_command(&["EXISTS", pe.name.as_str(), &pe.ids()]), "0");
}

async fn an_expired_permit_is_reclaimed_and_published_once(harness: &Harness<'_>) {
    let pe = pe(harness, "2");
    let mut listener = pe.listen(pe.channel()).await;
    pe.acquire_for(EXPIRABLE, (1, 2), 10, FRESH).await;
    until("them to end", async || (census(&pe).await == (2, 0)).then_some(())).await;
    assert_eq!(pe.value(), "0", "looking changes nothing");
    assert_eq!(pe.acquire(EXPIRABLE, (3, 2), FRESH).await, Reply::Nil);
    listener.receives("2").await;
    assert_eq!((pe.value(), census(&pe).await), ("0".into(), (0, 2)));
    assert_eq!(pe.release(EXPIRABLE, (1, 2), FRESH).await, Reply::Int(0), "a late release adds nothing");
    assert_eq!(pe.value(), "0");
    listener.receives_nothing().await;
}

async fn a_permit_renewal_needs_all_ids_and_never_shortens(harness: &Harness<'_>) {
    let pe = pe(harness, "3");
    pe.acquire(EXPIRABLE, (1, 3), FRESH).await;
    assert_eq!(pe.renew(EXPIRABLE, (1, 3), 90_000).await, Reply::Int(1));
    assert_eq!(pe.renew(EXPIRABLE, (1, 3), 10).await, Reply::Int(1));
    let lease = harness.execute(expirable::lease_of(&pe.name, id(3))).await;
    assert!(matches!(lease, Reply::Int(60_000..=90_000)), "{lease:?}");
    assert_eq!(pe.renew(EXPIRABLE, (1, 0), 10).await, Reply::Int(1), "of nothing all are there");
    harness.execute(expirable::release_ids(&pe.name, &operation(1), &[id(2)])).await;
    assert_eq!(pe.renew(EXPIRABLE, (1, 3), 90_000).await, Reply::Int(0));
    assert_eq!(pe.renew(EXPIRABLE, (7, 1), 90_000).await, Reply::Int(0));
    assert_eq!((pe.value(), census(&pe).await), ("1".into(), (1, 2)));
    pe.acquire_for(EXPIRABLE, (9, 1), 10, FRESH).await;
    until("it to end", async || (census(&pe).await == (1, 2)).then_some(())).await;
    assert_eq!(pe.renew(EXPIRABLE, (9, 1), 90_000).await, Reply::Int(0), "too late");
    assert_eq!(pe.value(), "1", "what had ended is taken back");
}

async fn a_release_returns_each_once(harness: &Harness<'_>) {
    let pe = pe(harness, "5");
    let mut listener = pe.listen(pe.channel()).await;
    pe.acquire(EXPIRABLE, (1, 3), FRESH).await;
    assert_eq!(pe.release(EXPIRABLE, (1, 3), FRESH).await, Reply::Int(2), "one connection listens");
    listener.receives("5").await;
    assert_eq!(pe.release(EXPIRABLE, (1, 3), FRESH).await, Reply::Int(0));
    listener.receives_nothing().await;
    pe.acquire(EXPIRABLE, (4, 2), FRESH).await;
    harness.execute(expirable::release_ids(&pe.name, &operation(1), &[id(5)])).await;
    listener.receives("1").await;
    assert_eq!(pe.release(EXPIRABLE, (4, 2), FRESH).await, Reply::Int(0), "one of them was returned before");
    listener.receives("5").await;
    pe.acquire_for(EXPIRABLE, (6, 2), 10, FRESH).await;
    until("them to end", async || (census(&pe).await == (5, 0)).then_some(())).await;
    assert_eq!(
        pe.release(EXPIRABLE, (6, 2), FRESH).await,
        Reply::Int(0),
        "too late, and returned all the same"
    );
    listener.receives("5").await;
    assert_eq!((pe.value(), harness.run_command(&["EXISTS", &pe.ids()])), ("5".into(), "0".into()));
}

async fn ids_are_returned_all_or_none(harness: &Harness<'_>) {
    let pe = pe(harness, "5");
    pe.acquire(EXPIRABLE, (1, 3), FRESH).await;
    let mut listener = pe.listen(pe.channel()).await;
    let return_ids = async |number, ids: &[PermitId]| {
        harness.execute(expirable::release_ids(&pe.name, &operation(number), ids)).await
    };
    assert_eq!(return_ids(1, &[id(1), id(9)]).await, Reply::Int(0));
    listener.receives_nothing().await;
    for _ in 0..2 {
        assert_eq!(return_ids(2, &[id(1), id(2)]).await, Reply::Int(2), "the answer is kept");
    }
    listener.receives("2").await;
    listener.receives_nothing().await;
    assert_eq!(return_ids(3, &[id(1), id(3)]).await, Reply::Int(0));
    assert_eq!((pe.value(), census(&pe).await), ("4".into(), (4, 1)));
    pe.acquire_for(EXPIRABLE, (4, 1), 10, FRESH).await;
    until("it to end", async || (census(&pe).await == (4, 1)).then_some(())).await;
    assert_eq!(return_ids(4, &[id(3), id(4)]).await, Reply::Int(0), "one has ended");
    assert_eq!(return_ids(5, &[id(3)]).await, Reply::Int(1));
    listener.receives("4").await;
    listener.receives("1").await;
    assert_eq!((pe.value(), census(&pe).await), ("5".into(), (5, 0)));
}

async fn changing_the_permit_count_includes_acquired_permits(harness: &Harness<'_>) {
    let pe = Counter::new(harness, "pe");
    let mut listener = pe.listen(pe.channel()).await;
    let set =
        async |number, permits| harness.execute(expirable::set(&pe.name, &operation(number), permits)).await;
    let add =
        async |number, permits| harness.execute(expirable::add(&pe.name, &operation(number), permits)).await;
    assert_eq!(set(1, 10).await, Reply::Int(10));
    listener.receives("10").await;
    pe.acquire(EXPIRABLE, (1, 4), FRESH).await;
    assert_eq!(set(2, 10).await, Reply::Int(6));
    listener.receives_nothing().await;
    for _ in 0..2 {
        assert_eq!(set(3, 3).await, Reply::Int(-1), "fewer than are taken");
    }
    listener.receives("3").await;
    for _ in 0..2 {
        assert_eq!(add(4, 5).await, Reply::Int(4));
    }
    listener.receives("5").await;
    assert_eq!(add(5, -6).await, Reply::Int(-2));
    listener.receives_nothing().await;
    let again = semaphore::try_set(&pe.name, &operation(6), 50, None);
    assert_eq!(harness.execute(again).await, Reply::Int(0));
    assert_eq!((pe.value(), census(&pe).await), ("-2".into(), (-2, 4)));
}

async fn a_permit_lease_is_set_and_read(harness: &Harness<'_>) {
    let pe = pe(harness, "2");
    pe.acquire(EXPIRABLE, (1, 1), FRESH).await;
    let lease_of = async |permit| {
        let reply = harness.execute(expirable::lease_of(&pe.name, permit)).await;
        expirable::read_lease_of(&reply).expect("it is a lease")
    };
    let update = async |number, permit, lease_ms| {
        let lease = Lease::new(Duration::from_millis(lease_ms)).expect("it is a lease");
        harness.execute(expirable::update_lease(&pe.name, &operation(number), permit, lease)).await
    };
    let within = |lease, from_ms, to_ms| {
        let bounds = Duration::from_millis(from_ms)..=Duration::from_millis(to_ms);
        matches!(lease, Some(Remaining::For(left)) if bounds.contains(&left))
    };
    assert!(within(lease_of(id(1)).await, 10_000, 30_000));
    assert_eq!(update(1, id(1), 90_000).await, Reply::Int(1));
    assert!(within(lease_of(id(1)).await, 60_000, 90_000));
    assert_eq!(update(2, id(1), 5_000).await, Reply::Int(1));
    assert!(within(lease_of(id(1)).await, 1, 5_000));
    assert_eq!(update(3, id(9), 5_000).await, Reply::Int(0));
    assert_eq!(lease_of(id(9)).await, None);
    harness.run_command(&["ZADD", &pe.ids(), "922337203685477", "sixteen-bytes-id"]);
    assert_eq!(lease_of(PermitId::from_bytes(*b"sixteen-bytes-id")).await, Some(Remaining::NoExpiry));
    update(4, id(1), 3).await;
    until("it to end", async || lease_of(id(1)).await.is_none().then_some(())).await;
    assert_eq!(update(5, id(1), 5_000).await, Reply::Int(0));
}

async fn the_ids_expire_with_their_counter(harness: &Harness<'_>) {
    let pe = Counter::new(harness, "pe");
    let minute = Some(Duration::from_secs(60));
    harness.execute(semaphore::try_set(&pe.name, &operation(1), 3, minute)).await;
    pe.acquire(EXPIRABLE, (1, 1), FRESH).await;
    assert!((1..=60_000).contains(&pe.pttl(&pe.ids())));
    harness.execute(expirable::add(&pe.name, &operation(2), 1)).await;
    assert_eq!((pe.pttl(pe.name.as_str()), pe.pttl(&pe.ids())), (-1, -1));
    pe.acquire(EXPIRABLE, (2, 1), FRESH).await;
    assert_eq!(pe.pttl(&pe.ids()), -1);
}

async fn arguments_are_checked_before_the_first_write(harness: &Harness<'_>) {
    const NO_LEASE: [&str; 6] = ["0", "-1", "1.5", "abc", "", "922337203685478"];
    let pe = pe(harness, "3");
    let (acquire, release) = pe.acquire_and_release(EXPIRABLE, (1, 1));
    let update = expirable::update_lease(&pe.name, &operation(1), id(1), Lease::clamped(Duration::ZERO));
    for call in [&acquire, &update] {
        pe.refuses(call, "lease_ms", &NO_LEASE).await;
    }
    for call in [&acquire, &release, &update, &expirable::release_ids(&pe.name, &operation(2), &[id(1)])] {
        pe.refuses(call, "given", &["fifteen bytes..", "seventeen bytes.."]).await;
    }
    for call in [expirable::set(&pe.name, &operation(3), 1), expirable::add(&pe.name, &operation(4), 1)] {
        pe.refuses(&call, "permits", &["1.5", "abc", ""]).await;
    }
    assert_eq!(pe.value(), "3");
}

async fn keys_of_other_types_are_rejected_unchanged(harness: &Harness<'_>) {
    let pe = Counter::new(harness, "pe");
    pe.rejects_other_types(|pe| {
        let (acquire, release) = pe.acquire_and_release(EXPIRABLE, (1, 1));
        vec![
            acquire,
            release,
            expirable::set(&pe.name, &operation(1), 1),
            expirable::add(&pe.name, &operation(2), 1),
            expirable::release_ids(&pe.name, &operation(3), &[id(1)]),
            expirable::update_lease(&pe.name, &operation(4), id(1), Lease::clamped(Duration::ZERO)),
            expirable::inspect(&pe.name),
            expirable::lease_of(&pe.name, id(1)),
        ]
    })
    .await;
}
