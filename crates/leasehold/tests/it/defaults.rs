//! Defaults that a client passes to all its primitives: terms, a key prefix, a client name on the server.

use std::time::Duration;

use crate::support::{connect_with, eventually, keys, pttl};
use leasehold::error::NameError;
use leasehold::{Client, ConnectError, HoldTerms, LostReason, Primitive, Redlock, testing};
use leasehold_testkit::servers::{Monitor, RedisServer};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn minutes(minutes: u64) -> Duration {
    seconds(60 * minutes)
}

/// Returns true if the remaining time fits a lease that began just now.
fn is_of(left: Duration, lease: Duration) -> bool {
    (lease * 9 / 10..=lease).contains(&left)
}

/// The remaining lease of a new hold of this primitive.
async fn remaining(client: &Client, primitive: Primitive) -> Duration {
    match primitive {
        Primitive::Lock => client.lock("a").lock().await.unwrap().remaining(),
        Primitive::FairLock => client.fair_lock("b").lock().await.unwrap().remaining(),
        Primitive::FencedLock => client.fenced_lock("c").lock().await.unwrap().remaining(),
        Primitive::SpinLock => client.spin_lock("d").lock().await.unwrap().remaining(),
        Primitive::RwLock => client.rw_lock("e").read().await.unwrap().remaining(),
        Primitive::ExpirableSemaphore => {
            let seats = client.expirable_semaphore("f");
            seats.try_set_permits(1).await.unwrap();
            seats.acquire().await.unwrap().remaining()
        }
        _ => unreachable!("the test knows them all"),
    }
}

const ALL: [Primitive; 6] = [
    Primitive::Lock,
    Primitive::FairLock,
    Primitive::FencedLock,
    Primitive::SpinLock,
    Primitive::RwLock,
    Primitive::ExpirableSemaphore,
];

#[tokio::test]
async fn the_watchdog_of_a_client_applies_to_its_primitives() {
    let client = Client::builder().watchdog(minutes(5)).connect("memory://").await.unwrap();
    for primitive in ALL {
        let left = remaining(&client, primitive).await;
        assert!(is_of(left, minutes(5)), "{primitive:?}: {left:?}");
    }
}

#[tokio::test]
async fn default_terms_apply_only_to_their_primitive() {
    for given in ALL {
        let terms = HoldTerms::new().lease(minutes(7));
        let builder = Client::builder().watchdog(minutes(5)).defaults(given, terms);
        let client = builder.connect("memory://").await.unwrap();
        for primitive in ALL {
            let lease = minutes(if primitive == given { 7 } else { 5 });
            let left = remaining(&client, primitive).await;
            assert!(is_of(left, lease), "{primitive:?} when {given:?} was given: {left:?}");
        }
    }
}

#[tokio::test]
async fn bounds_apply_and_a_lock_can_override_them() {
    let server = testing::Server::new();
    let terms = HoldTerms::new().max_hold(seconds(60)).max_renewals(100);
    let client = server.client_with(Client::builder().defaults(Primitive::Lock, terms)).await.unwrap();
    let bounded = client.lock("a").lock().await.unwrap();
    let other = client.lock("b").max_hold(seconds(600)).lock().await.unwrap();
    server.advance(seconds(61)).await;
    assert_eq!(bounded.lost().await, LostReason::MaxHold);
    assert!(other.is_held());
}

#[tokio::test]
async fn a_quorum_has_the_watchdog_of_its_clients_and_no_bounds() {
    let terms = HoldTerms::new().max_hold(seconds(1));
    let builder = Client::builder().watchdog(minutes(5)).defaults(Primitive::Lock, terms);
    let mut clients = Vec::new();
    for url in ["memory://", "memory://", "memory://"] {
        clients.push(builder.clone().connect(url).await.unwrap());
    }
    let redlock = Redlock::builder().nodes_persist_every_write().over(clients);
    let guard = redlock.lock("a").lock().await.unwrap();
    assert!(is_of(guard.remaining(), minutes(5)), "{:?}", guard.remaining());
}

#[tokio::test]
async fn an_invalid_setting_is_rejected_before_anything_is_sent() {
    let refused = async |builder: leasehold::ClientBuilder| builder.connect("memory://").await.unwrap_err();
    let builder = Client::builder;
    assert!(matches!(refused(builder().watchdog(Duration::ZERO)).await, ConnectError::Lease(_)));
    let terms = HoldTerms::new().lease(seconds(366 * 24 * 3600));
    assert!(matches!(refused(builder().defaults(Primitive::Lock, terms)).await, ConnectError::Lease(_)));
    for prefix in ["a{", "a\n", "leasehold_", &"x".repeat(512)] {
        let error = refused(builder().key_prefix(prefix)).await;
        assert!(matches!(error, ConnectError::KeyPrefix(_)), "{prefix:?}: {error:?}");
    }
    for name in ["", "two words", "a\nb", "größe", &"x".repeat(129)] {
        assert!(matches!(refused(builder().client_name(name)).await, ConnectError::ClientName), "{name:?}");
    }
}

#[tokio::test]
async fn prefix_and_name_together_have_the_length_of_a_name() {
    let client = Client::builder().key_prefix("app:").connect("memory://").await.unwrap();
    assert!(client.lock("x".repeat(508)).lock().await.is_ok());
    let error = client.lock("x".repeat(509)).lock().await.unwrap_err();
    let kind = &error.kind;
    assert!(
        matches!(kind, leasehold::error::AcquireErrorKind::Name(NameError::TooLong { bytes: 513, .. })),
        "{error}"
    );
}

