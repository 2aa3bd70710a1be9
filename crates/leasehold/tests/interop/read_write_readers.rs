//! Readers of both sides at once. Each read hold has a lease of its own on the wire, and no lease may end with another
//! lease.

use std::time::Duration;

use leasehold::ReleaseOutcome;

use crate::harness::{Harness, on_each_server};
use crate::read_write::{enter, leases, lock_commands};
use crate::support::{a_lease_passes, fields, is_free, ms, pttl, soon};

const SHORT_LEASE: Duration = ms(1_500);

on_each_server! {
    readers_of_both_sides_share_the_lock_and_exclude_writers,
    the_release_of_a_java_reader_does_not_affect_a_rust_reader,
    the_release_of_a_rust_reader_does_not_affect_a_java_reader,
    re_entries_of_either_side_count_with_separate_leases,
    the_lock_lives_as_long_as_the_longest_reader_of_either_side,
    both_watchdogs_renew_readers_and_writers_for_several_leases,
}

async fn readers_of_both_sides_share_the_lock_and_exclude_writers(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let lock = client.rw_lock(&*name);
    let threads = [0, 1, 2].map(|number| peer.thread(&format!("reader-{number}")));
    let mut guards = Vec::new();
    for thread in &threads {
        lock_commands("read", &name).take(thread).await;
        guards.push(soon("a reader among readers", lock.read()).await.unwrap());
    }
    assert_eq!(leases(&harness, &name), 6);
    let writer = peer.thread("writer");
    for (thread, guard) in threads.iter().zip(guards) {
        assert_eq!(writer.ok(&format!("lock try write {name}")).await, "false");
        assert!(lock.try_write().await.unwrap().is_none());
        assert_eq!(writer.ok(&format!("lock locked read {name}")).await, "true");
        assert!(lock.read_lock().is_locked().await.unwrap());
        lock_commands("read", &name).release_lock(thread, "").await;
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    }
    assert!(is_free(harness.server(), &name));
    assert_eq!(leases(&harness, &name), 0);
    assert_eq!(writer.ok(&format!("lock try write {name}")).await, "true");
}

async fn the_release_of_a_java_reader_does_not_affect_a_rust_reader(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let (lock, thread) = (client.rw_lock(&*name), peer.thread("a"));
    let guard = lock.read().await.unwrap();
    lock_commands("read", &name).take(&thread).await;
    lock_commands("read", &name).release_lock(&thread, "").await;
    let expected = [("mode".to_owned(), "read".to_owned()), (guard.wire_owner().to_string(), "1".to_owned())];
    assert_eq!(fields(harness.server(), &name), expected.into());
    assert!(pttl(harness.server(), &name) > 20_000, "it lives as long as our hold");
    assert_eq!(thread.ok(&format!("lock try write {name}")).await, "false");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(thread.ok(&format!("lock try write {name}")).await, "true");
}

async fn the_release_of_a_rust_reader_does_not_affect_a_java_reader(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let (lock, thread) = (client.rw_lock(&*name), peer.thread("a"));
    lock_commands("read", &name).take(&thread).await;
    let guard = lock.read().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    let expected = [("mode".to_owned(), "read".to_owned()), (thread.wire_owner().await, "1".to_owned())];
    assert_eq!(fields(harness.server(), &name), expected.into());
    assert!(pttl(harness.server(), &name) > 20_000, "it lives as long as Java's hold");
    assert_eq!(thread.ok(&format!("lock held read {name}")).await, "true");
    assert!(lock.try_write().await.unwrap().is_none());
    lock_commands("read", &name).release_lock(&thread, "").await;
    assert!(lock.try_write().await.unwrap().is_some());
}

