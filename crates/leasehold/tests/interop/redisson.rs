//! Redisson by itself, on both sides of every building block of the primitives' tests: the commands of the Java
//! process, and the checks that find a lock without exclusion. A failure here lies in the harness, or in our knowledge
//! of Redisson.

use std::sync::Arc;

use crate::crowd::{permits_are_never_exceeded, readers_meet_no_writer};
use crate::harness::{Harness, Peer, Thread, on_each_server};
use crate::lock_commands::{LockCommands, rust_hands_over_to_java};
use crate::support::{channel, eventually, fields, is_free};
use crate::tally::Tally;

on_each_server! {
    every_kind_of_lock_is_acquired_seen_and_released,
    a_multi_lock_acquires_all_members,
    fenced_lock_tokens_grow_with_re_entry_too,
    re_entering_a_non_reentrant_lock_throws,
    semaphores_count_down_and_up,
    expirable_permits_have_ids,
    latches_open_at_zero,
    holds_that_redisson_stops_renewing_end_while_their_thread_runs,
    fair_and_polling_waiters_are_seen_waiting,
    many_readers_and_writers_exclude_each_other,
    many_threads_never_exceed_the_permits_of_a_semaphore,
}

async fn every_kind_of_lock_is_acquired_seen_and_released(harness: Harness) {
    let peer = harness.peer("").await;
    let (a, b) = (peer.thread("a"), peer.thread("b"));
    for kind in ["lock", "fair", "fenced", "spin", "read", "write", "nonreentrant", "nonreentrant-fair"] {
        let name = harness.name(kind);
        assert_eq!(
            a.ok(&format!("lock acquire {kind} {name} wait=1000 lease=20000")).await,
            "true",
            "{kind}"
        );
        assert_eq!(a.ok(&format!("lock locked {kind} {name}")).await, "true", "{kind}");
        assert_eq!(a.ok(&format!("lock held {kind} {name}")).await, "true", "{kind}");
        assert_eq!(a.number(&format!("lock count {kind} {name}")).await, 1, "{kind}");
        let remaining = a.number(&format!("lock remaining {kind} {name}")).await;
        assert!((1..=20_000).contains(&remaining), "{kind} {remaining}");
        let admitted = b.ok(&format!("lock try {kind} {name}")).await;
        assert_eq!(admitted, (kind == "read").to_string(), "{kind}");
        a.ok(&format!("lock release {kind} {name}")).await;
        assert_eq!(a.ok(&format!("lock held {kind} {name}")).await, "false", "{kind}");
        assert_eq!(b.ok(&format!("lock force {kind} {name}")).await, admitted, "{kind}");
    }
}

async fn a_multi_lock_acquires_all_members(harness: Harness) {
    let peer = harness.peer("").await;
    let (a, b) = (peer.thread("a"), peer.thread("b"));
    let (first, second) = (harness.name("first"), harness.name("second"));
    let list = format!("lock:{first},fair:{second}");
    assert_eq!(a.ok(&format!("lock acquire multi {list}")).await, "true");
    assert_eq!(b.ok(&format!("lock try multi {list}")).await, "false");
    assert_eq!(b.ok(&format!("lock locked lock {first}")).await, "true");
    assert_eq!(b.ok(&format!("lock locked fair {second}")).await, "true");
    a.ok(&format!("lock release multi {list}")).await;
    assert_eq!(b.ok(&format!("lock try multi {list}")).await, "true");
}

async fn fenced_lock_tokens_grow_with_re_entry_too(harness: Harness) {
    let (peer, name) = (harness.peer("").await, harness.name("fenced"));
    let thread = peer.thread("a");
    assert_eq!(thread.number(&format!("lock acquire-token fenced {name}")).await, 1);
    assert_eq!(thread.number(&format!("lock acquire-token fenced {name} wait=1000 lease=20000")).await, 2);
    let refused = peer.thread("b").ok(&format!("lock acquire-token fenced {name} wait=100")).await;
    assert_eq!(refused, "none");
    assert_eq!(thread.number(&format!("lock token fenced {name}")).await, 2);
}

