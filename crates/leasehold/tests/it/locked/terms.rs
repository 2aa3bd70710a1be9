//! Leases, their renewal and the bounds on it.

use std::time::{Duration, Instant};

use leasehold::error::Verb;
use leasehold::{Client, LostReason, RunError, locked};

use crate::support::{Fixture, Monitor, connect, eventually, is_free, ms, on_both, pttl, soon, times_sent};

on_both! {
    async {
        without_a_lease_the_watchdog_renews,
        a_fixed_lease_runs_down_without_renewals,
        a_watchdog_holds_the_lock_longer_than_its_lease,
        renewals_end_at_their_number,
        a_hold_ends_at_its_max_hold,
        other_owners_are_excluded_for_min_hold,
        a_detached_lock_ends_with_its_lease,
        terms_may_be_computed,
    }
}

#[locked(name = "job", client = client)]
async fn default(client: &Client, look: impl FnOnce() -> i64) -> Result<i64, RunError> {
    Ok(look())
}

async fn without_a_lease_the_watchdog_renews(server: Fixture) {
    let client = connect(&server).await;
    let left = default(&client, || pttl(&server, "job")).await.unwrap();
    assert!((20_000..=30_000).contains(&left), "{left} ms");
}

#[locked(name = "job", lease = "1s", client = client)]
async fn leased(client: &Client, server: &Fixture) -> Result<(), RunError> {
    assert!((1..=1000).contains(&pttl(server, "job")));
    eventually("the lease to run out", || is_free(server, "job")).await;
    // The section drops the body at this await, if not before.
    std::future::pending().await
}

async fn a_fixed_lease_runs_down_without_renewals(server: Fixture) {
    let client = connect(&server).await;
    let outcome = soon("the end of the lease", leased(&client, &server)).await;
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::Expired, .. })));
}

#[locked(name = "job", watchdog = "2s", client = client)]
async fn watched(client: &Client, server: &Fixture, monitor: &Monitor) -> Result<i64, RunError> {
    let most = pttl(server, "job");
    // Renewals are a third of the lease apart.
    eventually("renewals for longer than a lease", || times_sent(monitor, Verb::Renew) >= 4).await;
    assert!(pttl(server, "job") > 0, "still held");
    Ok(most)
}

async fn a_watchdog_holds_the_lock_longer_than_its_lease(server: Fixture) {
    let (client, monitor) = (connect(&server).await, Monitor::start(&server));
    let most = watched(&client, &server, &monitor).await.unwrap();
    assert!((1..=2000).contains(&most), "{most} ms");
}

/// The lifetime of a body that never ends by itself.
async fn lifetime<T>(running: impl Future<Output = Result<T, RunError>>) -> (Option<RunError>, Duration) {
    let began = Instant::now();
    let outcome = soon("the end of the hold", running).await;
    (outcome.err(), began.elapsed())
}

#[locked(name = "job", watchdog = "1500ms", max_renewals = 2, client = client)]
async fn renewed_twice(client: &Client) -> Result<(), RunError> {
    std::future::pending().await
}

async fn renewals_end_at_their_number(server: Fixture) {
    let (client, monitor) = (connect(&server).await, Monitor::start(&server));
    let (error, lived) = lifetime(renewed_twice(&client)).await;
    assert!(matches!(error, Some(RunError::Lost { .. })), "{error:?}");
    assert!(lived > ms(1500), "longer than a lease: {lived:?}");
    eventually("the end of the lease", || is_free(&server, "job")).await;
    assert_eq!(times_sent(&monitor, Verb::Renew), 2);
}

#[locked(name = "job", watchdog = "1500ms", max_hold = "2500ms", client = client)]
async fn held_for_so_long(client: &Client) -> Result<(), RunError> {
    std::future::pending().await
}

async fn a_hold_ends_at_its_max_hold(server: Fixture) {
    let client = connect(&server).await;
    let (error, lived) = lifetime(held_for_so_long(&client)).await;
    assert!(matches!(error, Some(RunError::Lost { .. })), "{error:?}");
    assert!(lived > ms(1500), "renewed before: {lived:?}");
    eventually("the end of the lease", || is_free(&server, "job")).await;
}

#[locked(name = "job:{job}", min_hold = least, wait = "0s", client = client)]
async fn at_least(client: &Client, job: u8, least: Duration, body: impl FnOnce()) -> Result<(), RunError> {
    body();
    Ok(())
}

async fn other_owners_are_excluded_for_min_hold(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    assert_eq!(at_least(&client, 1, 60 * MINUTE, || ()).await, Ok(()));
    for client in [&client, &other] {
        let outcome = at_least(client, 1, MINUTE, || unreachable!("it rests")).await;
        assert!(matches!(outcome, Err(RunError::Busy { wait, .. }) if wait == Duration::ZERO));
    }
    let began = Instant::now();
    assert_eq!(at_least(&client, 2, ms(600), || ()).await, Ok(()));
    let guard = soon("the end of the rest", other.lock("job:2").lock()).await.unwrap();
    assert!(began.elapsed() >= ms(600), "{:?}", began.elapsed());
    guard.release().await.unwrap();
    let unhindered = client.lock("another").lock().await;
    assert!(unhindered.is_ok(), "the process goes on as before");
}

#[locked(name = "job", lease = "1m", on_finish = detach, wait = "0s", client = client)]
async fn kept(client: &Client) -> Result<u32, RunError> {
    Ok(3)
}

#[locked(name = "job", on_finish = release, client = client)]
async fn released(client: &Client) -> Result<u32, RunError> {
    Ok(4)
}

async fn a_detached_lock_ends_with_its_lease(server: Fixture) {
    let client = connect(&server).await;
    assert_eq!(released(&client).await, Ok(4));
    assert!(is_free(&server, "job"));
    assert_eq!(kept(&client).await, Ok(3));
    assert!((50_000..=60_000).contains(&pttl(&server, "job")));
    assert!(matches!(kept(&client).await, Err(RunError::Busy { wait, .. }) if wait == Duration::ZERO));
}

const MINUTE: Duration = Duration::from_secs(60);

#[locked(name = "job", lease = per_item * items, wait = MINUTE, client = client)]
async fn computed(
    client: &Client,
    per_item: Duration,
    items: u32,
    look: impl FnOnce() -> i64,
) -> Result<i64, RunError> {
    Ok(look())
}

async fn terms_may_be_computed(server: Fixture) {
    let client = connect(&server).await;
    let left = computed(&client, MINUTE, 5, || pttl(&server, "job")).await.unwrap();
    assert!((290_000..=300_000).contains(&left), "{left} ms");
}
