//! The least that a server's user must be allowed, as `SECURITY.md` gives it.

use std::time::Duration;

use leasehold::{AcquireError, Client, Released, StoreErrorKind};
use leasehold_testkit::servers::RedisServer;

/// The line of `SECURITY.md` that begins so: what is documented is what is tested.
fn documented(beginning: &str) -> Vec<&'static str> {
    let line = include_str!("../../../SECURITY.md")
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with(beginning))
        .expect("SECURITY.md has the line");
    line.split(' ').collect()
}

/// The least that every user needs.
fn documented_user() -> Vec<&'static str> {
    documented("ACL SETUSER lock on >PASSWORD")
}

#[tokio::test]
async fn the_documented_user_can_do_everything_and_no_more() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&documented_user()), "OK");
    let url = format!("redis://lock:PASSWORD@127.0.0.1:{}", server.port());
    let (client, other) = (Client::connect(&url).await.unwrap(), Client::connect(&url).await.unwrap());
    let owner = client.owner();
    let lock = client.lock("app:orders").owned_by(&owner);

    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    outer.ensure(Duration::from_secs(20)).await.unwrap();
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 2);
    assert_eq!(inner.release().await.unwrap(), Released::Released);
    let wanted = other.lock("app:orders");
    let (guard, released) = tokio::join!(wanted.lock(), outer.release());
    assert_eq!(released.unwrap(), Released::Released);
    let guard = guard.unwrap();
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(guard.release().await.unwrap(), Released::NotHeld);

    match client.lock("elsewhere").lock().await {
        Err(AcquireError::Store(error) | AcquireError::Unknown { source: error, .. }) => {
            assert_eq!(error.kind, StoreErrorKind::PermissionDenied);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_documented_user_of_read_write_locks_can_do_everything_with_them() {
    let server = RedisServer::start();
    for line in [documented_user(), documented("ACL SETUSER lock +hdel +hgetall")] {
        assert_eq!(server.cli(&line), "OK");
    }
    let url = format!("redis://lock:PASSWORD@127.0.0.1:{}", server.port());
    let (client, other) = (Client::connect(&url).await.unwrap(), Client::connect(&url).await.unwrap());
    let lock = client.rw_lock("app:prices").prefer_writers().owned_by(&client.owner());
    let (outer, inner) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    outer.ensure(Duration::from_secs(20)).await.unwrap();
    let far = other.rw_lock("app:prices").prefer_writers();
    let reader = far.read().await.unwrap();
    assert!(far.try_write_for(Duration::from_millis(20)).await.unwrap().is_none());
    assert!(lock.try_upgrade_for(&outer, Duration::from_millis(20)).await.unwrap().is_none());
    reader.release().await.unwrap();
    let writer = lock.upgrade(&outer).await.unwrap();
    for guard in [outer, inner, writer] {
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
    let kept = far.write().await.unwrap();
    assert!(lock.write_lock().is_locked().await.unwrap());
    assert!(lock.write_lock().force_unlock().await.unwrap());
    assert_eq!(kept.release().await, Ok(Released::NotHeld));
}
