//! The fenced lock and Redisson's `RFencedLock`, which draw their tokens from one counter.

use leasehold::ReleaseOutcome;
use leasehold::lock::Tokens;

use crate::crowd::counts_exactly;
use crate::harness::{Harness, on_each_server};
use crate::lock_commands::{LockCommands, java_hands_over_to_rust, rust_hands_over_to_java};
use crate::support::{channel, eventually, is_free, soon};

on_each_server! {
    a_fenced_lock_is_handed_over_in_both_directions_with_increasing_tokens,
    a_leased_java_multi_lock_restarts_counted_but_not_hybrid_tokens,
    java_threads_and_rust_tasks_count_exactly_under_increasing_tokens,
}

async fn a_fenced_lock_is_handed_over_in_both_directions_with_increasing_tokens(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (lock, thread) = (client.fenced_lock(&*name), peer.thread("a"));
    let mut lock_commands = LockCommands::of_lock("fenced", &name, Some(channel(&name)));
    lock_commands.acquire = format!("lock acquire-token fenced {name}");
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&harness, &lock_commands, &thread, acquire).await;
    let token = thread.number(&format!("lock token fenced {name}")).await;
    assert_eq!((guard.token(), token), (2, 2), "the first was Java's");

    rust_hands_over_to_java(&harness, &lock_commands, &thread, async { drop(guard) }).await;
    assert_eq!(client.fenced_lock(&*name).lock().await.unwrap().token(), 4);
}

/// Redisson sets an expiry on the keys of every member, including the token counter. This is why the rules for mixed
/// fleets keep fenced locks out of Java multi-locks with a lease, or require hybrid tokens.
async fn a_leased_java_multi_lock_restarts_counted_but_not_hybrid_tokens(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    for tokens in [Tokens::Counter, Tokens::Hybrid] {
        let name = harness.name("order");
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
        eventually("the number to be gone", || is_free(harness.server(), &number)).await;
        let after = soon("the end of Java's lease", lock.lock()).await.unwrap().token();
        assert_eq!((tokens, after > before), (tokens, tokens == Tokens::Hybrid), "{after} after {before}");
    }
}

async fn java_threads_and_rust_tasks_count_exactly_under_increasing_tokens(harness: Harness) {
    let name = harness.name("order");
    counts_exactly(
        &harness,
        &format!("crowd lock fenced {name}"),
        |client| client.fenced_lock(&*name),
        |lock, tally| async move {
            let guard = lock.lock().await.unwrap();
            tally.count().await;
            tally.note(guard.token()).await;
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        },
    )
    .await;
}
