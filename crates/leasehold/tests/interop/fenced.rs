//! The fenced lock and Redisson's `RFencedLock`, which draw their tokens from one number.

use leasehold::Released;

use crate::bench::{Bench, on_each_server};
use crate::crowd::counts_exactly;
use crate::support::channel;
use crate::turns::{Turns, java_hands_over_to_rust, rust_hands_over_to_java};

on_each_server! {
    a_fenced_lock_is_handed_over_in_both_directions_with_tokens_that_grow,
    java_threads_and_rust_tasks_on_one_fenced_lock_lose_no_count_and_their_tokens_only_grow,
}

async fn a_fenced_lock_is_handed_over_in_both_directions_with_tokens_that_grow(bench: Bench) {
    let (client, peer, name) = (bench.client().await, bench.peer("").await, bench.name("order"));
    let (lock, thread) = (client.fenced_lock(&*name), peer.thread("a"));
    let mut turns = Turns::of_lock("fenced", &name, Some(channel(&name)));
    turns.acquire = format!("lock acquire-token fenced {name}");
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&bench, &turns, &thread, acquire).await;
    let token = thread.number(&format!("lock token fenced {name}")).await;
    assert_eq!((guard.token(), token), (2, 2), "the first was Java's");

    rust_hands_over_to_java(&bench, &turns, &thread, async { drop(guard) }).await;
    assert_eq!(client.fenced_lock(&*name).lock().await.unwrap().token(), 4);
}

async fn java_threads_and_rust_tasks_on_one_fenced_lock_lose_no_count_and_their_tokens_only_grow(
    bench: Bench,
) {
    let clients = [bench.client().await, bench.client().await];
    let name = bench.name("order");
    let locks = clients.each_ref().map(|client| client.fenced_lock(&*name));
    counts_exactly(&bench, &format!("crowd lock fenced {name}"), move |client, tally| {
        let lock = locks[client].clone();
        async move {
            let guard = lock.lock().await.unwrap();
            tally.count().await;
            tally.note(guard.token()).await;
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        }
    })
    .await;
}
