//! What a client tells of itself: its health, its holds, its waits, and who holds a lock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::Client;
use leasehold::client::ServerState;
use leasehold::observe::{Fact, Observer, What};
use leasehold_testkit::servers::RedisServer;

use crate::support::{eventually, ms};

#[tokio::test]
async fn holds_and_waits_are_listed_with_their_ages() {
    let server = RedisServer::start();
    let client = Client::builder().key_prefix("shop:").connect(&server.url()).await.unwrap();
    let guards: Vec<_> = {
        let locks = (0..600).map(|number| client.lock(format!("order:{number}")));
        futures_util::future::join_all(locks.map(|lock| async move { lock.lock().await.unwrap() })).await
    };
    let fenced = client.fenced_lock("report").lock().await.unwrap();
    let listed: Vec<_> = client.holds().collect();
    assert_eq!(listed.len(), 601, "more than two pages");
    let report = listed.last().unwrap();
    assert_eq!((&*report.name, report.kind), ("report", "fenced lock"));
    assert_eq!((report.token, &report.owner), (Some(fenced.token()), &fenced.wire_owner().to_string()));
    assert!(report.owner.starts_with(&client.id()) && report.remaining > Duration::from_secs(20));
    assert!(listed.iter().all(|hold| hold.held < Duration::from_secs(60)));

    let waiter = {
        let lock = client.lock("order:7");
        tokio::spawn(async move { lock.lock().await.unwrap() })
    };
    eventually("the waiter", || client.waits().count() == 1).await;
    let wait = client.waits().next().unwrap();
    assert_eq!((&*wait.name, wait.kind), ("order:7", "lock"));
    eventually("a longer wait", || client.health().longest_wait > ms(20)).await;
    let health = client.health();
    assert_eq!((health.holds, health.waiters, health.server), (601, 1, ServerState::Answers));
    assert!(health.is_alive() && health.is_ready() && health.subscriptions > 0, "{health:?}");
    let [p50, p99, max] = health.round_trips.unwrap();
    assert!(p50 <= p99 && p99 <= max && max > Duration::ZERO, "{health:?}");
    drop(guards);
    drop(waiter.await.unwrap());
    client.close().await;
    assert_eq!(client.health().server, ServerState::Closed);
    assert!(!client.health().is_ready());
}

#[tokio::test]
async fn a_server_that_is_gone_makes_a_client_unready_after_a_lease_and_not_dead() {
    let server = RedisServer::start();
    let builder = Client::builder().timeout(ms(200)).watchdog(ms(600));
    let client = builder.connect(&server.url()).await.unwrap();
    assert_eq!(client.health().server, ServerState::Unused);
    drop(client.lock("job").lock().await.unwrap());
    drop(server);
    client.lock("job").try_lock().await.unwrap_err();
    let health = client.health();
    assert!(matches!(health.server, ServerState::Failing(_)) && health.is_alive(), "{health:?}");
    eventually("that it is not ready", || !client.health().is_ready()).await;
    assert!(client.health().is_alive());
}

#[tokio::test]
async fn the_holder_of_each_kind_of_lock_is_told() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock("job");
    assert_eq!(other.lock("job").holder().await.unwrap(), None);
    let guard = lock.lock().await.unwrap();
    let holder = other.lock("job").holder().await.unwrap().unwrap();
    assert_eq!((holder.owner, holder.count), (guard.wire_owner().to_string(), 1));
    let rw = client.rw_lock("page");
    let write = rw.write().await.unwrap();
    let holder = other.rw_lock("page").read_lock().holder().await.unwrap().unwrap();
    assert_eq!(holder.owner, write.wire_owner().to_string());
    let fair = client.fair_lock("line").lock().await.unwrap();
    let holder = other.fair_lock("line").holder().await.unwrap().unwrap();
    assert_eq!(holder.owner, fair.wire_owner().to_string());
    // A lock of Redisson has the id of a connection manager and of a thread.
    let java = "0a7b0a0a-1111-4222-8333-444455556666:57";
    assert_eq!(server.cli(&["HSET", "java", java, "2"]), "1");
    assert_eq!(server.cli(&["PEXPIRE", "java", "30000"]), "1");
    let holder = client.lock("java").holder().await.unwrap().unwrap();
    assert_eq!((&*holder.owner, holder.count), (java, 2));
    assert_eq!(server.cli(&["SET", "string", "x"]), "OK");
    client.lock("string").holder().await.unwrap_err();
}

/// An observer that keeps the holders of long waits.
#[derive(Default)]
struct Holders(Mutex<Vec<(Option<String>, bool)>>);

impl Observer for Holders {
    fn fact(&self, fact: &Fact<'_>) {
        if let What::Patient { holder, is_own, .. } = fact.what {
            self.0.lock().unwrap().push((holder.map(str::to_owned), is_own));
        }
    }
}

#[tokio::test]
async fn a_long_wait_is_told_with_the_holder_and_one_for_an_own_hold_says_so() {
    let server = RedisServer::start();
    let told = Arc::new(Holders::default());
    let builder = Client::builder().observer(Arc::clone(&told)).patience(ms(50));
    let client = builder.connect(&server.url()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    let guard = other.lock("job").lock().await.unwrap();
    let lock = client.lock("job");
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    let expected = (Some(guard.wire_owner().to_string()), false);
    eventually("the holder", || told.0.lock().unwrap().contains(&expected)).await;
    guard.release().await.unwrap();
    let held = waiter.await.unwrap();
    assert!(client.lock("job").try_lock_for(ms(300)).await.unwrap().is_none());
    let own = (Some(held.wire_owner().to_string()), true);
    eventually("that the client waits for itself", || told.0.lock().unwrap().contains(&own)).await;
}

#[tokio::test]
async fn a_long_wait_for_a_plain_lock_is_told_with_the_own_hold_or_the_value() {
    let server = RedisServer::start();
    let told = Arc::new(Holders::default());
    let builder = Client::builder().observer(Arc::clone(&told)).patience(ms(50));
    let client = builder.connect(&server.url()).await.unwrap();
    assert_eq!(server.cli(&["SET", "job", "of-redis-py"]), "OK");
    let lock = client.plain_lock("job");
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    let foreign = (Some("of-redis-py".to_owned()), false);
    eventually("the value", || told.0.lock().unwrap().contains(&foreign)).await;
    assert_eq!(server.cli(&["DEL", "job"]), "1");
    let held = waiter.await.unwrap();
    assert!(client.plain_lock("job").try_lock_for(ms(300)).await.unwrap().is_none());
    let own = (Some(held.wire_owner().to_string()), true);
    eventually("that the client waits for itself", || told.0.lock().unwrap().contains(&own)).await;
}