async fn re_entries_of_either_side_count_with_separate_leases(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let (owner, thread) = (client.owner(), peer.thread("a"));
    let lock = client.rw_lock(&*name).owned_by(&owner);
    let (outer, inner) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    lock_commands("read", &name).take(&thread).await;
    lock_commands("read", &name).take(&thread).await;
    let count = |owner: &str| fields(harness.server(), &name).get(owner).cloned();
    let (ours, theirs) = (outer.wire_owner().to_string(), thread.wire_owner().await);
    assert_eq!((count(&ours), count(&theirs)), (Some("2".to_owned()), Some("2".to_owned())));
    assert_eq!(leases(&harness, &name), 4);
    assert_eq!(thread.number(&format!("lock count read {name}")).await, 2);
    assert_eq!(lock.read_lock().hold_count(&owner).await.unwrap(), 2);

    assert_eq!(inner.release().await.unwrap(), ReleaseOutcome::Released);
    lock_commands("read", &name).release_lock(&thread, "").await;
    assert_eq!((count(&ours), count(&theirs)), (Some("1".to_owned()), Some("1".to_owned())));
    assert_eq!(leases(&harness, &name), 2);
    lock_commands("read", &name).release_lock(&thread, "").await;
    assert_eq!((count(&ours), count(&theirs)), (Some("1".to_owned()), None));
    assert!(outer.is_held());
    assert_eq!(outer.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(is_free(harness.server(), &name));
}

async fn the_lock_lives_as_long_as_the_longest_reader_of_either_side(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let thread = peer.thread("a");
    for (ours, theirs) in [(5_000_i64, 20_000), (20_000, 5_000)] {
        let name = harness.name("prices");
        let lock = client.rw_lock(&*name);
        let guard = lock.clone().lease(ms(ours.unsigned_abs())).read().await.unwrap();
        assert_eq!(thread.ok(&format!("lock try read {name} lease={theirs}")).await, "true");
        let longest = ours.max(theirs);
        let left = pttl(harness.server(), &name);
        assert!(left > 10_000 && left <= longest, "{left}");
        assert_eq!(thread.ok(&format!("lock try read {name} lease={theirs}")).await, "true");

        // The reader that leaves shortens no other reader's lease.
        lock_commands("read", &name).release_lock(&thread, "").await;
        let left = pttl(harness.server(), &name);
        assert!(left > 10_000 && left <= longest, "{left}");
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        let left = pttl(harness.server(), &name);
        assert!(left > theirs - 4_000 && left <= theirs, "{left} of Java's {theirs}");
        assert_eq!(lock.read_lock().remaining().await.unwrap().map(|left| left <= ms(20_000)), Some(true));
        lock_commands("read", &name).release_lock(&thread, "").await;
        assert!(is_free(harness.server(), &name));
    }
}

async fn both_watchdogs_renew_readers_and_writers_for_several_leases(harness: Harness) {
    let client = harness.client().await;
    let peer = harness.peer(&format!("watchdog={}", SHORT_LEASE.as_millis())).await;
    let [read, ours, theirs] = ["read", "ours", "theirs"].map(|stem| harness.name(stem));
    let lock = |name: &str| client.rw_lock(name).watchdog(SHORT_LEASE);
    let (reader, writer) = (peer.thread("reader"), peer.thread("writer"));
    let ours_reading = lock(&read).read().await.unwrap();
    lock_commands("read", &read).take(&reader).await;
    lock_commands("read", &read).take(&reader).await;
    let ours_writing = enter(lock(&ours), "write").await;
    lock_commands("write", &theirs).take(&writer).await;
    assert!(pttl(harness.server(), &theirs) <= 1_500, "it is the short lease that is kept");

    a_lease_passes(harness.server(), 3 * SHORT_LEASE).await;
    assert!(ours_reading.is_held() && ours_writing.is_held());
    assert_eq!(leases(&harness, &read), 3);
    let other = peer.thread("other");
    for name in [&read, &ours] {
        assert_eq!(other.ok(&format!("lock try write {name}")).await, "false");
    }
    for name in [&read, &theirs] {
        assert!(lock(name).try_write().await.unwrap().is_none());
    }
    // Java's reader leaves. The Rust hold stays without it.
    lock_commands("read", &read).release_lock(&reader, "").await;
    lock_commands("read", &read).release_lock(&reader, "").await;
    a_lease_passes(harness.server(), SHORT_LEASE + SHORT_LEASE / 2).await;
    assert!(ours_reading.is_held());
    assert_eq!(other.ok(&format!("lock try write {read}")).await, "false");
    assert_eq!(ours_reading.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(ours_writing.release().await.unwrap(), ReleaseOutcome::Released);
    lock_commands("write", &theirs).release_lock(&writer, "").await;
    for name in [&read, &ours, &theirs] {
        assert_eq!(other.ok(&format!("lock try write {name}")).await, "true");
    }
}
