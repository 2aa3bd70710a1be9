//! The fair lock when a process of either side is killed. The queue goes on without that process.

use std::time::{Duration, Instant};

use leasehold::{Client, ReleaseOutcome};

use crate::child::{ChildProcess, part, report_held};
use crate::fair::{lock_commands, queued};
use crate::harness::{Harness, on_each_server};
use crate::java::Java;
use crate::support::{is_free, ms, soon};

const LEASE: Duration = ms(1_500);
/// The time after which a silent waiter loses its place in the queue.
const GONE_AFTER: Duration = ms(5_000);

on_each_server! {
    a_killed_java_holder_and_waiter_block_rust_for_a_lease_and_one_deadline,
    a_killed_rust_head_blocks_java_for_a_lease_and_one_deadline,
    a_killed_rust_holder_blocks_java_for_at_most_one_lease,
}

/// A Java process holds the lock and is also next in the queue. A Rust waiter is behind it.
async fn a_killed_java_holder_and_waiter_block_rust_for_a_lease_and_one_deadline(harness: Harness) {
    let (client, java, name) = (harness.client().await, Java::start(), harness.name("printer"));
    let peer = harness.peer_in(&java, &format!("watchdog={}", LEASE.as_millis())).await;
    lock_commands(&name).take(&peer.thread("holder")).await;
    drop(peer.thread("head").ask(&lock_commands(&name).acquire));
    queued(&harness, &name, 1).await;
    let lock = client.fair_lock(&*name);
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    queued(&harness, &name, 2).await;

    java.kill();
    let killed = Instant::now();
    let guard = soon("the turn after the dead one's", waiter).await.unwrap();
    assert!(killed.elapsed() < 2 * LEASE + GONE_AFTER, "it took {:?}", killed.elapsed());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(is_free(harness.server(), &format!("redisson_lock_queue:{{{name}}}")));
    assert!(is_free(harness.server(), &format!("redisson_lock_timeout:{{{name}}}")));
}

/// The wake-up of the release reaches only the dead waiter. Java tries again at the end of the lease that its last
/// reply reported, and then without a pause until the dead waiter's deadline is over.
async fn a_killed_rust_head_blocks_java_for_a_lease_and_one_deadline(harness: Harness) {
    let name = harness.name("printer");
    let peer = harness.peer(&format!("watchdog={}", LEASE.as_millis())).await;
    let (holder, thread) = (peer.thread("holder"), peer.thread("a"));
    lock_commands(&name).take(&holder).await;
    let part = "fair_deaths::a_process_that_waits_until_it_is_killed";
    let mut head = ChildProcess::start(part, &harness.url(), &name);
    queued(&harness, &name, 1).await;
    let waiter = thread.ask(&lock_commands(&name).acquire);
    queued(&harness, &name, 2).await;

    head.kill();
    let killed = Instant::now();
    lock_commands(&name).release_lock(&holder, "").await;
    soon("the turn after the dead one's", waiter.ok()).await;
    assert!(killed.elapsed() < 2 * LEASE + GONE_AFTER, "it took {:?}", killed.elapsed());
    lock_commands(&name).release_lock(&thread, "").await;
    assert!(is_free(harness.server(), &format!("redisson_lock_queue:{{{name}}}")));
}

async fn a_killed_rust_holder_blocks_java_for_at_most_one_lease(harness: Harness) {
    let (peer, name) = (harness.peer("").await, harness.name("printer"));
    let part = "fair_deaths::a_process_that_holds_a_fair_lock_until_it_is_killed";
    let mut holder = ChildProcess::start(part, &harness.url(), &name);
    let waiter = peer.thread("a").ask(&lock_commands(&name).acquire);
    queued(&harness, &name, 1).await;

    holder.kill();
    let killed = Instant::now();
    soon("the lock of the dead", waiter.ok()).await;
    assert!(killed.elapsed() < 2 * LEASE, "it took {:?}", killed.elapsed());
}

/// Not a test by itself, but the part of the second process.
#[tokio::test]
async fn a_process_that_holds_a_fair_lock_until_it_is_killed() {
    let Some((url, name)) = part() else { return };
    let client = Client::connect(&url).await.unwrap();
    let guard = client.fair_lock(&*name).watchdog(LEASE).lock().await.unwrap();
    report_held();
    guard.lost().await;
}

/// Not a test by itself, but the part of the second process.
#[tokio::test]
async fn a_process_that_waits_until_it_is_killed() {
    let Some((url, name)) = part() else { return };
    let client = Client::connect(&url).await.unwrap();
    report_held();
    client.fair_lock(&*name).lock().await.unwrap().detach();
}
