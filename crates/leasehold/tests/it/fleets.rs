//! Locks on fleets behind sentinels and on clusters, under failovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Client, Confirm, MultiLock, Redlock, ReleaseOutcome};
use leasehold_testkit::fleets::{Cluster, Sentinels};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use tokio::task::JoinSet;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

async fn connect(url: &str) -> Client {
    Client::builder().timeout(Duration::from_secs(1)).connect(url).await.unwrap()
}

/// Lets tasks of two clients count under locks. Returns the counts.
async fn count(clients: &[Client], names: &[String], rounds: u64) -> Vec<u64> {
    let counters: Arc<Vec<AtomicU64>> = Arc::new(names.iter().map(|_| AtomicU64::new(0)).collect());
    let mut tasks = JoinSet::new();
    for client in clients {
        for (index, name) in names.iter().enumerate() {
            for _ in 0..2 {
                let (lock, counters) = (client.lock(name.as_str()), Arc::clone(&counters));
                tasks.spawn(async move {
                    for _ in 0..rounds {
                        let guard = lock.lock().await.unwrap();
                        // Not atomic on purpose: two holders would lose a count.
                        let before = counters[index].load(Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        counters[index].store(before + 1, Ordering::Relaxed);
                        guard.release().await.unwrap();
                    }
                });
            }
        }
    }
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    timeout(LIMIT, all).await.expect("all tasks end");
    counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_exclude_and_wake_each_other_on_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let clients = [connect(&cluster.url()).await, connect(&cluster.url()).await];
    let names: Vec<String> = (0..12).map(|number| format!("job:{number}")).collect();
    assert_eq!(count(&clients, &names, 20).await, vec![80; 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_exclude_and_wake_each_other_behind_sentinels() {
    let fleet = Sentinels::start();
    let clients = [connect(&fleet.url()).await, connect(&fleet.url()).await];
    assert_eq!(count(&clients, &["job".to_owned()], 50).await, [200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_primitive_works_on_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let client = connect(&cluster.url()).await;
    for number in 0..6 {
        let name = format!("name:{number}");
        let name = name.as_str();
        client.lock(name).lock().await.unwrap().release().await.unwrap();
        client.fair_lock(format!("f{name}").as_str()).lock().await.unwrap().release().await.unwrap();
        client.fenced_lock(format!("t{name}").as_str()).lock().await.unwrap().release().await.unwrap();
        client.spin_lock(format!("s{name}").as_str()).lock().await.unwrap().release().await.unwrap();
        client.rw_lock(format!("r{name}").as_str()).write().await.unwrap().release().await.unwrap();
        let semaphore = client.semaphore(format!("p{name}").as_str());
        semaphore.try_set_permits(2).await.unwrap();
        drop(semaphore.acquire().await.unwrap());
        let latch = client.count_down_latch(format!("l{name}").as_str());
        latch.try_set_count(1).await.unwrap();
        latch.count_down().await.unwrap();
        latch.wait().await.unwrap();
    }
    let members = || {
        ["{shop}a", "{shop}b"].map(|name| client.lock(leasehold::Name::raw_redisson(name).unwrap()).into())
    };
    MultiLock::of(members()).lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_served_after_the_master_of_its_lock_was_killed() {
    let mut cluster = Cluster::start(3, 3);
    let url = cluster.url();
    // A waiter goes on for this long without a server. The cluster needs about three seconds.
    let patient = || Client::builder().timeout(Duration::from_secs(8)).connect(&url);
    let (holder, waiter) = (patient().await.unwrap(), patient().await.unwrap());
    let lock = holder.lock("job");
    let guard = lock.lock().await.unwrap();
    let waits = waiter.lock("job");
    let task = tokio::spawn(async move { waits.lock().await.map(drop) });
    cluster.kill(cluster.node_of_slot(cluster.slot_of_key("job")));
    cluster.wait_until_settled();
    let released = timeout(LIMIT, guard.release()).await.expect("the release ends");
    println!("released: {released:?}");
    timeout(LIMIT, task).await.expect("the waiter is served").unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_the_replicas_confirmed_survives_the_master() {
    let mut fleet = Sentinels::start();
    let client = Client::builder()
        .timeout(Duration::from_secs(6))
        .replicas(Confirm::all(2))
        .connect(&fleet.url())
        .await
        .unwrap();
    let guard = client.lock("job").lock().await.unwrap();
    fleet.kill(fleet.master());
    fleet.wait_until_settled();
    let other = connect(&fleet.url()).await;
    assert!(other.lock("job").try_lock().await.unwrap().is_none(), "the new master has the hold");
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_the_replicas_did_not_confirm_is_undone() {
    let fleet = Sentinels::start();
    let within = Duration::from_secs(1);
    let builder = Client::builder().timeout(2 * within).replicas(Confirm::all(2)).replicas_within(within);
    let client = builder.connect(&fleet.url()).await.unwrap();
    client.lock("other").lock().await.unwrap().release().await.unwrap();
    for replica in fleet.replicas() {
        fleet.freeze(replica);
    }
    let error = client.lock("job").try_lock_for(5 * within).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("replicas"), "{error}");
    let master = &fleet.nodes()[fleet.master()];
    eventually(LIMIT, "the acquire to be undone", || master.cli(&["EXISTS", "job"]) == "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_lock_holds_members_of_several_slots_and_of_another_server() {
    let (cluster, fleet) = (Cluster::start(3, 0), Sentinels::start());
    let (client, other) = (connect(&cluster.url()).await, connect(&fleet.url()).await);
    let locks = [client.lock("a"), client.lock("b"), other.lock("c")];
    let multi = MultiLock::of(locks.clone().map(Into::into));
    let guard = multi.lock().await.unwrap();
    for lock in &locks {
        assert!(lock.is_locked().await.unwrap());
    }
    guard.release().await.unwrap();
    for lock in &locks {
        assert!(!lock.is_locked().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redlock_over_a_server_a_fleet_and_a_cluster_excludes_and_survives_the_loss_of_one() {
    let (mut server, fleet, cluster) = (RedisServer::start(), Sentinels::start(), Cluster::start(3, 0));
    let urls = [server.url(), fleet.url(), cluster.url()];
    let connect = async || {
        let builder = Redlock::builder().node_timeout(Duration::from_secs(1)).nodes_persist_every_write();
        builder.connect(urls.iter().map(String::as_str)).await.unwrap()
    };
    let (one, other) = (connect().await, connect().await);
    let shard = |name: &str| &cluster.nodes()[cluster.node_of_slot(cluster.slot_of_key(name))];
    let guard = one.lock("job").lock().await.unwrap();
    eventually(LIMIT, "all three to grant it", || guard.votes() == 3);
    for node in [&server, &fleet.nodes()[fleet.master()], shard("job")] {
        assert_eq!(node.cli(&["EXISTS", "job"]), "1");
    }
    assert!(other.lock("job").try_lock().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    let next = timeout(LIMIT, other.lock("job").lock()).await.expect("the lock is free").unwrap();
    assert!(one.lock("job").try_lock().await.unwrap().is_none());
    eventually(LIMIT, "all three to grant it again", || next.votes() == 3);

    server.kill();
    // The hold outlives a node, and so does the exclusion.
    assert!(one.lock("job").try_lock().await.unwrap().is_none());
    assert!(next.is_held());
    assert_eq!(next.release().await.unwrap(), ReleaseOutcome::Released);
    let guard = timeout(LIMIT, one.lock("later").lock()).await.expect("two of three grant it").unwrap();
    assert_eq!(guard.votes(), 2);
    assert_eq!(shard("later").cli(&["EXISTS", "later"]), "1");
    assert!(other.lock("later").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
}
