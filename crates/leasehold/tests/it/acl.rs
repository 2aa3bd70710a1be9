//! The minimum rights of a server user, as `SECURITY.md` documents them.

use std::time::Duration;

use leasehold::error::{AcquireErrorKind, StoreErrorKind};
use leasehold::{AcquireError, Client, ReleaseOutcome};
use leasehold_proto::recipe::grants::{Names, PRIMITIVES, Place, rules, rules_on_sentinels};
use leasehold_testkit::fleets::{Cluster, ClusterOptions, SentinelOptions, Sentinels, User};
use leasehold_testkit::servers::RedisServer;

/// Reads the line that `SECURITY.md` documents for a primitive, so the test runs the documented rights.
fn documented(primitive: &str) -> Vec<&'static str> {
    let command = format!("$ leasehold acl --prefix app: --primitives {primitive}");
    let mut lines = include_str!("../../../../SECURITY.md").lines().skip_while(|line| *line != command);
    lines.nth(1).expect("SECURITY.md has the command and its line").split(' ').collect()
}

#[tokio::test]
async fn the_documented_user_can_do_everything_and_no_more() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&documented("lock")), "OK");
    let url = format!("redis://leasehold:PASSWORD@127.0.0.1:{}", server.port());
    let (client, other) = (Client::connect(&url).await.unwrap(), Client::connect(&url).await.unwrap());
    let owner = client.owner();
    let lock = client.lock("app:orders").owned_by(&owner);

    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    outer.ensure(Duration::from_secs(20)).await.unwrap();
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 2);
    assert_eq!(inner.release().await.unwrap(), ReleaseOutcome::Released);
    let wanted = other.lock("app:orders");
    let (guard, released) = tokio::join!(wanted.lock(), outer.release());
    assert_eq!(released.unwrap(), ReleaseOutcome::Released);
    let guard = guard.unwrap();
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);

    match client.lock("elsewhere").lock().await {
        Err(AcquireError {
            kind: AcquireErrorKind::Store(error) | AcquireErrorKind::Unknown { source: error, .. },
            ..
        }) => {
            assert_eq!(error.kind, StoreErrorKind::PermissionDenied);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_documented_user_of_read_write_locks_can_do_everything_with_them() {
    let server = RedisServer::start();
    let [client, other] = allowed(&server, "rw").await;
    let lock = client.rw_lock("app:prices").prefer_writers().owned_by(&client.owner());
    let (outer, inner) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    outer.ensure(Duration::from_secs(20)).await.unwrap();
    let far = other.rw_lock("app:prices").prefer_writers();
    let reader = far.read().await.unwrap();
    // The test drops these waits, because a short `try_lock_for` could end with a call in flight and report an unknown
    // outcome.
    let moment = Duration::from_millis(20);
    assert!(tokio::time::timeout(moment, far.write()).await.is_err());
    assert!(tokio::time::timeout(moment, lock.upgrade(&outer)).await.is_err());
    reader.release().await.unwrap();
    let writer = lock.upgrade(&outer).await.unwrap();
    for guard in [outer, inner, writer] {
        assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    }
    let kept = far.write().await.unwrap();
    assert!(lock.write_lock().is_locked().await.unwrap());
    assert!(lock.write_lock().force_unlock().await.unwrap());
    assert_eq!(kept.release().await, Ok(ReleaseOutcome::NotHeld));
}

/// Two clients of a user with the documented rights of a primitive.
async fn allowed(server: &RedisServer, primitive: &str) -> [Client; 2] {
    assert_eq!(server.cli(&documented(primitive)), "OK");
    let url = format!("redis://leasehold:PASSWORD@127.0.0.1:{}", server.port());
    let connect = async || Client::connect(&url).await.expect("the user may connect");
    [connect().await, connect().await]
}

#[tokio::test]
async fn the_documented_user_of_plain_locks_can_do_everything_with_them() {
    let server = RedisServer::start();
    let [client, other] = allowed(&server, "plain").await;
    let owner = client.owner();
    let lock = client.plain_lock("app:orders").owned_by(&owner);
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    outer.ensure(Duration::from_secs(20)).await.unwrap();
    assert!(lock.is_held_by(&owner).await.unwrap() && lock.holder().await.unwrap().is_some());
    assert_eq!(inner.release().await, Ok(ReleaseOutcome::Released));
    let wanted = other.plain_lock("app:orders");
    let (guard, released) = tokio::join!(wanted.lock(), outer.release());
    assert_eq!(released, Ok(ReleaseOutcome::Released));
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(guard.unwrap().release().await, Ok(ReleaseOutcome::NotHeld));
    let fenced = client.plain_lock("app:stock").fenced("app:stock:fence").lock().await.unwrap();
    assert_eq!(fenced.token(), 1);
    fenced.release().await.unwrap();
    let names = ["app:a", "app:b"].map(|name| client.plain_lock(name).into());
    leasehold::MultiLock::of(names).lock().await.unwrap().release().await.unwrap();
    let redlock = leasehold::Redlock::builder().longest_lease(Duration::from_millis(100)).over([client]);
    let lock = redlock.plain_lock("app:nodes").lease(Duration::from_millis(400));
    lock.lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn the_documented_user_of_fair_locks_can_do_everything_with_them() {
    let server = RedisServer::start();
    let [client, other] = allowed(&server, "fair").await;
    let guard = client.fair_lock("app:printer").lock().await.unwrap();
    let wanted = other.fair_lock("app:printer");
    let (next, released) = tokio::join!(wanted.lock(), guard.release());
    assert_eq!(released.unwrap(), ReleaseOutcome::Released);
    assert!(client.fair_lock("app:printer").force_unlock().await.unwrap());
    drop(next.unwrap());
}

#[tokio::test]
async fn the_documented_user_of_fenced_locks_can_do_everything_with_them() {
    let server = RedisServer::start();
    let [client, _] = allowed(&server, "fenced").await;
    for tokens in [leasehold::lock::Tokens::Counter, leasehold::lock::Tokens::HybridCollected] {
        let guard = client.fenced_lock("app:stock").tokens(tokens).lock().await.unwrap();
        guard.fenced().set("app:left", "3").await.unwrap();
        guard.fenced().hset("app:state", "paid", "yes").await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_documented_user_of_semaphores_can_do_everything_with_them() {
    let server = RedisServer::start();
    let [client, other] = allowed(&server, "semaphore").await;
    for (one, same) in [
        (client.semaphore("app:seats"), other.semaphore("app:seats")),
        (client.semaphore("app:queue").fifo(), other.semaphore("app:queue").fifo()),
    ] {
        assert!(one.try_set_permits(1).await.unwrap());
        let guard = one.acquire().await.unwrap();
        assert!(same.try_acquire().await.unwrap().is_none());
        let (next, released) = tokio::join!(same.acquire(), guard.release());
        released.unwrap();
        next.unwrap().release().await.unwrap();
        one.add_permits(2).await.unwrap();
        assert_eq!(one.available().await.unwrap(), 3);
        assert_eq!(one.drain().await.unwrap(), 3);
        one.release(1).await.unwrap();
    }
}

#[tokio::test]
async fn the_documented_user_of_expirable_semaphores_can_do_everything_with_them() {
    let server = RedisServer::start();
    let [client, other] = allowed(&server, "expirable").await;
    let (one, same) = (client.expirable_semaphore("app:seats"), other.expirable_semaphore("app:seats"));
    assert!(one.try_set_permits(2).await.unwrap());
    let permits = one.acquire_many(2).await.unwrap();
    permits.ensure(Duration::from_secs(20)).await.unwrap();
    let id = permits.ids()[0];
    assert!(same.update_lease(id, Duration::from_secs(40)).await.unwrap());
    assert!(same.lease_of(id).await.unwrap().is_some());
    let (next, released) = tokio::join!(same.acquire(), permits.release());
    released.unwrap();
    assert!(one.release_ids(&next.unwrap().detach()).await.unwrap());
    assert_eq!((one.available().await.unwrap(), one.acquired().await.unwrap()), (2, 0));
    assert_eq!(one.permits().await.unwrap(), 2);
    one.set_permits(1).await.unwrap();
    one.add_permits(1).await.unwrap();
}

#[tokio::test]
async fn the_documented_user_of_latches_can_do_everything_with_them() {
    let server = RedisServer::start();
    let [client, other] = allowed(&server, "latch").await;
    let (latch, same) = (client.count_down_latch("app:start"), other.count_down_latch("app:start"));
    assert!(latch.try_set_count(1).await.unwrap());
    let (waited, counted) = tokio::join!(same.wait(), latch.count_down());
    waited.unwrap();
    counted.unwrap();
    assert_eq!(latch.count().await.unwrap(), 0);
    assert!(latch.try_set_count(1).await.unwrap());
    assert!(latch.delete().await.unwrap());
}

#[tokio::test]
async fn the_documented_user_of_redlock_can_do_everything_with_it() {
    let server = RedisServer::start();
    let [client, _] = allowed(&server, "redlock").await;
    let redlock = leasehold::Redlock::builder().longest_lease(Duration::from_millis(100)).over([client]);
    let lock = redlock.lock("app:orders").lease(Duration::from_millis(400));
    lock.lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn the_documented_user_of_spin_and_multi_locks_can_do_everything_with_them() {
    let server = RedisServer::start();
    let [client, _] = allowed(&server, "spin").await;
    client.spin_lock("app:orders").lock().await.unwrap().release().await.unwrap();
    assert!(!client.spin_lock("app:orders").is_locked().await.unwrap());
    let [client, _] = allowed(&server, "multi").await;
    let both = leasehold::MultiLock::of([client.lock("app:a").into(), client.lock("app:b").into()]);
    both.lock().await.unwrap().release().await.unwrap();
}

/// The smallest rights of a user of every primitive, on a server of this kind.
fn smallest(place: Place) -> User {
    let all: Vec<_> = PRIMITIVES.iter().collect();
    User { rules: rules(place, &[Names::behind("app:").unwrap()], &all), ..User::unlimited("app", "word") }
}

/// Locks, waits and releases over two clients, and checks that other names are refused.
async fn lock_and_wait(url: &str) {
    let (client, other) = (Client::connect(url).await.unwrap(), Client::connect(url).await.unwrap());
    let guard = client.fair_lock("app:orders").lock().await.unwrap();
    let wanted = other.fair_lock("app:orders");
    let (next, released) = tokio::join!(wanted.lock(), guard.release());
    assert_eq!(released.unwrap(), ReleaseOutcome::Released);
    assert_eq!(next.unwrap().release().await, Ok(ReleaseOutcome::Released));
    assert!(client.lock("elsewhere").lock().await.is_err());
}

#[tokio::test]
async fn the_smallest_rights_suffice_behind_sentinels() {
    let options = SentinelOptions {
        password: Some("secret".into()),
        user: Some(smallest(Place::BehindSentinels)),
        ..SentinelOptions::default()
    };
    let fleet = tokio::task::spawn_blocking(|| Sentinels::with(options)).await.unwrap();
    for sentinel in fleet.sentinels() {
        let user = ["ACL", "SETUSER", "watch", "reset", "on", ">seen"];
        let line: Vec<_> = user.into_iter().chain(rules_on_sentinels().split(' ')).collect();
        sentinel.command(&line).unwrap();
    }
    let url = format!("{}?sentinel_username=watch&sentinel_password=seen", fleet.url());
    lock_and_wait(&url).await;
}

#[tokio::test]
async fn the_smallest_rights_suffice_in_a_cluster() {
    let options = ClusterOptions {
        password: Some("secret".into()),
        user: Some(smallest(Place::Cluster)),
        ..ClusterOptions::default()
    };
    let cluster = tokio::task::spawn_blocking(|| Cluster::with(options)).await.unwrap();
    lock_and_wait(&cluster.url()).await;
}

/// A client of a user with every right except `taken`.
async fn client_without(server: &RedisServer, taken: &str) -> Client {
    assert_eq!(
        server.cli(&["ACL", "SETUSER", "app", "reset", "on", ">word", "~*", "&*", "+@all", taken]),
        "OK"
    );
    Client::connect(&format!("redis://app:word@127.0.0.1:{}", server.port()))
        .await
        .expect("the user may connect")
}

/// The messages of an error and of its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        told += &format!(": {error}");
        cause = error.source();
    }
    told
}

#[tokio::test]
async fn a_user_without_channels_gets_an_error_on_the_first_call_that_needs_one() {
    let server = RedisServer::start();
    // The default rights of a new user in Redis 7, and users with all channels but without one command.
    for (taken, lacks) in [("resetchannels", "PUBLISH"), ("-publish", "PUBLISH"), ("-subscribe", "SUBSCRIBE")]
    {
        let client = client_without(&server, taken).await;
        let (lock, other) = (client.lock("job"), client.lock("other"));
        // Sends three calls at once, and each of them fails with this error.
        let outcomes = tokio::join!(lock.try_lock(), lock.lock(), other.try_lock());
        for outcome in [outcomes.0.map(drop), outcomes.1.map(drop), outcomes.2.map(drop)] {
            let Err(AcquireError { kind: AcquireErrorKind::Store(error), .. }) = outcome else {
                panic!("{taken}: {outcome:?}")
            };
            assert_eq!(
                (error.kind, error.applied),
                (StoreErrorKind::PermissionDenied, leasehold::error::Applied::No)
            );
            let refused =
                format!("may not use {lacks} on the channel 'redisson_lock__channel:{{{}}}'", error.key);
            assert!(error_chain(&error).contains(&refused), "{}", error_chain(&error));
        }
        let outcome = client.semaphore("seats").try_set_permits(1).await.unwrap_err();
        assert!(error_chain(&outcome).contains("redisson_sc:{seats}"), "{}", error_chain(&outcome));
        assert_eq!(server.cli(&["DBSIZE"]), "0", "{taken}");
        assert!(!lock.is_locked().await.unwrap(), "what needs no channel works");
    }
    let client = client_without(&server, "+@all").await;
    assert_eq!(client.lock("job").lock().await.unwrap().release().await, Ok(ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_user_without_sharded_channels_gets_an_error_where_they_are_needed() {
    let server = RedisServer::cluster();
    let client = client_without(&server, "-ssubscribe").await;
    let error = client.lock("job").try_lock().await.unwrap_err();
    let refused = "may not use SSUBSCRIBE on the channel 'redisson_lock__channel:{job}'";
    assert!(error.to_string().contains(refused), "{error}");
    // Without the right to publish on sharded channels, the client uses plain channels. With sharded channels, it needs
    // no plain channels.
    for taken in ["-spublish", "-subscribe"] {
        let client = client_without(&server, taken).await;
        let guard = client.lock("job").lock().await.unwrap();
        assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released), "{taken}");
    }
}

#[tokio::test]
async fn a_release_without_publish_permission_succeeds() {
    let server = RedisServer::start();
    let client = client_without(&server, "+@all").await;
    let guard = client.lock("job").lock().await.unwrap();
    let read = client.rw_lock("prices").read().await.unwrap();
    let permits = client.semaphore("seats");
    assert!(permits.try_set_permits(1).await.unwrap());
    let permit = permits.acquire().await.unwrap();
    assert_eq!(server.cli(&["ACL", "SETUSER", "app", "resetchannels"]), "OK");
    server.reset_stats();
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(read.release().await, Ok(ReleaseOutcome::Released));
    permit.release().await.unwrap();
    let stats = server.commandstats();
    let calls = ["eval", "evalsha"].map(|name| stats.get(name).copied().unwrap_or_default());
    assert_eq!(calls.iter().sum::<u64>(), 3, "each was sent once: {stats:?}");
    assert_eq!(server.cli(&["GET", "seats"]), "1");
    assert_eq!(server.cli(&["EXISTS", "job", "prices"]), "0");
}
