//! The fair lock and Redisson's, which stand in one queue.

use leasehold::Released;

use crate::bench::{Bench, on_each_server};
use crate::crowd::counts_exactly;
use crate::support::{channel, eventually, is_free, soon};
use crate::turns::{Turns, java_hands_over_to_rust, rust_hands_over_to_java};

on_each_server! {
    a_fair_lock_is_handed_over_in_both_directions,
    waiters_of_both_sides_are_served_in_the_order_in_which_they_came,
    java_threads_and_rust_tasks_on_one_fair_lock_lose_no_count,
}

/// A fair lock, whose waiters each have a channel that begins with that of the lock.
pub(crate) fn turns(name: &str) -> Turns {
    Turns::of_lock("fair", name, Some(channel(name)))
}

/// Waits until so many stand in line.
pub(crate) async fn queued(bench: &Bench, name: &str, length: usize) {
    let queue = format!("redisson_lock_queue:{{{name}}}");
    let has = || bench.server().cli(&["LLEN", &queue]) == length.to_string();
    eventually("the waiters to be in the queue", has).await;
}

async fn a_fair_lock_is_handed_over_in_both_directions(bench: Bench) {
    let (client, peer, name) = (bench.client().await, bench.peer("").await, bench.name("order"));
    let lock = client.fair_lock(&*name);
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&bench, &turns(&name), &peer.thread("a"), acquire).await;
    rust_hands_over_to_java(&bench, &turns(&name), &peer.thread("a"), async { drop(guard) }).await;
}

async fn waiters_of_both_sides_are_served_in_the_order_in_which_they_came(bench: Bench) {
    let (peer, name) = (bench.peer("").await, bench.name("order"));
    let queue = format!("redisson_lock_queue:{{{name}}}");
    let queued = async |length| queued(&bench, &name, length).await;
    let holder = peer.thread("holder");
    turns(&name).take(&holder).await;

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..2 {
        let client = bench.client().await;
        let lock = client.fair_lock(&*name);
        ours.push((client, tokio::spawn(async move { lock.lock().await.unwrap() })));
        queued(2 * round + 1).await;
        let thread = peer.thread(&format!("waiter-{round}"));
        let answer = thread.ask(&turns(&name).acquire);
        theirs.push((thread, answer));
        queued(2 * round + 2).await;
    }

    turns(&name).give_back(&holder, "").await;
    for (place, ((_client, waiter), (thread, answer))) in ours.into_iter().zip(theirs).enumerate() {
        let guard = soon("the turn of Rust", waiter).await.unwrap();
        assert!(answer.is_pending(), "Java's turn {place} is next");
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        soon("the turn of Java", answer.ok()).await;
        queued(2 - 2 * place).await;
        turns(&name).give_back(&thread, "").await;
    }
    assert!(is_free(bench.server(), &name));
    assert!(is_free(bench.server(), &queue));
}

async fn java_threads_and_rust_tasks_on_one_fair_lock_lose_no_count(bench: Bench) {
    let clients = [bench.client().await, bench.client().await];
    let name = bench.name("order");
    let locks = clients.each_ref().map(|client| client.fair_lock(&*name));
    counts_exactly(&bench, &format!("crowd lock fair {name}"), move |client, tally| {
        let lock = locks[client].clone();
        async move {
            let guard = lock.lock().await.unwrap();
            tally.count().await;
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        }
    })
    .await;
}
