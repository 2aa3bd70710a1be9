//! The fair queue with waiters of both sides. The order holds, and the queue survives waiters that leave.

use std::time::{Duration, Instant};

use leasehold::{Client, ReleaseOutcome};

use crate::bench::{Bench, on_each_server};
use crate::cast::Cast;
use crate::fair::{queued, turns};
use crate::support::{connect, ms, pttl, soon};

on_each_server! {
    a_queue_that_we_leave_to_java_does_not_expire,
    a_java_wait_of_ten_minutes_does_not_throw_us_out,
    a_dead_waiter_of_ours_behind_java_goes_with_the_next_question_of_ours,
}

fn keys(name: &str) -> [String; 2] {
    ["redisson_lock_queue", "redisson_lock_timeout"].map(|prefix| format!("{prefix}:{{{name}}}"))
}

/// Waits for the lock in a task of its own, without a deadline.
fn wait(client: &Client, name: &str) -> tokio::task::JoinHandle<leasehold::Guard> {
    let lock = client.fair_lock(name);
    tokio::spawn(async move { lock.lock().await.unwrap() })
}

async fn a_queue_that_we_leave_to_java_does_not_expire(bench: Bench) {
    let (client, peer, name) = (bench.client().await, bench.peer("").await, bench.name("order"));
    let held = client.fair_lock(&*name).lock().await.unwrap();
    let ours = wait(&bench.client().await, &name);
    queued(&bench, &name, 1).await;
    let java = peer.thread("a").ask(&turns(&name).acquire);
    queued(&bench, &name, 2).await;
    held.release().await.unwrap();
    let guard = soon("our turn", ours).await.unwrap();
    queued(&bench, &name, 1).await;
    for key in keys(&name) {
        assert_eq!(pttl(bench.server(), &key), -1, "{key} stays for Java");
    }
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    soon("Java's turn", java.ok()).await;
    turns(&name).give_back(&peer.thread("a"), "").await;
}

async fn a_java_wait_of_ten_minutes_does_not_throw_us_out(bench: Bench) {
    let (client, peer, name) = (bench.client().await, bench.peer("").await, bench.name("order"));
    let (holder, java) = (peer.thread("holder"), peer.thread("a"));
    turns(&name).take(&holder).await;
    let long = java.ask(&format!("{} wait=600000", turns(&name).acquire));
    queued(&bench, &name, 1).await;
    let ours = wait(&client, &name);
    queued(&bench, &name, 2).await;
    let [queue, timeout] = keys(&name);
    let place = bench.server().cli(&["LINDEX", &queue, "1"]);

    turns(&name).give_back(&holder, "").await;
    assert_eq!(soon("Java's turn", long.ok()).await, "true");
    // Redisson lowered this waiter's deadline at the hand-over. If the deadline were over, each script of Redisson
    // would remove the waiter from the queue.
    let score: f64 = bench.server().cli(&["ZSCORE", &timeout, &place]).parse().unwrap();
    let now = bench.server().cli(&["TIME"]).lines().next().unwrap().parse::<f64>().unwrap() * 1_000.0;
    assert!(score > now + 1_000.0, "Redisson counts us as alive for {} ms", score - now);
    assert_eq!(peer.thread("b").ok(&format!("lock try fair {name}")).await, "false");
    assert_eq!(bench.server().cli(&["LINDEX", &queue, "0"]), place, "we stand where we stood");
    turns(&name).give_back(&java, "").await;
    assert_eq!(soon("our turn", ours).await.unwrap().release().await.unwrap(), ReleaseOutcome::Released);
}

/// The dead waiter would stay for most of five minutes with Java alone, because its deadline has to outlast a wait of
/// unknown length.
async fn a_dead_waiter_of_ours_behind_java_goes_with_the_next_question_of_ours(bench: Bench) {
    const GONE_AFTER: Duration = ms(5_000);
    let (peer, name) = (bench.peer("").await, bench.name("order"));
    let (holder, java) = (peer.thread("holder"), peer.thread("a"));
    turns(&name).take(&holder).await;
    let short = java.ask(&format!("{} wait=20000", turns(&name).acquire));
    queued(&bench, &name, 1).await;
    let mut dead = Cast::start("fair_deaths::a_process_that_waits_until_it_is_killed", &bench.url(), &name);
    queued(&bench, &name, 2).await;
    dead.kill();
    let killed = Instant::now();
    let behind = peer.thread("behind").ask(&turns(&name).acquire);
    queued(&bench, &name, 3).await;
    turns(&name).give_back(&holder, "").await;
    assert_eq!(soon("Java's turn", short.ok()).await, "true");
    turns(&name).give_back(&java, "").await;
    // Any Rust client is enough, even a client that does not wait.
    let passer_by = connect(bench.server()).await;
    while bench.server().cli(&["EXISTS", &name]) == "0" {
        assert!(passer_by.fair_lock(&*name).try_lock().await.unwrap().is_none(), "Java is the next");
        assert!(killed.elapsed() < 2 * GONE_AFTER, "the dead one is passed by in seconds");
        tokio::task::yield_now().await;
    }
    soon("the turn behind the dead one", behind.ok()).await;
}
