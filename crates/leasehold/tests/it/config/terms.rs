//! The terms of a configuration, as the server and the holder see them.

use std::time::Duration;

use leasehold::config::Config;
use leasehold::{Client, LostReason};
use leasehold_testkit::servers::{Monitor, RedisServer};
use leasehold_testkit::wait;

/// A limit far above the time that any step takes.
const SOON: Duration = Duration::from_secs(20);

/// A server, and a client of it with these settings.
async fn configured(settings: &[(&str, &str)]) -> (RedisServer, Client) {
    let server = RedisServer::start();
    let builder = Config::builder().url(&server.url()).timeout(SOON).visible(false);
    let builder = settings.iter().fold(builder, |builder, (key, value)| match value.parse::<u32>() {
        Ok(number) => builder.set(key, number),
        Err(_) => builder.set(key, *value),
    });
    let client = builder.build().unwrap().connect().await.unwrap();
    (server, client)
}

/// The remaining minutes of a key, rounded.
fn minutes(server: &RedisServer, key: &str) -> i64 {
    let left: i64 = server.cli(&["PTTL", key]).parse().unwrap();
    (left + 30_000) / 60_000
}

#[tokio::test]
async fn every_kind_has_the_lease_of_the_common_watchdog() {
    let (server, client) = configured(&[("watchdog", "40m")]).await;
    let _plain = client.lock("plain").lock().await.unwrap();
    let _fair = client.fair_lock("fair").lock().await.unwrap();
    let _fenced = client.fenced_lock("fenced").lock().await.unwrap();
    let _spin = client.spin_lock("spin").lock().await.unwrap();
    let _read = client.rw_lock("read").read().await.unwrap();
    let _write = client.rw_lock("write").write().await.unwrap();
    for key in ["plain", "fair", "fenced", "spin", "read", "write"] {
        assert_eq!(minutes(&server, key), 40, "{key}");
    }
    let seats = client.expirable_semaphore("seats");
    seats.try_set_permits(1).await.unwrap();
    let left = seats.acquire().await.unwrap().remaining();
    assert!(left > Duration::from_secs(60 * 36), "{left:?}");
}

#[tokio::test]
async fn a_hold_is_renewed_by_the_common_watchdog() {
    let (server, client) = configured(&[("watchdog", "3s")]).await;
    let monitor = Monitor::start(&server);
    let guard = client.lock("a").lock().await.unwrap();
    wait::eventually(SOON, "renewals for longer than one lease", || renewals(&monitor) >= 4);
    assert!(guard.is_held());
}

/// The number of renewals that the server received.
fn renewals(monitor: &Monitor) -> usize {
    let is_script = |words: &&Vec<String>| words[0].to_lowercase().starts_with("eval");
    // The first script acquires the lock.
    monitor.commands().iter().filter(is_script).count().saturating_sub(1)
}

#[tokio::test]
async fn a_hold_ends_with_the_configured_bound() {
    let (server, client) = configured(&[("watchdog", "40m"), ("lock.max_hold", "300ms")]).await;
    let guard = client.lock("a").lock().await.unwrap();
    assert_eq!(minutes(&server, "a"), 0);
    let lost = tokio::time::timeout(SOON, guard.lost()).await;
    assert_eq!(lost, Ok(LostReason::MaxHold));
}

#[tokio::test]
async fn a_hold_has_no_more_renewals_than_configured() {
    let (server, client) = configured(&[("watchdog", "3s"), ("lock.max_renewals", "1")]).await;
    let monitor = Monitor::start(&server);
    let guard = client.lock("a").lock().await.unwrap();
    let lost = tokio::time::timeout(SOON, guard.lost()).await;
    assert_eq!(lost, Ok(LostReason::MaxRenewals));
    assert_eq!(renewals(&monitor), 1);
}

#[tokio::test]
async fn a_hold_lasts_for_the_configured_min_hold() {
    let (server, client) = configured(&[("fair_lock.min_hold", "40m")]).await;
    client.fair_lock("a").lock().await.unwrap().release().await.unwrap();
    assert_eq!(minutes(&server, "a"), 40);
    assert!(client.fair_lock("a").try_lock().await.unwrap().is_none());
}
