//! Two copies of the service over one Redis and one database. Each order is paid once, also when a copy dies or sleeps.
//!
//! The tests run real processes, a private Redis, and PostgreSQL or SQLite, and read the outcome from the database.
#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]

use std::time::Duration;

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

mod support;
use support::copy::Copy;
use support::database::Database;

const SOON: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(2);
/// Settings of quick copies, whose provider answers within 20 ms.
const QUICK: [&str; 4] = ["--provider-delay", "20ms", "--lease", "2s"];
const ORDERS: i64 = 20;

mod on_postgresql {
    use super::Database;

    #[test]
    fn an_order_under_concurrent_requests_is_paid_once() {
        super::an_order_under_concurrent_requests_is_paid_once(&Database::on_postgresql());
    }

    #[test]
    fn many_orders_are_paid_once_each() {
        super::many_orders_are_paid_once_each(&Database::on_postgresql());
    }

    #[test]
    fn a_copy_killed_during_a_payment_is_replaced_and_charges_once() {
        super::a_copy_killed_in_mid_payment(&Database::on_postgresql());
    }

    #[test]
    fn a_copy_paused_during_a_payment_has_its_write_rejected() {
        super::a_copy_paused_in_mid_payment(&Database::on_postgresql());
    }

    #[test]
    fn the_nightly_job_runs_on_one_copy() {
        super::the_nightly_job_runs_on_one_copy(&Database::on_postgresql());
    }
}

mod on_sqlite {
    use super::Database;

    #[test]
    fn an_order_under_concurrent_requests_is_paid_once() {
        super::an_order_under_concurrent_requests_is_paid_once(&Database::on_sqlite());
    }

    #[test]
    fn many_orders_are_paid_once_each() {
        super::many_orders_are_paid_once_each(&Database::on_sqlite());
    }

    #[test]
    fn a_copy_killed_during_a_payment_is_replaced_and_charges_once() {
        super::a_copy_killed_in_mid_payment(&Database::on_sqlite());
    }

    #[test]
    fn a_copy_paused_during_a_payment_has_its_write_rejected() {
        super::a_copy_paused_in_mid_payment(&Database::on_sqlite());
    }

    #[test]
    fn the_nightly_job_runs_on_one_copy() {
        super::the_nightly_job_runs_on_one_copy(&Database::on_sqlite());
    }
}

/// Pays each order several times on both copies, all at once. Returns how many requests paid.
fn hammer(copies: &[Copy; 2], orders: std::ops::RangeInclusive<i64>, times: usize) -> usize {
    let each = |order| copies.iter().flat_map(move |copy| (0..times).map(move |_| copy.begin_to_pay(order)));
    let requests: Vec<_> = orders.flat_map(each).collect();
    let answers = requests.into_iter().map(|request| request.join().unwrap().unwrap());
    let paid_now = |answer: support::copy::Answer| {
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.has_field("outcome", "\"paid_now\"")
    };
    answers.map(paid_now).filter(|now| *now).count()
}

/// Asserts that every order was charged once and is paid, and that no token wrote after a newer token.
#[track_caller]
fn assert_paid_once_each(database: &Database, orders: std::ops::RangeInclusive<i64>) {
    let many = i64::try_from(orders.clone().count()).unwrap();
    assert_eq!(database.count("charges", "1 = 1"), many);
    assert_eq!(database.count("orders", "state = 'paid'"), many);
    for order in orders {
        let history = database.history(order);
        assert!(history.is_sorted_by_key(|(token, _)| *token), "order {order}: {history:?}");
        assert_eq!(
            history.iter().filter(|(_, state)| state == "paid").count(),
            1,
            "order {order}: {history:?}"
        );
        let newest = history.last().unwrap().0;
        assert_eq!(database.count("orders", &format!("id = {order} AND fence = {newest}")), 1);
    }
}

fn an_order_under_concurrent_requests_is_paid_once(database: &Database) {
    let redis = RedisServer::start();
    let copies = ["one", "other"].map(|name| Copy::start(name, &redis, database, &QUICK));
    copies[0].take_in(42);
    assert_eq!(hammer(&copies, 42..=42, 20), 1);
    assert_paid_once_each(database, 42..=42);
    // Both copies live, so the lock alone sufficed, and the provider got one request.
    assert_eq!(database.count("charge_requests", "1 = 1"), 1);
}

