//! Java and Rust on the same names while a fleet changes: a slot moves to another master, or the master dies.
//!
//! The hand-overs on a cluster at rest are in the files of the primitives (`masters::`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::client::ShardedPubsub;
use leasehold::{Client, Guard, Lock, Name, ReleaseOutcome};
use leasehold_testkit::fleets::Cluster;
use tokio::task::JoinHandle;

use crate::harness::{Harness, MASTERS, PROMPTLY, Thread, Wait};
use crate::java::Answer;
use crate::lock_commands::{LockCommands, java_hands_over_to_rust, rust_hands_over_to_java};
use crate::support::{channel, eventually, is_free, ms, soon};

/// The lease of a Rust holder where a Java waiter hears nothing, and tries again after it. Two thirds of it are longer than
/// a hand-over by a wake-up.
const LEASE: Duration = ms(12_000);
/// The lease of a Rust holder where both sides hear of the release.
const LONG_LEASE: Duration = ms(30_000);

fn lock_commands(name: &str) -> LockCommands {
    let channel = if name.contains('{') { format!("redisson_lock__channel:{name}") } else { channel(name) };
    LockCommands::of_lock("lock", name, Some(channel))
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
    let lock = client.lock(Name::raw_redisson(name).unwrap());
    let commands = lock_commands(name);
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(harness, &commands, thread, acquire).await;
    rust_hands_over_to_java(harness, &commands, thread, async { drop(guard) }).await;
    assert!(is_free(harness.server(), name));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_both_sides_get_their_turns_after_their_slot_has_moved() {
    let moved = Moved::start(ShardedPubsub::Auto);
    let (client, peer) = (moved.old.client().await, moved.old.peer("").await);
    let thread = peer.thread("a");
    let java = moved.turns(&client, &thread, LEASE).await;
    // Redisson 4.7.0 does not subscribe again, and its waiter tries when the lease of the last reply has passed.
    assert!(java < LEASE + PROMPTLY, "Java waited {java:?}");
    both_hand_over(&moved.new, &client, &thread, &moved.other_name()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_channels_wake_waiters_of_both_sides_after_their_slot_has_moved() {
    let moved = Moved::start(ShardedPubsub::Off);
    let (client, peer) = (moved.old.client().await, moved.old.peer("").await);
    let java = moved.turns(&client, &peer.thread("a"), LONG_LEASE).await;
    assert!(java < PROMPTLY, "Java waited {java:?}");
}

/// Redisson alone. Its client stays without wake-ups of a sharded channel whose slot has moved, and cannot wait for that
/// name again. Another client can.
#[tokio::test(flavor = "multi_thread")]
async fn a_redisson_client_cannot_wait_again_for_a_name_whose_slot_has_moved() {
    let moved = Moved::start(ShardedPubsub::Auto);
    let (old, new, name, commands) = (&moved.old, &moved.new, &moved.name, lock_commands(&moved.name));
    // The scripts of a Java client fail until its next look at the cluster, 5 s later at most. A lease outlasts that.
    let (holding, waiting) = (old.peer("watchdog=10000").await, old.peer("watchdog=10000").await);
    let (holder, waiter) = (holding.thread("a"), waiting.thread("a"));
    commands.take(&holder).await;
    let theirs = java_waits(old, &waiter, name).await;
    moved.move_slot();
    let asked = Instant::now();
    commands.release_lock(&holder, "").await;
    let released = Instant::now();
    let listeners = new.listeners(&channel(name));
    let waited = turn_of_java(theirs, &waiter, name).await - released;
    println!("Java released in {:?}, its waiter waited {waited:?}, {listeners} listened", released - asked);

    commands.take(&holder).await;
    let failure = waiter.thrown(&commands.acquire).await;
    assert_eq!(failure.class, "RedisTimeoutException", "{}", failure.message);
    let fresh = new.peer("").await;
    let fresh = fresh.thread("a");
    let theirs = java_waits(new, &fresh, name).await;
    let released = Instant::now();
    commands.release_lock(&holder, "").await;
    let waited = turn_of_java(theirs, &fresh, name).await - released;
    assert!(waited < PROMPTLY, "a new client waited {waited:?}");
}

/// A lock whose slot a test moves from one master of its own cluster to another.
struct Moved {
    cluster: Arc<Cluster>,
    old: Harness,
    new: Harness,
    name: String,
}

impl Moved {
    fn start(sharded: ShardedPubsub) -> Self {
        let cluster = Arc::new(Cluster::start(MASTERS, 0));
        let [old, new] = [0, 1].map(|master| Harness::master_of(&cluster, master, sharded));
        let name = old.name("order");
        Self { cluster, old, new, name }
    }

    fn move_slot(&self) {
        self.cluster.move_slot(self.cluster.slot_of_key(&self.name), 1);
    }

    /// Another name in the same slot.
    fn other_name(&self) -> String {
        format!("{{{}}}:other", self.name)
    }

    /// Moves the slot while both sides wait for the lock, and then releases the lock. Returns the time until Java's
    /// turn.
    async fn turns(&self, client: &Client, thread: &Thread, lease: Duration) -> Duration {
        let (name, holder) = (&*self.name, self.old.client().await);
        let [first, second] = [&holder, client].map(|client| client.lock(name).watchdog(lease));
        let guard = first.lock().await.unwrap();
        let theirs = java_waits(&self.old, thread, name).await;
        let ours = rust_waits(&self.old, second, name).await;

        self.move_slot();
        let resubscribed = listening(&self.new, name, 1).await;
        assert!(guard.is_held() && theirs.is_pending() && !ours.is_finished());
        let released = Instant::now();
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        let (rust, java) = tokio::join!(turn_of_rust(ours), turn_of_java(theirs, thread, name));
        let (rust, java) = (rust - released, java - released);
        println!(
            "the first listens {resubscribed:?} after the move, turns after {rust:?} (Rust) and {java:?} (Java)"
        );
        assert!(rust < PROMPTLY, "Rust waited {rust:?}");
        java
    }
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
