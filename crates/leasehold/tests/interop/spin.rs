//! The spin lock and Redisson's, whose waiters poll repeatedly.

use crate::crowd::holders_count_exactly;
use crate::harness::{Harness, on_each_server};
use crate::lock_commands::{LockCommands, java_hands_over_to_rust, rust_hands_over_to_java};

on_each_server! {
    a_spin_lock_is_handed_over_in_both_directions,
    java_threads_and_rust_tasks_count_exactly_under_a_spin_lock,
}

async fn a_spin_lock_is_handed_over_in_both_directions(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (lock, lock_commands) = (client.spin_lock(&*name), LockCommands::of_lock("spin", &name, None));
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&harness, &lock_commands, &peer.thread("a"), acquire).await;
    rust_hands_over_to_java(&harness, &lock_commands, &peer.thread("a"), async { drop(guard) }).await;
}

async fn java_threads_and_rust_tasks_count_exactly_under_a_spin_lock(harness: Harness) {
    let name = harness.name("order");
    holders_count_exactly(&harness, ("spin", &name), |client| client.spin_lock(&*name)).await;
}
