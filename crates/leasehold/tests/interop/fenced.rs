//! The fenced lock and Redisson's `RFencedLock`, which draw their tokens from one counter.

use leasehold::ReleaseOutcome;
use leasehold::lock::Tokens;

use crate::bench::{Bench, on_each_server};
use crate::crowd::counts_exactly;
use crate::support::{channel, eventually, is_free, soon};
use crate::turns::{Turns, java_hands_over_to_rust, rust_hands_over_to_java};

on_each_server! {
    a_fenced_lock_is_handed_over_in_both_directions_with_tokens_that_grow,
    a_java_multi_lock_with_a_lease_has_counted_tokens_begin_anew_and_hybrid_ones_go_on,
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

/// Redisson sets an expiry on the keys of every member, including the token counter. This is why the rules for mixed
/// fleets keep fenced locks out of Java multi-locks with a lease, or require hybrid tokens.
async fn a_java_multi_lock_with_a_lease_has_counted_tokens_begin_anew_and_hybrid_ones_go_on(bench: Bench) {
    let (client, peer) = (bench.client().await, bench.peer("").await);
    for tokens in [Tokens::Counter, Tokens::Hybrid] {
        let name = bench.name("order");
        let lock = client.fenced_lock(&*name).tokens(tokens);
        let mut before = 0;
        for _ in 0..2 {
            let guard = lock.lock().await.unwrap();
            before = guard.token();
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        }
        let set = format!("lock acquire multi fenced:{name} wait=1000 lease=500");
        assert_eq!(peer.thread("a").ok(&set).await, "true");
        let number = format!("redisson_lock_token:{{{name}}}");
        eventually("the number to be gone", || is_free(bench.server(), &number)).await;
        let after = soon("the end of Java's lease", lock.lock()).await.unwrap().token();
        assert_eq!((tokens, after > before), (tokens, tokens == Tokens::Hybrid), "{after} after {before}");
    }
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
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        }
    })
    .await;
}
