//! The fair lock when a process of either side is killed. The queue goes on without that process.

use std::time::{Duration, Instant};

use leasehold::{Client, ReleaseOutcome};

use crate::bench::{Bench, on_each_server};
use crate::cast::{Cast, it_is_held, part};
use crate::fair::{queued, turns};
use crate::java::Java;
use crate::support::{is_free, ms, soon};

const LEASE: Duration = ms(1_500);
/// The time after which a silent waiter loses its place in the queue.
const GONE_AFTER: Duration = ms(5_000);

on_each_server! {
    a_killed_java_holder_and_the_next_in_line_hold_rust_up_for_a_lease_and_a_turn,
    a_killed_rust_waiter_at_the_head_holds_java_up_for_a_lease_and_a_turn,
    a_killed_rust_holder_blocks_java_for_at_most_one_lease,
}

/// A Java process holds the lock and is also next in the queue. A Rust waiter is behind it.
async fn a_killed_java_holder_and_the_next_in_line_hold_rust_up_for_a_lease_and_a_turn(bench: Bench) {
    let (client, java, name) = (bench.client().await, Java::start(), bench.name("printer"));
    let peer = bench.peer_in(&java, &format!("watchdog={}", LEASE.as_millis())).await;
    turns(&name).take(&peer.thread("holder")).await;
    drop(peer.thread("head").ask(&turns(&name).acquire));
    queued(&bench, &name, 1).await;
    let lock = client.fair_lock(&*name);
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    queued(&bench, &name, 2).await;

    java.kill();
    let killed = Instant::now();
    let guard = soon("the turn after the dead one's", waiter).await.unwrap();
    assert!(killed.elapsed() < 2 * LEASE + GONE_AFTER, "it took {:?}", killed.elapsed());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(is_free(bench.server(), &format!("redisson_lock_queue:{{{name}}}")));
    assert!(is_free(bench.server(), &format!("redisson_lock_timeout:{{{name}}}")));
}

/// The wake-up of the release reaches only the dead waiter. Java tries again at the end of the lease that its last
/// reply reported, and then without a pause until the dead waiter's deadline is over.
async fn a_killed_rust_waiter_at_the_head_holds_java_up_for_a_lease_and_a_turn(bench: Bench) {
    let name = bench.name("printer");
    let peer = bench.peer(&format!("watchdog={}", LEASE.as_millis())).await;
    let (holder, thread) = (peer.thread("holder"), peer.thread("a"));
    turns(&name).take(&holder).await;
    let part = "fair_deaths::a_process_that_waits_until_it_is_killed";
    let mut head = Cast::start(part, &bench.url(), &name);
    queued(&bench, &name, 1).await;
    let waiter = thread.ask(&turns(&name).acquire);
    queued(&bench, &name, 2).await;

    head.kill();
    let killed = Instant::now();
    turns(&name).give_back(&holder, "").await;
    soon("the turn after the dead one's", waiter.ok()).await;
    assert!(killed.elapsed() < 2 * LEASE + GONE_AFTER, "it took {:?}", killed.elapsed());
    turns(&name).give_back(&thread, "").await;
    assert!(is_free(bench.server(), &format!("redisson_lock_queue:{{{name}}}")));
}

async fn a_killed_rust_holder_blocks_java_for_at_most_one_lease(bench: Bench) {
    let (peer, name) = (bench.peer("").await, bench.name("printer"));
    let part = "fair_deaths::a_process_that_holds_a_fair_lock_until_it_is_killed";
    let mut holder = Cast::start(part, &bench.url(), &name);
    let waiter = peer.thread("a").ask(&turns(&name).acquire);
    queued(&bench, &name, 1).await;

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
    it_is_held();
    guard.lost().await;
}

/// Not a test by itself, but the part of the second process.
#[tokio::test]
async fn a_process_that_waits_until_it_is_killed() {
    let Some((url, name)) = part() else { return };
    let client = Client::connect(&url).await.unwrap();
    it_is_held();
    client.fair_lock(&*name).lock().await.unwrap().detach();
}
