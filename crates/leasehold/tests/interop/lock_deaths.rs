//! The reentrant lock when a process of either side is killed.

use std::time::{Duration, Instant};

use leasehold::{Client, ReleaseOutcome};

use crate::child::{ChildProcess, part, report_held};
use crate::harness::{Harness, PROMPTLY, Wait, on_each_server};
use crate::java::Java;
use crate::support::{channel, eventually, is_free, ms, pttl, soon};

const LEASE: Duration = ms(1_500);

on_each_server! {
    a_killed_java_holder_blocks_rust_for_at_most_one_lease,
    a_killed_java_waiter_blocks_no_client,
    a_killed_rust_holder_blocks_java_for_at_most_one_lease,
}

async fn a_killed_java_holder_blocks_rust_for_at_most_one_lease(harness: Harness) {
    let (client, java, name) = (harness.client().await, Java::start(), harness.name("job"));
    let peer = harness.peer_in(&java, &format!("watchdog={}", LEASE.as_millis())).await;
    peer.thread("a").ok(&format!("lock acquire lock {name}")).await;
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let lock = client.lock(&*name);
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    watch.wait_for_waiter().await;

    java.kill();
    let killed = Instant::now();
    let guard = soon("the lock of the dead", waiter).await.unwrap();
    assert!(killed.elapsed() < 2 * LEASE, "it took {:?}", killed.elapsed());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
}

async fn a_killed_java_waiter_blocks_no_client(harness: Harness) {
    let (client, java, name) = (harness.client().await, Java::start(), harness.name("job"));
    let peer = harness.peer_in(&java, "").await;
    let guard = client.lock(&*name).lock().await.unwrap();
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    drop(peer.thread("a").ask(&format!("lock acquire lock {name}")));
    watch.wait_for_waiter().await;

    java.kill();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    let released = Instant::now();
    let guard = soon("a free lock", client.lock(&*name).lock()).await.unwrap();
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(is_free(harness.server(), &name));
    eventually("the last to leave", || harness.listeners(&channel(&name)) == 0).await;
}

async fn a_killed_rust_holder_blocks_java_for_at_most_one_lease(harness: Harness) {
    let (peer, name) = (harness.peer("").await, harness.name("job"));
    let part = "lock_deaths::a_process_that_holds_a_lock_until_it_is_killed";
    let mut holder = ChildProcess::start(part, &harness.url(), &name);
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let waiter = peer.thread("a").ask(&format!("lock acquire lock {name}"));
    watch.wait_for_waiter().await;
    assert!(waiter.is_pending());

    holder.kill();
    let killed = Instant::now();
    soon("the lock of the dead", waiter.ok()).await;
    assert!(killed.elapsed() < 2 * LEASE, "it took {:?}", killed.elapsed());
    assert!(pttl(harness.server(), &name) > 2_000, "it is Java's lease now");
}

/// Not a test by itself, but the part of the second process.
#[tokio::test]
async fn a_process_that_holds_a_lock_until_it_is_killed() {
    let Some((url, name)) = part() else { return };
    let client = Client::connect(&url).await.unwrap();
    let guard = client.lock(&*name).watchdog(LEASE).lock().await.unwrap();
    report_held();
    guard.lost().await;
}
