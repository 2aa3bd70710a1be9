//! The read-write lock when a process of either side is killed.

use std::time::{Duration, Instant};

use leasehold::{Client, ReleaseOutcome};

use crate::child::{ChildProcess, part, report_held};
use crate::harness::{Harness, PROMPTLY, Wait, on_each_server};
use crate::java::Java;
use crate::read_write::{channel, enter, lock_commands};
use crate::support::{a_lease_passes, eventually, is_free, ms, pttl, soon};

const LEASE: Duration = ms(1_500);

on_each_server! {
    a_killed_java_process_blocks_rust_for_at_most_one_lease,
    a_killed_rust_process_blocks_java_for_at_most_one_lease,
    a_java_reader_without_an_unlock_shortens_a_longer_rust_lease,
}

/// The Java process reads one lock, reads another one together with Rust, writes a third, and waits for a fourth.
async fn a_killed_java_process_blocks_rust_for_at_most_one_lease(harness: Harness) {
    let (client, java) = (harness.client().await, Java::start());
    let peer = harness.peer_in(&java, &format!("watchdog={}", LEASE.as_millis())).await;
    let [read, shared, written, waited] =
        ["read", "shared", "written", "waited"].map(|stem| harness.name(stem));
    let lock = |name: &str| client.rw_lock(name).watchdog(LEASE);
    lock_commands("read", &read).take(&peer.thread("reader")).await;
    lock_commands("read", &shared).take(&peer.thread("reader")).await;
    let reader = enter(lock(&shared), "read").await;
    lock_commands("write", &written).take(&peer.thread("writer")).await;
    let holder = enter(lock(&waited), "read").await;
    let watch = harness.watch(&waited, Wait::Listening(channel(&waited)));
    drop(peer.thread("waiter").ask(&lock_commands("write", &waited).acquire));
    watch.wait_for_waiter().await;
    let waiters = [(&read, "write"), (&written, "read"), (&shared, "write")]
        .map(|(name, side)| tokio::spawn(enter(lock(name), side)));
    for name in [&read, &written, &shared] {
        eventually("ours to listen", || harness.listeners(&channel(name)) == 1).await;
    }

    java.kill();
    let killed = Instant::now();
    let its_lease = a_lease_passes(harness.server(), LEASE);
    let [writer, other_reader, last] = waiters;
    for waiter in [writer, other_reader] {
        let guard = soon("the lock of the dead", waiter).await.unwrap();
        assert!(killed.elapsed() < 2 * LEASE, "it took {:?}", killed.elapsed());
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    }
    its_lease.await;
    assert!(reader.is_held() && !last.is_finished(), "we read on");
    let released = Instant::now();
    assert_eq!(reader.release().await.unwrap(), ReleaseOutcome::Released);
    let guard = soon("the writer after both readers", last).await.unwrap();
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);

    assert_eq!(holder.release().await.unwrap(), ReleaseOutcome::Released);
    let guard = soon("a lock without a living waiter", lock(&waited).write()).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(is_free(harness.server(), &waited));
}

async fn a_killed_rust_process_blocks_java_for_at_most_one_lease(harness: Harness) {
    let (peer, name) = (harness.peer("").await, harness.name("dead"));
    let part = "read_write_deaths::a_process_that_reads_and_writes_until_it_is_killed";
    let mut holder = ChildProcess::start(part, &harness.url(), &name);
    // Java reads the same lock as the second process. A writer gets it only after that process has ended.
    let (reader, read) = (peer.thread("reader"), format!("{name}-read"));
    lock_commands("read", &read).take(&reader).await;
    let written = format!("{name}-written");
    let watch = harness.watch(&written, Wait::Listening(channel(&written)));
    let waiter = peer.thread("a").ask(&lock_commands("read", &written).acquire);
    watch.wait_for_waiter().await;

    holder.kill();
    let killed = Instant::now();
    let its_lease = a_lease_passes(harness.server(), LEASE);
    soon("the lock of the dead", waiter.ok()).await;
    assert!(killed.elapsed() < 2 * LEASE, "it took {:?}", killed.elapsed());
    its_lease.await;
    assert_eq!(reader.ok(&format!("lock held read {read}")).await, "true");
    lock_commands("read", &read).release_lock(&reader, "").await;
    assert!(is_free(harness.server(), &read), "no field of the dead keeps it");
    assert_eq!(peer.thread("a").ok(&format!("lock try write {read}")).await, "true");
    // The mark of the dead writer keeps no Java reader out, and expires soon.
    let mark = format!("leasehold_rw_writer:{{{name}-waited}}");
    assert_eq!(peer.thread("a").ok(&format!("lock try read {name}-waited")).await, "true");
    eventually("the mark to be gone", || is_free(harness.server(), &mark)).await;
}

/// Redisson sets the lock's expiry, also downwards, in two places: in the renewal of a reader, to its own watchdog's
/// lease, and for a reader in a multi-lock with a lease. A reader that unlocks in time repairs the expiry. This is why
/// the rules for mixed fleets ask for Rust leases that are no longer than Java's.
async fn a_java_reader_without_an_unlock_shortens_a_longer_rust_lease(harness: Harness) {
    let (client, java) = (harness.client().await, Java::start());
    let peer = harness.peer_in(&java, "watchdog=900").await;
    let [renewed, in_a_set] = ["renewed", "set"].map(|stem| harness.name(stem));
    let ours = [&renewed, &in_a_set].map(|name| client.rw_lock(&**name));
    let guards = [ours[0].read().await.unwrap(), ours[1].read().await.unwrap()];
    lock_commands("read", &renewed).take(&peer.thread("reader")).await;
    let set = format!("lock acquire multi read:{in_a_set} wait=1000 lease=900");
    assert_eq!(peer.thread("set").ok(&set).await, "true");
    eventually("Java's renewal", || pttl(harness.server(), &renewed) <= 900).await;

    java.kill();
    for (lock, guard) in ours.iter().zip(&guards) {
        let writer = soon("an end that is not ours", lock.write()).await.unwrap();
        assert!(guard.is_held(), "it learns it at its next renewal");
        assert_eq!(writer.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

/// Not a test by itself, but the part of the second process.
#[tokio::test]
async fn a_process_that_reads_and_writes_until_it_is_killed() {
    let Some((url, name)) = part() else { return };
    let client = Client::connect(&url).await.unwrap();
    let lock = |suffix: &str| client.rw_lock(format!("{name}-{suffix}")).watchdog(LEASE);
    let reader = lock("read").read().await.unwrap();
    let _writer = lock("written").write().await.unwrap();
    let _in_the_way = lock("waited").read().await.unwrap();
    let waiting = lock("waited").prefer_writers();
    let waiter = tokio::spawn(async move { waiting.write().await });
    let yielding = lock("waited").prefer_writers();
    while yielding.try_read().await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    report_held();
    reader.lost().await;
    waiter.abort();
}
