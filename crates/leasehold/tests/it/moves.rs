//! Moves of running services between topologies, with clients of both: each side sees the locks of the other.

use std::time::Duration;

use leasehold::{Client, Confirm, MultiLock};
use leasehold_testkit::fleets::{Cluster, Sentinels};
use leasehold_testkit::servers::RedisServer;

async fn connect(url: &str) -> Client {
    Client::builder().timeout(Duration::from_secs(1)).connect(url).await.unwrap()
}

/// Acquires the lock of one client, and shows that the other client waits for the release, in both directions.
async fn exclude_each_other(one: &Client, other: &Client) {
    for (holder, waiter) in [(one, other), (other, one)] {
        let guard = holder.lock("job").lock().await.unwrap();
        assert!(waiter.lock("job").try_lock().await.unwrap().is_none(), "two clients hold one lock");
        let lock = waiter.lock("job");
        let waits = tokio::spawn(async move { lock.try_lock_for(Duration::from_secs(20)).await });
        guard.release().await.unwrap();
        let guard = waits.await.unwrap().unwrap().expect("the waiter is served");
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_the_master_and_of_its_sentinels_exclude_each_other() {
    let fleet = Sentinels::start();
    let plain = connect(&fleet.nodes()[fleet.master()].url()).await;
    exclude_each_other(&plain, &connect(&fleet.url()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_old_master_gets_no_lock_after_a_failover_and_its_hold_moves() {
    let fleet = Sentinels::start();
    let url = fleet.nodes()[fleet.master()].url();
    let builder = Client::builder().timeout(Duration::from_secs(1)).replicas(Confirm::all(2));
    let plain = builder.connect(&url).await.unwrap();
    let moved = connect(&fleet.url()).await;
    let guard = plain.lock("held").lock().await.unwrap();
    fleet.failover();
    fleet.wait_until_settled();
    let error = plain.lock("free").try_lock().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let free = moved.lock("free").try_lock().await.unwrap().expect("the new master serves the lock");
    free.release().await.unwrap();
    assert!(moved.lock("held").try_lock().await.unwrap().is_none(), "the hold is on the new master");
    guard.detach();
}

/// Of three releases of a service, the first locks on the old server, the second on both, the third on the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn each_release_of_a_move_to_a_cluster_excludes_the_next() {
    let (server, cluster) = (RedisServer::start(), Cluster::start(3, 0));
    let (old, new) = (connect(&server.url()).await, connect(&cluster.url()).await);
    let (first, third) = (old.lock("job"), new.lock("job"));
    let second = MultiLock::of([old.lock("job").into(), new.lock("job").into()]);
    for single in [&first, &third] {
        let guard = single.lock().await.unwrap();
        assert!(second.try_lock().await.unwrap().is_none(), "both releases hold the lock");
        guard.release().await.unwrap();
        let guard = second.lock().await.unwrap();
        assert!(single.try_lock().await.unwrap().is_none(), "both releases hold the lock");
        guard.release().await.unwrap();
    }
}