async fn re_entering_a_non_reentrant_lock_throws(harness: Harness) {
    let peer = harness.peer("").await;
    let thread = peer.thread("a");
    for kind in ["nonreentrant", "nonreentrant-fair"] {
        let name = harness.name(kind);
        thread.ok(&format!("lock acquire {kind} {name}")).await;
        let failure = thread.thrown(&format!("lock acquire {kind} {name}")).await;
        assert_eq!(failure.class, "IllegalMonitorStateException", "{kind}");
        assert_eq!(thread.number(&format!("lock count {kind} {name}")).await, 1, "{kind}");
    }
    let failure = thread.thrown("lock acquire nonsense name").await;
    assert_eq!(failure.message, "no kind of lock is called nonsense");
}

async fn semaphores_count_down_and_up(harness: Harness) {
    let (peer, name) = (harness.peer("").await, harness.name("semaphore"));
    let thread = peer.thread("a");
    assert_eq!(thread.ok(&format!("semaphore set {name} 3")).await, "true");
    assert_eq!(thread.ok(&format!("semaphore set {name} 4")).await, "false");
    thread.ok(&format!("semaphore acquire {name} 2")).await;
    assert_eq!(thread.ok(&format!("semaphore try {name} 2")).await, "false");
    assert_eq!(thread.ok(&format!("semaphore try {name} 2 wait=100")).await, "false");
    thread.ok(&format!("semaphore release {name}")).await;
    assert_eq!(thread.ok(&format!("semaphore try {name} 2 wait=100")).await, "true");
    thread.ok(&format!("semaphore add {name} 5")).await;
    assert_eq!(thread.number(&format!("semaphore available {name}")).await, 5);
    assert_eq!(thread.number(&format!("semaphore drain {name}")).await, 5);
    assert_eq!(harness.server().cli(&["GET", &name]), "0");
}

async fn expirable_permits_have_ids(harness: Harness) {
    let (peer, name) = (harness.peer("").await, harness.name("expirable"));
    let thread = peer.thread("a");
    assert_eq!(thread.ok(&format!("expirable set {name} 3")).await, "true");
    let both = thread.ok(&format!("expirable acquire {name} 2 lease=20000")).await;
    let (first, second) = both.split_once(',').unwrap();
    assert_eq!((first.len(), second.len()), (32, 32));
    assert!((1..=20_000).contains(&thread.number(&format!("expirable lease {name} {first}")).await));
    let endless = thread.ok(&format!("expirable try {name}")).await;
    assert_eq!(thread.number(&format!("expirable lease {name} {endless}")).await, -1);
    assert_eq!(thread.ok(&format!("expirable update-lease {name} {endless} lease=10000")).await, "true");
    assert_eq!(thread.ok(&format!("expirable try {name} 1 wait=100")).await, "none");
    assert_eq!(thread.number(&format!("expirable acquired {name}")).await, 3);
    thread.ok(&format!("expirable release {name} {endless}")).await;
    assert_eq!(thread.ok(&format!("expirable try-release {name} {endless}")).await, "false");
    assert_eq!(thread.ok(&format!("expirable try-release {name} {both}")).await, "2");
    thread.ok(&format!("expirable set-permits {name} 5")).await;
    thread.ok(&format!("expirable add {name} 1")).await;
    assert_eq!(thread.number(&format!("expirable permits {name}")).await, 6);
    assert_eq!(thread.number(&format!("expirable available {name}")).await, 6);
}

async fn latches_open_at_zero(harness: Harness) {
    let (peer, name) = (harness.peer("").await, harness.name("latch"));
    let thread = peer.thread("a");
    assert_eq!(thread.ok(&format!("latch set {name} 2")).await, "true");
    assert_eq!(thread.ok(&format!("latch await {name} wait=100")).await, "false");
    let waiter = peer.thread("waiter").ask(&format!("latch await {name}"));
    thread.ok(&format!("latch down {name}")).await;
    assert_eq!(thread.number(&format!("latch count {name}")).await, 1);
    assert!(waiter.is_pending());
    thread.ok(&format!("latch down {name}")).await;
    assert_eq!(waiter.ok().await, "true");
    assert_eq!(thread.ok(&format!("latch delete {name}")).await, "false");
}

