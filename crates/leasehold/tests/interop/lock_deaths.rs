//! The reentrant lock when a process of either side is killed.

use std::time::{Duration, Instant};

use leasehold::{Client, ReleaseOutcome};

use crate::bench::{Bench, PROMPTLY, Wait, on_each_server};
use crate::cast::{Cast, it_is_held, part};
use crate::java::Java;
use crate::support::{channel, eventually, is_free, ms, pttl, soon};

const LEASE: Duration = ms(1_500);

on_each_server! {
    a_killed_java_holder_blocks_rust_for_at_most_one_lease,
    a_killed_java_waiter_takes_nothing_with_it,
    a_killed_rust_holder_blocks_java_for_at_most_one_lease,
}

async fn a_killed_java_holder_blocks_rust_for_at_most_one_lease(bench: Bench) {
    let (client, java, name) = (bench.client().await, Java::start(), bench.name("job"));
    let peer = bench.peer_in(&java, &format!("watchdog={}", LEASE.as_millis())).await;
    peer.thread("a").ok(&format!("lock acquire lock {name}")).await;
    let watch = bench.watch(&name, Wait::Listening(channel(&name)));
    let lock = client.lock(&*name);
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    watch.until_somebody_waits().await;

    java.kill();
    let killed = Instant::now();
    let guard = soon("the lock of the dead", waiter).await.unwrap();
    assert!(killed.elapsed() < 2 * LEASE, "it took {:?}", killed.elapsed());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
}

async fn a_killed_java_waiter_takes_nothing_with_it(bench: Bench) {
    let (client, java, name) = (bench.client().await, Java::start(), bench.name("job"));
    let peer = bench.peer_in(&java, "").await;
    let guard = client.lock(&*name).lock().await.unwrap();
    let watch = bench.watch(&name, Wait::Listening(channel(&name)));
    drop(peer.thread("a").ask(&format!("lock acquire lock {name}")));
    watch.until_somebody_waits().await;

    java.kill();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    let released = Instant::now();
    let guard = soon("a lock that nobody has", client.lock(&*name).lock()).await.unwrap();
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(is_free(bench.server(), &name));
    eventually("the last to leave", || bench.listeners(&channel(&name)) == 0).await;
}

async fn a_killed_rust_holder_blocks_java_for_at_most_one_lease(bench: Bench) {
    let (peer, name) = (bench.peer("").await, bench.name("job"));
    let part = "lock_deaths::a_process_that_holds_a_lock_until_it_is_killed";
    let mut holder = Cast::start(part, &bench.url(), &name);
    let watch = bench.watch(&name, Wait::Listening(channel(&name)));
    let waiter = peer.thread("a").ask(&format!("lock acquire lock {name}"));
    watch.until_somebody_waits().await;
    assert!(waiter.is_pending());

    holder.kill();
    let killed = Instant::now();
    soon("the lock of the dead", waiter.ok()).await;
    assert!(killed.elapsed() < 2 * LEASE, "it took {:?}", killed.elapsed());
    assert!(pttl(bench.server(), &name) > 2_000, "it is Java's lease now");
}

/// Not a test by itself, but the part of the second process.
#[tokio::test]
async fn a_process_that_holds_a_lock_until_it_is_killed() {
    let Some((url, name)) = part() else { return };
    let client = Client::connect(&url).await.unwrap();
    let guard = client.lock(&*name).watchdog(LEASE).lock().await.unwrap();
    it_is_held();
    guard.lost().await;
}