#[test]
fn operators_see_the_locks_of_a_copy() {
    let (redis, database) = (RedisServer::start(), Database::on_sqlite());
    let copy = Copy::start("one", &redis, &database, &QUICK);
    copy.take_in(42);
    assert_eq!((copy.get("/livez").status, copy.get("/readyz").status), (200, 200));
    assert_eq!(copy.pay(42).status, 200);
    let metrics = copy.get("/metrics");
    let has = |series: &str| metrics.body.lines().any(|line| line.starts_with(series));
    for series in [
        "leasehold_acquires_total{kind=\"fenced lock\",group=\"order:{id}\",outcome=\"acquired\"} 1",
        "leasehold_hold_seconds_bucket{kind=\"fenced lock\",group=\"order:{id}\",le=\"60\"} 1",
        "leasehold_held{kind=\"fenced lock\",group=\"order:{id}\"} 0",
    ] {
        assert!(has(series), "{series}\n{}", metrics.body);
    }
    drop(redis);
    assert_eq!(copy.pay(43).status, 503);
    // The copy would not come back by a restart, and after a lease it cannot do its work either.
    eventually(SOON, "that it is not ready", || copy.get("/readyz").status == 503);
    assert_eq!(copy.get("/livez").status, 200);
}

fn many_orders_are_paid_once_each(database: &Database) {
    let redis = RedisServer::start();
    let copies = ["one", "other"].map(|name| Copy::start(name, &redis, database, &QUICK));
    (1..=ORDERS).for_each(|order| copies[0].take_in(order));
    assert_eq!(hammer(&copies, 1..=ORDERS, 2), usize::try_from(ORDERS).unwrap());
    assert_paid_once_each(database, 1..=ORDERS);
    assert_eq!(database.count("charge_requests", "1 = 1"), ORDERS);
}

fn a_copy_killed_in_mid_payment(database: &Database) {
    let redis = RedisServer::start();
    let mut one = Copy::start("one", &redis, database, &["--provider-delay", "1h", "--lease", "2s"]);
    let other = Copy::start("other", &redis, database, &QUICK);
    one.take_in(42);
    let request = one.begin_to_pay(42);
    // The copy has charged and waits for the answer.
    eventually(SOON, "the charge", || database.count("charges", "1 = 1") == 1);
    one.kill();
    request.join().unwrap().unwrap_err();

    let killed = now();
    let answer = other.pay(42);
    assert!(killed.elapsed() < LEASE + LEASE, "it took {:?}", killed.elapsed());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.has_field("outcome", "\"paid_now\"") && answer.has_field("token", "2"), "{answer:?}");
    assert_paid_once_each(database, 42..=42);
    // The second copy cannot know of the charge, so it asks the provider again with the same key.
    assert_eq!(database.count("charge_requests", "1 = 1"), 2);
    let states = ["charging", "charging", "paid"].map(str::to_owned);
    assert_eq!(database.history(42), [1, 2, 2].into_iter().zip(states).collect::<Vec<_>>());
}

fn a_copy_paused_in_mid_payment(database: &Database) {
    let redis = RedisServer::start();
    let slow = ["--provider-delay", "5s", "--lease", "2s"];
    let one = Copy::start("one", &redis, database, &slow);
    let other = Copy::start("other", &redis, database, &slow);
    one.take_in(42);
    let overtaken = one.begin_to_pay(42);
    eventually(SOON, "the charge", || database.count("charges", "1 = 1") == 1);
    one.freeze();
    // The lease ends and the other copy begins. The order is not paid when the first copy wakes up, and only the token
    // is newer.
    let newer = other.begin_to_pay(42);
    eventually(SOON, "the other's note", || database.history(42).len() == 2);
    one.thaw();

    let answer = overtaken.join().unwrap().unwrap();
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.has_field("error", "\"stale\"") && answer.body.contains("with token 2"), "{answer:?}");
    let answer = newer.join().unwrap().unwrap();
    assert!(answer.has_field("outcome", "\"paid_now\"") && answer.has_field("token", "2"), "{answer:?}");
    let states = ["charging", "charging", "paid"].map(str::to_owned);
    assert_eq!(database.history(42), [1, 2, 2].into_iter().zip(states).collect::<Vec<_>>());
    assert_paid_once_each(database, 42..=42);
    let again = one.pay(42);
    assert!(again.has_field("outcome", "\"paid_before\"") && again.has_field("token", "3"), "{again:?}");
}

fn the_nightly_job_runs_on_one_copy(database: &Database) {
    let redis = RedisServer::start();
    let copies = ["one", "other"].map(|name| Copy::start(name, &redis, database, &QUICK));
    copies[0].take_in(42);
    copies[1].pay(42);
    let begun: Vec<_> = (0..5).flat_map(|_| copies.iter().map(Copy::begin_to_settle)).collect();
    let answers: Vec<_> = begun.into_iter().map(|request| request.join().unwrap().unwrap()).collect();
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.has_field("ran", "true")).count(), 1, "{answers:?}");
    assert_eq!(database.count("settlements", "orders = 1 AND amount_cents = 1999"), 1);
    assert_eq!(database.count("settlements", "1 = 1"), 1);
    // The run is over, and `min_hold` keeps the lock closed.
    assert!(copies[1].begin_to_settle().join().unwrap().unwrap().has_field("ran", "false"));
}

#[expect(clippy::disallowed_methods, reason = "test code: real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
