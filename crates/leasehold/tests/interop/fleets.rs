//! Java and Rust on the same names while a fleet changes: a slot moves to another master, or the master dies.
//!
//! The hand-overs on a cluster at rest are in the files of the primitives (`masters::`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::client::ShardedPubsub;
use leasehold::{Client, Guard, Lock, ReleaseOutcome};
use leasehold_testkit::fleets::Cluster;
use tokio::task::JoinHandle;

use crate::harness::{Harness, MASTERS, PROMPTLY, Thread, Wait};
use crate::java::Answer;
use crate::lock_commands::{LockCommands, java_hands_over_to_rust, rust_hands_over_to_java};
use crate::support::{channel, eventually, is_free, ms, soon};

/// The lease of a Rust holder on the moved slot. A Java waiter that hears nothing tries again after it.
const LEASE: Duration = ms(4_000);

fn lock_commands(name: &str) -> LockCommands {
    LockCommands::of_lock("lock", name, Some(channel(name)))
}

/// Starts to wait for a lock in Java.
async fn java_waits(harness: &Harness, thread: &Thread, name: &str) -> Answer {
    let watch = harness.watch(name, Wait::Listening(channel(name)));
    let answer = thread.ask(&lock_commands(name).acquire);
    watch.wait_for_waiter().await;
    answer
}

/// Starts to wait for a lock in Rust.
async fn rust_waits(harness: &Harness, lock: Lock, name: &str) -> JoinHandle<Guard> {
    let watch = harness.watch(name, Wait::Listening(channel(name)));
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    watch.wait_for_waiter().await;
    waiter
}

/// Waits until at least this number of clients listens to the lock's channel on the bench's server. A later release wakes them.
async fn listening(harness: &Harness, name: &str, clients: u64) -> Duration {
    let began = Instant::now();
    eventually("the waiters to listen at the new master", || harness.listeners(&channel(name)) >= clients)
        .await;
    began.elapsed()
}

/// The turn of a Rust waiter, which releases at once. Returns the time at which it had the lock.
async fn turn_of_rust(waiter: JoinHandle<Guard>) -> Instant {
    let guard = soon("the turn of Rust", waiter).await.unwrap();
    let got = Instant::now();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    got
}

/// The turn of a Java waiter, as [`turn_of_rust`].
async fn turn_of_java(waiter: Answer, thread: &Thread, name: &str) -> Instant {
    soon("the turn of Java", waiter.ok()).await;
    let got = Instant::now();
    lock_commands(name).release_lock(thread, "").await;
    got
}

/// Checks that a free lock is handed over in both directions.
async fn both_hand_over(harness: &Harness, client: &Client, thread: &Thread, name: &str) {
    let (commands, lock) = (lock_commands(name), client.lock(name));
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(harness, &commands, thread, acquire).await;
    rust_hands_over_to_java(harness, &commands, thread, async { drop(guard) }).await;
    assert!(is_free(harness.server(), name));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_both_sides_get_their_turns_after_their_slot_has_moved() {
    let java = turns_after_a_move(ShardedPubsub::Auto).await;
    // Redisson 4.7.0 does not subscribe again, and its waiter tries when the lease of the last reply has passed.
    assert!(java < LEASE + PROMPTLY, "Java waited {java:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_channels_wake_waiters_of_both_sides_after_their_slot_has_moved() {
    let java = turns_after_a_move(ShardedPubsub::Off).await;
    assert!(java < PROMPTLY, "Java waited {java:?}");
}

/// Moves the slot of a lock for which both sides wait, and then releases the lock. Returns the time until Java's turn.
async fn turns_after_a_move(sharded: ShardedPubsub) -> Duration {
    let cluster = Arc::new(Cluster::start(MASTERS, 0));
    let [old, new] = [0, 1].map(|master| Harness::master_of(&cluster, master, sharded));
    let (holder, client, peer) = (old.client().await, old.client().await, old.peer("").await);
    let (name, thread) = (old.name("order"), peer.thread("a"));
    let [first, second] = [&holder, &client].map(|client| client.lock(&*name).watchdog(LEASE));
    let guard = first.lock().await.unwrap();
    let theirs = java_waits(&old, &thread, &name).await;
    let ours = rust_waits(&old, second, &name).await;

    cluster.move_slot(cluster.slot_of_key(&name), 1);
    let resubscribed = listening(&new, &name, 1).await;
    assert!(guard.is_held() && theirs.is_pending() && !ours.is_finished());
    let released = Instant::now();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    let turns = async { tokio::join!(turn_of_rust(ours), turn_of_java(theirs, &thread, &name)) };
    let (rust, java) = turns.await;
    let (rust, java) = (rust - released, java - released);
    println!("Rust listens {resubscribed:?} after the move, turns after {rust:?} (Rust) and {java:?} (Java)");
    assert!(rust < PROMPTLY, "Rust waited {rust:?}");
    both_hand_over(&new, &client, &thread, &name).await;
    java
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_and_waiters_of_both_sides_follow_a_failover_of_the_sentinels() {
    let mut harness = Harness::sentinels();
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let (holder, waiter) = (peer.thread("holder"), peer.thread("waiter"));
    let (of_java, of_rust) = (harness.name("java"), harness.name("rust"));
    lock_commands(&of_java).take(&holder).await;
    let guard = client.lock(&*of_rust).lock().await.unwrap();
    let ours = rust_waits(&harness, client.lock(&*of_java), &of_java).await;
    let theirs = java_waits(&harness, &waiter, &of_rust).await;

    let longest_failover = kill_the_master(&mut harness, [&of_java, &of_rust]).await;
    let listened_after = listening(&harness, &of_java, 1).await + listening(&harness, &of_rust, 1).await;
    assert!(client.lock(&*of_java).try_lock().await.unwrap().is_none(), "Java holds it");
    assert_eq!(peer.thread("b").ok(&format!("lock try lock {of_rust}")).await, "false", "Rust holds it");
    assert!(guard.is_held() && theirs.is_pending() && !ours.is_finished());

    let released = Instant::now();
    lock_commands(&of_java).release_lock(&holder, "").await;
    let rust = turn_of_rust(ours).await - released;
    let released = Instant::now();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    let java = turn_of_java(theirs, &waiter, &of_rust).await - released;
    println!(
        "failover {longest_failover:?}, both listen {listened_after:?} later, turns {rust:?} and {java:?}"
    );
    assert!(rust.max(java) < PROMPTLY, "Rust waited {rust:?}, Java {java:?}");
    both_hand_over(&harness, &client, &waiter, &harness.name("after")).await;
}

/// Kills the master when its replicas have these keys, and waits until the sentinels have another one. Returns the
/// duration of the failover.
async fn kill_the_master(harness: &mut Harness, keys: [&str; 2]) -> Duration {
    let fleet = harness.fleet();
    let replicas = fleet.replicas();
    let caught_up =
        || keys.iter().all(|key| replicas.iter().all(|&node| !is_free(&fleet.nodes()[node], key)));
    eventually("the replicas to have both holds", caught_up).await;
    let (master, killed) = (fleet.master(), Instant::now());
    fleet.kill(master);
    fleet.wait_until_settled();
    assert_ne!(fleet.master(), master);
    killed.elapsed()
}