/// Each unlock of a thread ends one renewal of that name, of any kind of hold. Redisson stops renewing a write hold when
/// the thread releases its read hold, and a renewed hold after a re-entry with a lease of its own.
async fn holds_that_redisson_stops_renewing_end_while_their_thread_runs(harness: Harness) {
    let peer = harness.peer("watchdog=900").await;
    let thread = peer.thread("a");
    let [prices, order, kept] = ["prices", "order", "kept"].map(|stem| harness.name(stem));
    for (side, verb) in [("write", "acquire"), ("read", "acquire"), ("read", "release")] {
        thread.ok(&format!("lock {verb} {side} {prices}")).await;
    }
    thread.ok(&format!("lock acquire lock {order}")).await;
    thread.ok(&format!("lock acquire lock {order} lease=900")).await;
    thread.ok(&format!("lock release lock {order}")).await;
    thread.ok(&format!("lock acquire lock {kept}")).await;
    assert_eq!(thread.ok(&format!("lock held write {prices}")).await, "true");
    assert_eq!(thread.ok(&format!("lock held lock {order}")).await, "true");
    eventually("the ends of both", || {
        is_free(harness.server(), &prices) && is_free(harness.server(), &order)
    })
    .await;
    assert_eq!(thread.ok(&format!("lock held lock {kept}")).await, "true", "what nothing interfered with");
}

async fn fair_and_polling_waiters_are_seen_waiting(harness: Harness) {
    let peer = harness.peer("").await;
    let (a, b) = (peer.thread("a"), peer.thread("b"));
    for kind in ["fair", "spin"] {
        let name = harness.name(kind);
        let lock_commands = LockCommands::of_lock(kind, &name, (kind == "fair").then(|| channel(&name)));
        let answer = lock_commands.take(&a).await;
        rust_hands_over_to_java(&harness, &lock_commands, &b, lock_commands.release_lock(&a, &answer)).await;
        assert!(fields(harness.server(), &name).is_empty());
    }
}

/// Runs one critical section, in which a Java thread stands in for a Rust task.
async fn hold(thread: &Thread, kind: &str, name: &str, inside: impl Future<Output = ()>) {
    thread.ok(&format!("lock acquire {kind} {name}")).await;
    inside.await;
    thread.ok(&format!("lock release {kind} {name}")).await;
}

/// A thread of its own for this task, because sections of one client run at the same time.
fn thread_of_this_task(peer: &Peer) -> Thread {
    peer.thread(&tokio::task::id().to_string())
}

async fn many_readers_and_writers_exclude_each_other(harness: Harness) {
    let (peer, name) = (Arc::new(harness.peer("").await), harness.name("rw"));
    let [writer, reader] = ["write", "read"].map(|kind| (kind, Arc::clone(&peer), name.clone()));
    let write = move |tally: Tally| {
        let (kind, peer, name) = writer.clone();
        async move { hold(&thread_of_this_task(&peer), kind, &name, tally.write()).await }
    };
    let read = move |tally: Tally| {
        let (kind, peer, name) = reader.clone();
        async move { hold(&thread_of_this_task(&peer), kind, &name, tally.read()).await }
    };
    readers_meet_no_writer(&harness, &name, write, read).await;
}

async fn many_threads_never_exceed_the_permits_of_a_semaphore(harness: Harness) {
    let (peer, name) = (Arc::new(harness.peer("").await), harness.name("semaphore"));
    peer.thread("setter").ok(&format!("semaphore set {name} 3")).await;
    permits_are_never_exceeded(&harness, &format!("crowd semaphore {name}"), 3, {
        let name = name.clone();
        move |_, tally| {
            let (thread, name) = (thread_of_this_task(&peer), name.clone());
            async move {
                thread.ok(&format!("semaphore acquire {name}")).await;
                tally.visit().await;
                thread.ok(&format!("semaphore release {name}")).await;
            }
        }
    })
    .await;
    assert_eq!(harness.server().cli(&["GET", &name]), "3");
}
