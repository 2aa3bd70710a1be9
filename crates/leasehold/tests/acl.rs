//! The least that a server's user must be allowed, as `SECURITY.md` gives it.

use std::time::Duration;

use leasehold::{AcquireError, Client, Released, StoreErrorKind};
use leasehold_testkit::servers::RedisServer;

/// The line of `SECURITY.md`, so that what is documented is what is tested.
fn documented_user() -> Vec<&'static str> {
    let line = include_str!("../../../SECURITY.md")
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("ACL SETUSER lock on >PASSWORD"))
        .expect("SECURITY.md has the line");
    line.split(' ').collect()
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
