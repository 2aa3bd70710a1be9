//! The spin lock and Redisson's, whose waiters poll repeatedly.

use leasehold::ReleaseOutcome;

use crate::bench::{Bench, on_each_server};
use crate::crowd::counts_exactly;
use crate::turns::{Turns, java_hands_over_to_rust, rust_hands_over_to_java};

on_each_server! {
    a_spin_lock_is_handed_over_in_both_directions,
    java_threads_and_rust_tasks_on_one_spin_lock_lose_no_count,
}

async fn a_spin_lock_is_handed_over_in_both_directions(bench: Bench) {
    let (client, peer, name) = (bench.client().await, bench.peer("").await, bench.name("order"));
    let (lock, turns) = (client.spin_lock(&*name), Turns::of_lock("spin", &name, None));
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&bench, &turns, &peer.thread("a"), acquire).await;
    rust_hands_over_to_java(&bench, &turns, &peer.thread("a"), async { drop(guard) }).await;
}

async fn java_threads_and_rust_tasks_on_one_spin_lock_lose_no_count(bench: Bench) {
    let clients = [bench.client().await, bench.client().await];
    let name = bench.name("order");
    let locks = clients.each_ref().map(|client| client.spin_lock(&*name));
    counts_exactly(&bench, &format!("crowd lock spin {name}"), move |client, tally| {
        let lock = locks[client].clone();
        async move {
            let guard = lock.lock().await.unwrap();
            tally.count().await;
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        }
    })
    .await;
}
