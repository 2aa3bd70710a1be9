//! The `memory://` scheme: the clients that share an in-process server, and the accepted parts of such a URL.

use leasehold::error::UrlError;
use leasehold::{Client, ConnectError, ReleaseOutcome};

use crate::support::{eventually, ms, soon};

async fn connect(url: &str) -> Client {
    Client::connect(url).await.unwrap()
}

#[tokio::test]
async fn an_unnamed_store_belongs_to_its_client() {
    let (one, other) = (connect("memory://").await, connect("memory://").await);
    let _guard = one.lock("job").lock().await.unwrap();
    assert!(one.lock("job").try_lock().await.unwrap().is_none());
    assert!(other.lock("job").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn a_named_store_is_shared_by_name() {
    let url = "memory://tests.shared";
    let (one, other) = (connect(url).await, connect("MEMORY://tests.shared").await);
    let guard = one.lock("job").lock().await.unwrap();
    assert!(other.lock("job").try_lock().await.unwrap().is_none());
    assert!(connect("memory://tests.Shared").await.lock("job").try_lock().await.unwrap().is_some());
    let waiting = tokio::spawn({
        let lock = other.lock("job");
        async move { lock.lock().await }
    });
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert!(soon("the wake-up", waiting).await.unwrap().unwrap().is_held());
}

#[tokio::test]
async fn a_store_ends_with_its_last_client() {
    let url = "memory://tests.gone";
    let client = connect(url).await;
    client.lock("job").lock().await.unwrap().detach();
    assert!(connect(url).await.lock("job").is_locked().await.unwrap(), "it is not the last one");
    drop(client);
    // The store ends with the client's thread, which ends a moment later.
    let mut looks = 0;
    loop {
        let next = connect(url).await;
        if !next.lock("job").is_locked().await.unwrap() {
            break;
        }
        drop(next);
        looks += 1;
        let mut waited = false;
        eventually("the thread to end", || std::mem::replace(&mut waited, true)).await;
        assert!(looks < 1000, "it stays");
    }
}

#[tokio::test]
async fn a_lease_ends_by_the_real_clock() {
    let client = connect("memory://").await;
    client.lock("job").lease(ms(300)).lock().await.unwrap().detach();
    assert!(soon("the lease to end", client.lock("job").lock()).await.unwrap().is_held());
}

#[tokio::test]
async fn a_server_in_memory_has_a_name_and_nothing_else() {
    for url in ["memory:///", "memory://a/b", "memory://a?db=1", "memory://me:canary@a", "memory://a b"] {
        match Client::connect(url).await {
            Err(ConnectError::Url(error)) => {
                assert_eq!(error, UrlError::BadStoreName, "{url}");
                assert!(!format!("{error} {error:?}").contains("canary"));
            }
            other => panic!("{url}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_client_of_a_store_in_memory_closes_and_reports() {
    let client = connect("memory://").await;
    let guard = client.lock("job").lock().await.unwrap();
    let report = soon("the report", client.close()).await;
    assert_eq!((report.released, report.unconfirmed), (1, 0));
    assert!(!guard.is_held());
}
