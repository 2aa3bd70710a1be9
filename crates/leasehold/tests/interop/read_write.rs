//! The read-write lock and Redisson's `RReadWriteLock`: which side waits for the other, and how each learns of the
//! other's actions.

use std::time::{Duration, Instant};

use leasehold::{Guard, LostReason, Name, ReleaseOutcome, RwLock};

use crate::crowd::{holders_count_exactly, readers_meet_no_writer};
use crate::harness::{Harness, PROMPTLY, Wait, on_each_master, on_each_server};
use crate::lock_commands::{LockCommands, java_hands_over_to_rust, rust_hands_over_to_java};
use crate::support::{eventually, fields, is_free, ms, soon};

/// The exception of an unlock on a thread that does not hold that side.
const NOT_THE_HOLDER: &str = "IllegalMonitorStateException";
const SHORT_LEASE: Duration = ms(1_500);

on_each_server! {
    writers_and_readers_are_handed_over_to_in_both_directions,
    a_name_with_braces_is_handed_over_in_both_directions,
    writers_of_both_sides_count_exactly,
    readers_and_writers_of_both_sides_exclude_each_other,
    a_writer_wakes_the_readers_of_both_sides_at_once,
    each_side_sees_a_foreign_write_hold_and_cannot_acquire_or_release_it,
    a_java_write_re_entry_adds_to_the_lease,
    a_rust_downgrade_wakes_java_readers,
    a_java_downgrade_admits_rust_readers_within_one_lease,
    a_rust_upgrade_waits_for_java_readers_and_then_excludes_java,
    a_java_forced_unlock_of_either_side_resolves_lost,
    a_rust_forced_unlock_of_either_side_wakes_java,
    a_forced_unlock_affects_only_the_held_side,
    a_preferred_writer_waits_for_java_readers_that_keep_arriving,
}

on_each_master! {
    writers_and_readers_are_handed_over_to_in_both_directions,
}

/// The channel of both sides' waiters.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_rwlock:{{{name}}}")
}

/// One side of a lock: `read` or `write`.
pub(crate) fn lock_commands(side: &str, name: &str) -> LockCommands {
    LockCommands::of_lock(side, name, Some(channel(name)))
}

/// Acquires one side.
pub(crate) async fn enter(lock: RwLock, side: &str) -> Guard {
    if side == "read" { lock.read().await.unwrap() } else { lock.write().await.unwrap() }
}

/// The pairs of sides that exclude each other.
const APART: [(&str, &str); 3] = [("write", "write"), ("write", "read"), ("read", "write")];

async fn writers_and_readers_are_handed_over_to_in_both_directions(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let thread = peer.thread("a");
    for (first, second) in APART {
        let name = harness.name("prices");
        let lock = client.rw_lock(&*name);
        let acquire = {
            let lock = lock.clone();
            async move { enter(lock, second).await }
        };
        let guard = java_hands_over_to_rust(&harness, &lock_commands(first, &name), &thread, acquire).await;
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released, "{second} after Java's {first}");

        let guard = enter(lock, first).await;
        rust_hands_over_to_java(&harness, &lock_commands(second, &name), &thread, async { drop(guard) })
            .await;
        eventually("the lock to be free", || is_free(harness.server(), &name)).await;
        assert_eq!(leases(&harness, &name), 0, "no read hold's lease is left behind");
    }
}

/// The number of lease keys of read holds with this name.
pub(crate) fn leases(harness: &Harness, name: &str) -> usize {
    let keys = harness.server().cli(&["KEYS", &format!("{{{name}}}:*:rwlock_timeout:*")]);
    keys.lines().filter(|key| !key.is_empty()).count()
}

async fn a_name_with_braces_is_handed_over_in_both_directions(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let (thread, name) = (peer.thread("a"), format!("{{{}}}:abc:key", harness.name("prices")));
    let lock = client.rw_lock(Name::raw_redisson(&name).unwrap());
    let channel = Some(format!("redisson_rwlock:{name}"));
    for (first, second) in APART {
        let acquire = {
            let lock = lock.clone();
            async move { enter(lock, second).await }
        };
        let lock_commands = LockCommands::of_lock(first, &name, channel.clone());
        let guard = java_hands_over_to_rust(&harness, &lock_commands, &thread, acquire).await;
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        let guard = enter(lock.clone(), first).await;
        let lock_commands = LockCommands::of_lock(second, &name, channel.clone());
        rust_hands_over_to_java(&harness, &lock_commands, &thread, async { drop(guard) }).await;
    }
}

