//! The fair queue with waiters of both sides. The order holds, and the queue survives waiters that leave.

use std::time::{Duration, Instant};

use leasehold::{Client, ReleaseOutcome};

use crate::child::ChildProcess;
use crate::fair::{lock_commands, queued};
use crate::harness::{Harness, on_each_server};
use crate::support::{connect, ms, pttl, soon};

on_each_server! {
    a_queue_left_to_java_does_not_expire,
    a_java_wait_of_ten_minutes_does_not_remove_a_rust_waiter,
    the_next_rust_attempt_removes_a_dead_rust_waiter_behind_java,
}

fn keys(name: &str) -> [String; 2] {
    ["redisson_lock_queue", "redisson_lock_timeout"].map(|prefix| format!("{prefix}:{{{name}}}"))
}

/// Waits for the lock in a task of its own, without a deadline.
fn wait(client: &Client, name: &str) -> tokio::task::JoinHandle<leasehold::Guard> {
    let lock = client.fair_lock(name);
    tokio::spawn(async move { lock.lock().await.unwrap() })
}

async fn a_queue_left_to_java_does_not_expire(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let held = client.fair_lock(&*name).lock().await.unwrap();
    let ours = wait(&harness.client().await, &name);
    queued(&harness, &name, 1).await;
    let java = peer.thread("a").ask(&lock_commands(&name).acquire);
    queued(&harness, &name, 2).await;
    held.release().await.unwrap();
    let guard = soon("our turn", ours).await.unwrap();
    queued(&harness, &name, 1).await;
    for key in keys(&name) {
        assert_eq!(pttl(harness.server(), &key), -1, "{key} stays for Java");
    }
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    soon("Java's turn", java.ok()).await;
    lock_commands(&name).release_lock(&peer.thread("a"), "").await;
}

async fn a_java_wait_of_ten_minutes_does_not_remove_a_rust_waiter(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (holder, java) = (peer.thread("holder"), peer.thread("a"));
    lock_commands(&name).take(&holder).await;
    let long = java.ask(&format!("{} wait=600000", lock_commands(&name).acquire));
    queued(&harness, &name, 1).await;
    let ours = wait(&client, &name);
    queued(&harness, &name, 2).await;
    let [queue, timeout] = keys(&name);
    let place = harness.server().cli(&["LINDEX", &queue, "1"]);

    lock_commands(&name).release_lock(&holder, "").await;
    assert_eq!(soon("Java's turn", long.ok()).await, "true");
    // Redisson lowered this waiter's deadline at the hand-over. If the deadline were over, each script of Redisson
    // would remove the waiter from the queue.
    let score: f64 = harness.server().cli(&["ZSCORE", &timeout, &place]).parse().unwrap();
    let now = harness.server().cli(&["TIME"]).lines().next().unwrap().parse::<f64>().unwrap() * 1_000.0;
    assert!(score > now + 1_000.0, "Redisson counts us as alive for {} ms", score - now);
    assert_eq!(peer.thread("b").ok(&format!("lock try fair {name}")).await, "false");
    assert_eq!(harness.server().cli(&["LINDEX", &queue, "0"]), place, "we stand where we stood");
    lock_commands(&name).release_lock(&java, "").await;
    assert_eq!(soon("our turn", ours).await.unwrap().release().await.unwrap(), ReleaseOutcome::Released);
}

/// The dead waiter would stay for most of five minutes with Java alone, because its deadline has to outlast a wait of
/// unknown length.
async fn the_next_rust_attempt_removes_a_dead_rust_waiter_behind_java(harness: Harness) {
    const GONE_AFTER: Duration = ms(5_000);
    let (peer, name) = (harness.peer("").await, harness.name("order"));
    let (holder, java) = (peer.thread("holder"), peer.thread("a"));
    lock_commands(&name).take(&holder).await;
    let short = java.ask(&format!("{} wait=20000", lock_commands(&name).acquire));
    queued(&harness, &name, 1).await;
    let mut dead =
        ChildProcess::start("fair_deaths::a_process_that_waits_until_it_is_killed", &harness.url(), &name);
    queued(&harness, &name, 2).await;
    dead.kill();
    let killed = Instant::now();
    let behind = peer.thread("behind").ask(&lock_commands(&name).acquire);
    queued(&harness, &name, 3).await;
    lock_commands(&name).release_lock(&holder, "").await;
    assert_eq!(soon("Java's turn", short.ok()).await, "true");
    lock_commands(&name).release_lock(&java, "").await;
    // Any Rust client is enough, even a client that does not wait.
    let passer_by = connect(harness.server()).await;
    while harness.server().cli(&["EXISTS", &name]) == "0" {
        assert!(passer_by.fair_lock(&*name).try_lock().await.unwrap().is_none(), "Java is the next");
        assert!(killed.elapsed() < 2 * GONE_AFTER, "the dead one is passed by in seconds");
        tokio::task::yield_now().await;
    }
    soon("the turn behind the dead one", behind.ok()).await;
}