#[tokio::test]
async fn a_prefixed_name_and_the_same_name_in_full_exclude_each_other() {
    let server = RedisServer::start();
    let short = connect_with(Client::builder().key_prefix("app:"), &server.url()).await;
    let long = connect_with(Client::builder(), &server.url()).await;
    let guard = short.lock("x").lock().await.unwrap();
    assert_eq!(guard.name(), "x");
    assert!(long.lock("app:x").try_lock().await.unwrap().is_none());
    assert!(pttl(&server, "app:x") > 0);

    // The release of one client wakes a waiter of the other client.
    let waiting = tokio::spawn(async move { long.lock("app:x").lock().await.map(drop) });
    eventually("the waiter to listen", || crate::support::listeners(&server, "app:x") == 1).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap();
}

/// Acquires and releases one of each primitive, with waiters, and returns before the last releases.
async fn use_everything(one: &Client, other: &Client) {
    let (a, b) = (one.lock("lock"), other.lock("lock"));
    let held = a.lock().await.unwrap();
    assert!(b.try_lock_for(Duration::from_millis(20)).await.unwrap().is_none());
    held.release().await.unwrap();

    let held = one.fair_lock("fair").lock().await.unwrap();
    assert!(other.fair_lock("fair").try_lock_for(Duration::from_millis(20)).await.unwrap().is_none());
    held.release().await.unwrap();

    let fenced = one.fenced_lock("fenced").lock().await.unwrap();
    fenced.fenced().set("written", "1").await.unwrap();
    one.fenced(fenced.token()).hset("hash", "f", "1").await.unwrap();
    let script = leasehold::fenced_writes::FencedScript::new("return redis.call('set', KEYS[1], ARGV[1])");
    fenced.fenced().run(&script, ["scripted"], ["1"]).await.unwrap();
    fenced.release().await.unwrap();

    one.spin_lock("spin").lock().await.unwrap().release().await.unwrap();
    let held = one.rw_lock("rw").read().await.unwrap();
    assert!(other.rw_lock("rw").try_write_for(Duration::from_millis(20)).await.unwrap().is_none());
    held.release().await.unwrap();
    let held = one.rw_lock("preferring").prefer_writers().write().await.unwrap();
    held.release().await.unwrap();

    let plain = one.semaphore("plain").fifo();
    plain.try_set_permits(1).await.unwrap();
    let held = plain.acquire().await.unwrap();
    let waiter = other.semaphore("plain").fifo();
    assert!(waiter.try_acquire_for(Duration::from_millis(20)).await.unwrap().is_none());
    held.release().await.unwrap();

    let expiring = one.expirable_semaphore("expiring");
    expiring.try_set_permits(1).await.unwrap();
    let held = expiring.acquire().await.unwrap();
    let waiter = other.expirable_semaphore("expiring");
    assert!(waiter.try_acquire_for(Duration::from_millis(20)).await.unwrap().is_none());
    held.release().await.unwrap();

    let latch = one.count_down_latch("latch");
    latch.try_set_count(1).await.unwrap();
    assert!(!other.count_down_latch("latch").wait_for(Duration::from_millis(20)).await.unwrap());
    latch.count_down().await.unwrap();

    let tagged = |rest| one.lock(leasehold::Name::with_hash_tag("m", rest).unwrap());
    let both = leasehold::MultiLock::of([tagged("a").into(), tagged("b").into()]);
    both.lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn every_key_and_channel_has_the_prefix() {
    let server = RedisServer::start();
    let one = connect_with(Client::builder().key_prefix("app:"), &server.url()).await;
    let other = connect_with(Client::builder().key_prefix("app:"), &server.url()).await;
    let monitor = Monitor::start(&server);
    use_everything(&one, &other).await;

    assert!(keys(&server) > 0);
    for key in server.cli(&["KEYS", "*"]).lines() {
        assert!(is_prefixed(key), "{key}");
    }
    let (mut scripts, mut channels, mut inner) = (0, 0, 0);
    for words in monitor.commands() {
        match words[0].to_ascii_lowercase().as_str() {
            "eval" | "evalsha" => {
                let count: usize = words[2].parse().unwrap();
                assert!(words[3..3 + count].iter().all(|key| is_prefixed(key)), "{words:?}");
                scripts += 1;
            }
            "subscribe" => {
                assert!(words[1..].iter().all(|channel| is_prefixed(channel)), "{words:?}");
                channels += words.len() - 1;
            }
            _ => {}
        }
    }
    // The first word behind a command in a script is a key or a channel, and the second one behind PUBSUB.
    for line in monitor.lines().iter().filter(|line| line.contains(" lua] ")) {
        let words: Vec<&str> = line.split('"').collect();
        let first = if words.get(1) == Some(&"pubsub") { 5 } else { 3 };
        let Some(key) = words.get(first).filter(|_| !["time", "info"].contains(&words[1])) else { continue };
        assert!(is_prefixed(key), "{line}");
        inner += 1;
    }
    assert!(scripts > 20 && channels > 5 && inner > 50, "seen: {scripts}, {channels}, {inner}");
}

/// Returns true if a key or channel belongs to a name with the prefix `app:`.
fn is_prefixed(key: &str) -> bool {
    key.starts_with("app:") || key.contains("{app:") || key.contains(":app:{m}")
}

#[tokio::test]
async fn the_server_lists_both_connections_by_the_clients_name() {
    let server = RedisServer::start();
    let client = connect_with(Client::builder().client_name("orders-7"), &server.url()).await;
    let held = client.lock("a").lock().await.unwrap();
    assert!(client.lock("a").try_lock_for(Duration::from_millis(20)).await.unwrap().is_none());
    let named = || server.cli(&["CLIENT", "LIST"]).matches(" name=orders-7 ").count();
    eventually("two connections of that name", || named() == 2).await;
    held.release().await.unwrap();
}