async fn writers_of_both_sides_count_exactly(harness: Harness) {
    let name = harness.name("prices");
    holders_count_exactly(&harness, ("write", &name), |client| client.rw_lock(&*name).write_lock()).await;
    assert!(is_free(harness.server(), &name));
}

async fn readers_and_writers_of_both_sides_exclude_each_other(harness: Harness) {
    let (client, name) = (harness.client().await, harness.name("prices"));
    let (writing, reading) = (client.rw_lock(&*name), client.rw_lock(&*name));
    let write = move |tally: crate::tally::Tally| {
        let lock = writing.clone();
        async move {
            let guard = lock.write().await.unwrap();
            tally.write().await;
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        }
    };
    let read = move |tally: crate::tally::Tally| {
        let lock = reading.clone();
        async move {
            let guard = lock.read().await.unwrap();
            tally.read().await;
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        }
    };
    readers_meet_no_writer(&harness, &name, write, read).await;
    assert!(is_free(harness.server(), &name));
    assert_eq!(leases(&harness, &name), 0);
}

async fn a_writer_wakes_the_readers_of_both_sides_at_once(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let (lock, channel) = (client.rw_lock(&*name), channel(&name));
    for writer in ["Java", "Rust"] {
        let holder = peer.thread("holder");
        let guard = match writer {
            "Rust" => Some(lock.write().await.unwrap()),
            _ => {
                lock_commands("write", &name).take(&holder).await;
                None
            }
        };
        let mut theirs = Vec::new();
        for reader in 0..5 {
            let thread = peer.thread(&format!("reader-{reader}"));
            let answer = thread.ask(&lock_commands("read", &name).acquire);
            thread.parked().await;
            theirs.push((thread, answer));
        }
        let ours: Vec<_> = (0..5).map(|_| tokio::spawn(enter(lock.clone(), "read"))).collect();
        eventually("both sides to listen", || harness.listeners(&channel) == 2).await;

        let released = Instant::now();
        match guard {
            Some(guard) => drop(guard),
            None => lock_commands("write", &name).release_lock(&holder, "").await,
        }
        let mut guards = Vec::new();
        for reader in ours {
            guards.push(soon("a reader's turn", reader).await.unwrap());
        }
        for (thread, answer) in theirs {
            soon("a reader's turn", answer.ok()).await;
            lock_commands("read", &name).release_lock(&thread, "").await;
        }
        assert!(released.elapsed() < PROMPTLY, "{writer} wrote; it took {:?}", released.elapsed());
        for guard in guards {
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        }
    }
}

async fn each_side_sees_a_foreign_write_hold_and_cannot_acquire_or_release_it(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let (lock, thread) = (client.rw_lock(&*name), peer.thread("a"));
    let guard = lock.clone().lease(ms(20_000)).write().await.unwrap();
    assert_eq!(thread.ok(&format!("lock locked write {name}")).await, "true");
    assert_eq!(thread.ok(&format!("lock locked read {name}")).await, "false");
    assert_eq!(thread.number(&format!("lock count write {name}")).await, 0);
    let remaining = thread.number(&format!("lock remaining write {name}")).await;
    assert!((1..=20_000).contains(&remaining), "{remaining}");
    for side in ["read", "write"] {
        assert_eq!(thread.ok(&format!("lock try {side} {name}")).await, "false", "{side}");
        assert_eq!(thread.ok(&format!("lock acquire {side} {name} wait=100")).await, "false", "{side}");
        assert_eq!(thread.thrown(&format!("lock release {side} {name}")).await.class, NOT_THE_HOLDER);
    }
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);

    assert_eq!(thread.ok(&format!("lock try write {name} lease=20000")).await, "true");
    assert!(lock.write_lock().is_locked().await.unwrap());
    assert!(!lock.read_lock().is_locked().await.unwrap());
    let remaining = lock.write_lock().remaining().await.unwrap().unwrap();
    assert!(remaining > ms(0) && remaining <= ms(20_000), "{remaining:?}");
    assert!(lock.try_read().await.unwrap().is_none());
    assert!(lock.try_write_for(ms(100)).await.unwrap().is_none());
    let owner = thread.wire_owner().await;
    let expected = [("mode".to_owned(), "write".to_owned()), (format!("{owner}:write"), "1".to_owned())];
    assert_eq!(fields(harness.server(), &name), expected.into());
}

