//! The path of settings to the server, the locks and the waiters.

use std::time::Duration;

use leasehold::config::{Config, ConfigConnectError};
use leasehold::{Client, ConnectError};
use leasehold_testkit::servers::{Monitor, RedisServer};

use super::{Folder, toml};
use crate::support::{eventually, soon};

/// Returns true if the remaining time fits a lease of so many minutes that began just now.
fn is_of(left: Duration, minutes: u64) -> bool {
    let lease = Duration::from_secs(60 * minutes);
    (lease * 9 / 10..=lease).contains(&left)
}

#[tokio::test]
async fn every_setting_reaches_the_locks() {
    let config = toml(
        "url = 'memory://'\nwatchdog = '40m'\n[lock]\nwatchdog = '10m'\n[fair_lock]\nlease = '15m'\n\
         [fenced_lock]\nmax_hold = '20m'\n[rw_lock]\nlease = '25m'\n[expirable_semaphore]\nlease = '30m'",
    );
    let client = config.unwrap().connect().await.unwrap();
    let seats = client.expirable_semaphore("f");
    seats.try_set_permits(1).await.unwrap();
    let left = [
        client.lock("a").lock().await.unwrap().remaining(),
        client.fair_lock("b").lock().await.unwrap().remaining(),
        client.fenced_lock("c").lock().await.unwrap().remaining(),
        client.spin_lock("d").lock().await.unwrap().remaining(),
        client.rw_lock("e").write().await.unwrap().remaining(),
        seats.acquire().await.unwrap().remaining(),
    ];
    for (left, minutes) in left.into_iter().zip([10, 15, 20, 40, 25, 30]) {
        assert!(is_of(left, minutes), "{left:?} of {minutes} minutes");
    }
}

#[tokio::test]
async fn a_server_with_login_database_name_and_prefix_is_connected_to() {
    let server = RedisServer::with(&["--requirepass", "p:w/d@1 ?"]);
    let folder = Folder::new();
    let file = folder.file("password", "p:w/d@1 ?\r\n");
    let config = Config::builder()
        .set("standalone.address", format!("127.0.0.1:{}", server.port()))
        .set("standalone.database", 3)
        .set("standalone.user", "default")
        .set("standalone.password_file", file.to_str().unwrap())
        .client_name("orders-7")
        .key_prefix("shop:")
        .timeout(Duration::from_secs(20))
        .build()
        .unwrap();
    let client = config.connect().await.unwrap();
    let _guard = client.lock("order:42").lock().await.unwrap();
    assert_eq!(server.cli(&["-n", "3", "EXISTS", "shop:order:42"]), "1");
    assert!(server.cli(&["CLIENT", "LIST"]).contains(" name=orders-7@"));
}

#[tokio::test]
async fn spin_locks_use_the_configured_pauses() {
    let server = RedisServer::start();
    let config = Config::builder()
        .url(&server.url())
        .set("spin_lock.backoff_first", "100s")
        .set("spin_lock.backoff_longest", "100s")
        .timeout(Duration::from_secs(20))
        .build()
        .unwrap();
    let (one, other) = (config.connect().await.unwrap(), config.connect().await.unwrap());
    let _held = one.spin_lock("a").lock().await.unwrap();
    let monitor = Monitor::start(&server);
    assert!(other.spin_lock("a").try_lock_for(Duration::from_millis(200)).await.unwrap().is_none());
    let questions =
        monitor.commands().iter().filter(|words| words[0].to_lowercase().starts_with("eval")).count();
    // One attempt at first, and one attempt at the end of the wait.
    assert!(questions <= 2, "{questions} questions");
}

#[tokio::test]
async fn a_lock_passes_on_for_the_configured_bound() {
    for (bound, passes_on) in [("0s", false), ("1h", true)] {
        let config = toml(&format!("url = 'memory://'\nwatchdog = '40m'\nhand_off = '{bound}'")).unwrap();
        let client = config.connect().await.unwrap();
        let waiting = client.lock("a");
        let guard = client.lock("a").lock().await.unwrap();
        let wire = guard.wire_owner();
        let waiter = tokio::spawn(async move { waiting.lock().await.map(|guard| guard.wire_owner()) });
        // On this runtime of one thread, the task is in the wait queue after the yield.
        tokio::task::yield_now().await;
        guard.release().await.unwrap();
        let next = soon("its turn", waiter).await.unwrap().unwrap();
        assert_eq!(next == wire, passes_on, "{bound}");
    }
}

#[tokio::test]
async fn a_lazy_client_is_created_without_a_server() {
    let config = |lazy| Config::builder().url("redis://127.0.0.1:1").lazy(lazy).build().unwrap();
    assert!(config(true).connect().await.is_ok());
    assert!(matches!(
        config(false).connect().await,
        Err(ConfigConnectError::Connect(ConnectError::Store { .. }))
    ));
}

#[tokio::test]
async fn only_a_quorum_configuration_connects_as_a_quorum() {
    let quorum = toml(
        "watchdog = '10m'\nkey_prefix = 'shop:'\n[quorum]\nurls = ['memory://q1', 'memory://q2', 'memory://q3']\n\
         persist_every_write = true",
    )
    .unwrap();
    assert!(matches!(quorum.connect().await, Err(ConfigConnectError::IsQuorum)));
    let node = Client::connect("memory://q1").await.unwrap();
    let redlock = quorum.connect_quorum().await.unwrap();
    let guard = redlock.lock("a").lock().await.unwrap();
    assert!(is_of(guard.remaining(), 10), "{:?}", guard.remaining());
    // Two votes are enough for the guard, and the third may be the vote of this node.
    eventually("all votes", || guard.votes() == 3).await;
    assert!(node.lock("shop:a").is_locked().await.unwrap());

    let single = toml("url = 'memory://'").unwrap();
    assert!(matches!(single.connect_quorum().await, Err(ConfigConnectError::IsNotQuorum)));
}

#[tokio::test]
async fn a_node_of_a_quorum_counts_only_after_the_longest_lease() {
    let quorum =
        toml("[quorum]\nurls = ['memory://', 'memory://', 'memory://']\nlongest_lease = '90s'").unwrap();
    let refused = quorum.connect_quorum().await.unwrap().lock("a").try_lock().await.unwrap_err();
    let Some(leasehold::error::NodeError::RecentlyRestarted { remaining, .. }) = &refused.nodes[0].error
    else {
        panic!("{refused}")
    };
    assert!(remaining.as_secs() > 60, "{remaining:?}");
}
