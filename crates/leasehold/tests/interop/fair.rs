//! The fair lock and Redisson's, whose waiters share one queue.

use std::time::Instant;

use leasehold::lock::Fair;
use leasehold::{Guard, Lock, LostReason, ReleaseOutcome};
use leasehold_testkit::servers::Monitor;

use crate::crowd::holders_count_exactly;
use crate::harness::{Harness, PROMPTLY, Thread, on_each_master, on_each_server};
use crate::java::release_is_at_least;
use crate::lock_commands::{LockCommands, rust_hands_over_to_java};
use crate::support::{channel, eventually, is_free, ms, soon};

on_each_server! {
    a_fair_lock_is_handed_over_in_both_directions,
    a_waiter_of_either_side_leaves_the_queue_at_its_timeout,
    a_forced_unlock_by_either_side_hands_the_lock_to_the_head,
    waiters_of_both_sides_are_served_in_arrival_order,
    java_threads_and_rust_tasks_count_exactly_under_a_fair_lock,
}

on_each_master! {
    a_fair_lock_is_handed_over_in_both_directions,
}

/// A fair lock. Each waiter's channel begins with the channel of the lock.
pub(crate) fn lock_commands(name: &str) -> LockCommands {
    LockCommands::of_lock("fair", name, Some(channel(name)))
}

/// Waits until the queue has this length.
pub(crate) async fn queued(harness: &Harness, name: &str, length: usize) {
    let queue = format!("redisson_lock_queue:{{{name}}}");
    let has = || harness.server().cli(&["LLEN", &queue]) == length.to_string();
    eventually("the waiters to be in the queue", has).await;
}

async fn a_fair_lock_is_handed_over_in_both_directions(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    for kind in &["fair", "nonreentrant-fair"][..if release_is_at_least(4, 4) { 2 } else { 1 }] {
        let name = harness.name("order");
        let lock_commands = LockCommands::of_lock(kind, &name, Some(channel(&name)));
        let lock = client.fair_lock(&*name);
        let guard = assert_message_wakes_rust(&harness, &lock_commands, &peer.thread("a"), &lock).await;
        rust_hands_over_to_java(&harness, &lock_commands, &peer.thread("a"), async { drop(guard) }).await;
    }
}

/// Checks that a release by a Java thread wakes a Rust waiter before its next poll, which is due every 1.5 s.
///
/// A machine that stalls for most of that time proves nothing, so the function tries a few times.
async fn assert_message_wakes_rust(
    harness: &Harness,
    lock_commands: &LockCommands,
    thread: &Thread,
    lock: &Lock<Fair>,
) -> Guard {
    for _ in 0..5 {
        lock_commands.take(thread).await;
        let monitor = Monitor::start(harness.server());
        // The times of the waiter's attempts, by the server's clock. Only leasehold uses this key.
        let asked = || -> Vec<f64> {
            let key = format!("\"leasehold_lock_seen:{{{}}}\"", lock_commands.name);
            let lines =
                monitor.lines().into_iter().filter(|line| !line.contains(" lua]") && line.contains(&key));
            lines.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
        };
        let ours = lock.clone();
        let waiter = tokio::spawn(async move { ours.lock().await.unwrap() });
        eventually("our waiter to ask for the second time since it listens", || asked().len() >= 3).await;
        lock_commands.release_lock(thread, "").await;
        let guard = soon("what Java gave back", waiter).await.unwrap();
        let times = asked();
        let [.., before, granted] = times[..] else { panic!("it asked: {times:?}") };
        if granted - before < 1.2 {
            return guard;
        }
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    }
    panic!("no message has woken us, we have only asked");
}

async fn a_waiter_of_either_side_leaves_the_queue_at_its_timeout(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (lock, thread) = (client.fair_lock(&*name), peer.thread("a"));
    let guard = lock.lock().await.unwrap();
    let first = thread.ask(&format!("lock acquire fair {name} wait=1000"));
    queued(&harness, &name, 1).await;
    let ours = lock.clone();
    let second = tokio::spawn(async move { ours.try_lock_for(ms(500)).await.unwrap() });
    queued(&harness, &name, 2).await;
    let last = peer.thread("last").ask(&lock_commands(&name).acquire);
    queued(&harness, &name, 3).await;
    assert!(soon("our waiter to give up", second).await.unwrap().is_none());
    assert_eq!(first.ok().await, "false");
    queued(&harness, &name, 1).await;

    let released = Instant::now();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    soon("the turn of the last", last.ok()).await;
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    assert_eq!(thread.ok(&format!("lock try fair {name}")).await, "false");
    assert!(lock.try_lock().await.unwrap().is_none());
}

async fn a_forced_unlock_by_either_side_hands_the_lock_to_the_head(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (lock, thread) = (client.fair_lock(&*name).watchdog(ms(1_500)), peer.thread("a"));
    let guard = lock.lock().await.unwrap();
    let by_java = async {
        assert_eq!(peer.thread("b").ok(&format!("lock force fair {name}")).await, "true");
    };
    rust_hands_over_to_java(&harness, &lock_commands(&name), &thread, by_java).await;
    let reason = soon("the loss", guard.lost()).await;
    // A renewal may have run while the waiter held the lock.
    assert!([LostReason::TakenOver, LostReason::Deleted].contains(&reason), "{reason:?}");

    lock_commands(&name).take(&thread).await;
    let by_rust = async {
        assert!(lock.force_unlock().await.unwrap());
    };
    rust_hands_over_to_java(&harness, &lock_commands(&name), &peer.thread("b"), by_rust).await;
    // Redisson's fair unlock of a free lock succeeds for any thread.
    lock_commands(&name).release_lock(&thread, "").await;
}

async fn waiters_of_both_sides_are_served_in_arrival_order(harness: Harness) {
    let (peer, name) = (harness.peer("").await, harness.name("order"));
    let queue = format!("redisson_lock_queue:{{{name}}}");
    let queued = async |length| queued(&harness, &name, length).await;
    let holder = peer.thread("holder");
    lock_commands(&name).take(&holder).await;

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..2 {
        let client = harness.client().await;
        let lock = client.fair_lock(&*name);
        ours.push((client, tokio::spawn(async move { lock.lock().await.unwrap() })));
        queued(2 * round + 1).await;
        let thread = peer.thread(&format!("waiter-{round}"));
        let answer = thread.ask(&lock_commands(&name).acquire);
        theirs.push((thread, answer));
        queued(2 * round + 2).await;
    }

    lock_commands(&name).release_lock(&holder, "").await;
    for (place, ((_client, waiter), (thread, answer))) in ours.into_iter().zip(theirs).enumerate() {
        let guard = soon("the turn of Rust", waiter).await.unwrap();
        assert!(answer.is_pending(), "Java's turn {place} is next");
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        soon("the turn of Java", answer.ok()).await;
        queued(2 - 2 * place).await;
        lock_commands(&name).release_lock(&thread, "").await;
    }
    assert!(is_free(harness.server(), &name));
    assert!(is_free(harness.server(), &queue));
}

async fn java_threads_and_rust_tasks_count_exactly_under_a_fair_lock(harness: Harness) {
    let name = harness.name("order");
    holders_count_exactly(&harness, ("fair", &name), |client| client.fair_lock(&*name)).await;
}