async fn a_java_write_re_entry_adds_to_the_lease(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let (lock, thread) = (client.rw_lock(&*name).write_lock(), peer.thread("a"));
    for _ in 0..2 {
        assert_eq!(thread.ok(&format!("lock try write {name} lease=20000")).await, "true");
    }
    let remaining = lock.remaining().await.unwrap().unwrap();
    assert!(remaining > ms(20_000) && remaining <= ms(40_000), "{remaining:?}");
    thread.ok(&format!("lock release write {name}")).await;
    assert!(lock.try_lock().await.unwrap().is_none(), "Java has entered twice");
    assert!(lock.remaining().await.unwrap().unwrap() <= ms(20_000), "its partial release sets the lease");
    thread.ok(&format!("lock release write {name}")).await;
    assert!(lock.try_lock().await.unwrap().is_some());
}

async fn a_rust_downgrade_wakes_java_readers(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let lock = client.rw_lock(&*name).owned_by(&client.owner());
    let writer = lock.write().await.unwrap();
    let reader = lock.read().await.unwrap();
    let thread = peer.thread("a");
    assert_eq!(thread.ok(&format!("lock locked read {name}")).await, "true", "the writer reads as well");
    assert_eq!(thread.ok(&format!("lock try read {name}")).await, "false");
    let downgrade = async {
        assert_eq!(writer.release().await.unwrap(), ReleaseOutcome::Released);
    };
    rust_hands_over_to_java(&harness, &lock_commands("read", &name), &thread, downgrade).await;
    assert!(reader.is_held());
    assert_eq!(thread.ok(&format!("lock locked write {name}")).await, "false");
    assert_eq!(reader.release().await.unwrap(), ReleaseOutcome::Released, "Java's unlock has left it alone");
    assert!(is_free(harness.server(), &name));
}

