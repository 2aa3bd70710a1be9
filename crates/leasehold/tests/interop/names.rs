//! Names that only Redisson produces, and names of other lock types of Redisson.

use leasehold::error::AcquireErrorKind;
use leasehold::{Name, ReleaseOutcome};

use crate::harness::{Harness, on_each_server};
use crate::java::Java;
use crate::support::soon;

on_each_server! {
    map_key_locks_have_the_names_of_redisson,
    the_lock_of_a_maps_key_excludes_both_sides,
    a_group_of_values_is_another_kind_and_stays_unchanged,
}

async fn map_key_locks_have_the_names_of_redisson(harness: Harness) {
    let peer = harness.peer("").await;
    let thread = peer.thread("a");
    let text = "The-quick-brown-fox-jumps-over-the-lazy-dog-and-then-over-another-one.";
    for length in 1..text.len() {
        let key = &text[..length];
        let theirs = thread.ok(&format!("lock name map-entry prices:{key}")).await;
        assert_eq!(
            Name::redisson_map_entry("prices", key.as_bytes()).lock().unwrap().as_str(),
            theirs,
            "{key}"
        );
    }
    let theirs = thread.ok("lock name map-entry {app}.prices:apple").await;
    assert_eq!(Name::redisson_map_entry("{app}.prices", b"apple").lock().unwrap().as_str(), theirs);
}

async fn the_lock_of_a_maps_key_excludes_both_sides(harness: Harness) {
    let (client, peer, map) = (harness.client().await, harness.peer("").await, harness.name("prices"));
    let (lock, thread) =
        (client.lock(Name::redisson_map_entry(&map, b"apple").lock().unwrap()), peer.thread("a"));
    let guard = lock.lock().await.unwrap();
    assert_eq!(thread.ok(&format!("lock try map-entry {map}:apple")).await, "false");
    assert_eq!(thread.ok(&format!("lock try map-entry {map}:pear")).await, "true");
    guard.release().await.unwrap();
    assert_eq!(thread.ok(&format!("lock try map-entry {map}:apple")).await, "true");
    assert!(lock.try_lock().await.unwrap().is_none());
}

async fn a_group_of_values_is_another_kind_and_stays_unchanged(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("seats"));
    let (lock, thread) = (client.lock(&*name), peer.thread("a"));
    assert_eq!(thread.ok(&format!("lock acquire group {name}:1+2")).await, "true");
    let refused = lock.try_lock().await.map_err(|error| error.kind);
    assert!(matches!(refused, Err(AcquireErrorKind::OtherKind(_))), "{refused:?}");
    assert!(lock.force_unlock().await.is_err(), "it is another kind");
    assert_eq!(peer.thread("b").ok(&format!("lock try group {name}:2+3")).await, "false");
    thread.ok(&format!("lock release group {name}:1+2")).await;

    // Redisson grants a group while leasehold holds the lock. The group's hold survives the release of the lock.
    let guard = lock.lock().await.unwrap();
    assert_eq!(thread.ok(&format!("lock acquire group {name}:1+2")).await, "true");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(peer.thread("b").ok(&format!("lock try group {name}:2+3")).await, "false");
    thread.ok(&format!("lock release group {name}:1+2")).await;
}

/// The channel and the key have different slots in a cluster, for Redisson too, so this test needs a plain server.
#[tokio::test]
async fn a_latch_with_braces_is_handed_over_in_both_directions() {
    let harness = Harness::plain(Java::shared());
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let name = format!("{{{}}}:parts", harness.name("import"));
    let (latch, thread) = (client.count_down_latch(Name::raw_redisson(&name).unwrap()), peer.thread("a"));
    assert!(latch.try_set_count(1).await.unwrap());
    let java = peer.thread("waiter").ask(&format!("latch await {name}"));
    let ours = latch.clone();
    let rust = tokio::spawn(async move { ours.wait().await });
    let channel = format!("redisson_countdownlatch__channel__{{{name}}}");
    crate::support::eventually("both to listen", || harness.listeners(&channel) == 2).await;
    thread.ok(&format!("latch down {name}")).await;
    assert_eq!(soon("Java", java.ok()).await, "true");
    soon("Rust", rust).await.unwrap().unwrap();
}