/// Redisson publishes nothing at a downgrade. A waiter finds out at the end of the lease that its last reply reported.
async fn a_java_downgrade_admits_rust_readers_within_one_lease(harness: Harness) {
    let (client, name) = (harness.client().await, harness.name("prices"));
    let peer = harness.peer(&format!("watchdog={}", SHORT_LEASE.as_millis())).await;
    let (lock, thread) = (client.rw_lock(&*name), peer.thread("a"));
    lock_commands("write", &name).take(&thread).await;
    lock_commands("read", &name).take(&thread).await;
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let waiter = tokio::spawn(enter(lock.clone(), "read"));
    watch.wait_for_waiter().await;

    let released = Instant::now();
    lock_commands("write", &name).release_lock(&thread, "").await;
    let guard = soon("the downgrade to be seen", waiter).await.unwrap();
    assert!(released.elapsed() < 2 * SHORT_LEASE, "it took {:?}", released.elapsed());
    assert!(lock.try_write().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(thread.ok(&format!("lock held read {name}")).await, "true", "our release left it alone");
    lock_commands("read", &name).release_lock(&thread, "").await;
    assert!(lock.try_write().await.unwrap().is_some());
}

async fn a_rust_upgrade_waits_for_java_readers_and_then_excludes_java(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let (lock, thread) = (client.rw_lock(&*name), peer.thread("a"));
    let reader = lock.read().await.unwrap();
    lock_commands("read", &name).take(&thread).await;
    assert!(lock.try_upgrade(&reader).await.unwrap().is_none(), "Java reads too");
    let upgrading = tokio::spawn(async move {
        let writer = lock.upgrade(&reader).await.unwrap();
        (reader, writer)
    });
    let mark = format!("leasehold_rw_upgrade:{{{name}}}");
    eventually("the mark of one who waits", || !is_free(harness.server(), &mark)).await;

    let released = Instant::now();
    lock_commands("read", &name).release_lock(&thread, "").await;
    let (reader, writer) = soon("the upgrade", upgrading).await.unwrap();
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    for side in ["read", "write"] {
        assert_eq!(thread.ok(&format!("lock locked {side} {name}")).await, "true", "{side}");
        assert_eq!(thread.ok(&format!("lock try {side} {name}")).await, "false", "{side}");
    }
    drop((writer, reader));
    soon("both to be given back", thread.ask(&lock_commands("write", &name).acquire).ok()).await;
}

async fn a_java_forced_unlock_of_either_side_resolves_lost(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    for side in ["read", "write"] {
        let name = harness.name("prices");
        let guard = enter(client.rw_lock(&*name).watchdog(SHORT_LEASE), side).await;
        assert_eq!(peer.thread("a").ok(&format!("lock force {side} {name}")).await, "true");
        let forced = Instant::now();
        assert_eq!(soon("the loss", guard.lost()).await, LostReason::Deleted, "{side}");
        assert!(forced.elapsed() < SHORT_LEASE, "it was seen by a renewal, and took {:?}", forced.elapsed());
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
    }
}

async fn a_rust_forced_unlock_of_either_side_wakes_java(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    for (held, wanted) in APART {
        let (name, holder) = (harness.name("prices"), peer.thread("holder"));
        lock_commands(held, &name).take(&holder).await;
        let lock = client.rw_lock(&*name);
        let force = async move {
            let forced = match held {
                "read" => lock.read_lock().force_unlock().await,
                _ => lock.write_lock().force_unlock().await,
            };
            assert!(forced.unwrap());
        };
        rust_hands_over_to_java(&harness, &lock_commands(wanted, &name), &peer.thread("waiter"), force).await;
        assert_eq!(leases(&harness, &name), 0);
        let failure = holder.thrown(&format!("lock release {held} {name}")).await;
        assert_eq!(failure.class, NOT_THE_HOLDER, "{held}");
    }
}

async fn a_forced_unlock_affects_only_the_held_side(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let thread = peer.thread("a");
    for (held, other) in [("read", "write"), ("write", "read")] {
        let name = harness.name("prices");
        let lock = client.rw_lock(&*name);
        let guard = enter(lock.clone(), held).await;
        assert_eq!(thread.ok(&format!("lock force {other} {name}")).await, "false", "Rust's {held}");
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        lock_commands(held, &name).take(&thread).await;
        let forced = match other {
            "read" => lock.read_lock().force_unlock().await,
            _ => lock.write_lock().force_unlock().await,
        };
        assert!(!forced.unwrap(), "Java's {held}");
        lock_commands(held, &name).release_lock(&thread, "").await;
    }
}

/// Redisson ignores the mark that keeps leasehold's readers back.
async fn a_preferred_writer_waits_for_java_readers_that_keep_arriving(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let lock = client.rw_lock(&*name).prefer_writers();
    let (first, second) = (peer.thread("first"), peer.thread("second"));
    lock_commands("read", &name).take(&first).await;
    let mark = format!("leasehold_rw_writer:{{{name}}}");
    let writer = tokio::spawn(enter(lock.clone(), "write"));
    eventually("the mark of one who waits", || !is_free(harness.server(), &mark)).await;
    assert!(lock.try_read().await.unwrap().is_none(), "our readers let it go first");
    lock_commands("read", &name).take(&second).await;
    lock_commands("read", &name).release_lock(&first, "").await;
    assert!(!writer.is_finished(), "a Java reader has joined");

    let released = Instant::now();
    lock_commands("read", &name).release_lock(&second, "").await;
    let writer = soon("the writer's turn", writer).await.unwrap();
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    assert_eq!(second.ok(&format!("lock try read {name}")).await, "false");
    assert_eq!(writer.release().await.unwrap(), ReleaseOutcome::Released);
    assert!(lock.try_read().await.unwrap().is_some());
}
