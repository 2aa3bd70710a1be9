//! The reentrant lock and Redisson's `RLock`.

use std::time::{Duration, Instant};

use leasehold::client::ShardedPubsub;
use leasehold::{LostReason, Name, ReleaseOutcome};

use crate::crowd::holders_count_exactly;
use crate::harness::{Harness, PROMPTLY, on_each_master, on_each_server};
use crate::java::Java;
use crate::lock_commands::{LockCommands, java_hands_over_to_rust, rust_hands_over_to_java};
use crate::support::{a_lease_passes, channel, count, fields, is_free, ms, pttl, soon};

/// The exception of `RLock.unlock` on a thread that does not hold the lock.
const NOT_THE_HOLDER: &str = "IllegalMonitorStateException";
/// Redisson's default lease, and leasehold's.
const LEASE: Duration = ms(30_000);
const SHORT_LEASE: Duration = ms(1_500);

on_each_server! {
    java_hands_a_released_lock_over_to_rust_by_a_wake_up,
    rust_hands_a_released_lock_over_to_java_by_a_wake_up,
    a_name_with_braces_is_handed_over_in_both_directions,
    javas_non_reentrant_lock_is_handed_over_in_both_directions,
    java_threads_and_rust_tasks_count_exactly_under_one_lock,
    java_sees_a_rust_hold_and_can_neither_acquire_nor_release_it,
    rust_sees_a_java_hold_and_cannot_acquire_it,
    java_cannot_re_enter_a_rust_hold,
    a_re_entered_java_hold_lasts_until_its_second_release,
    both_watchdogs_renew_their_holds_for_several_leases,
    a_java_forced_unlock_resolves_lost_as_deleted,
    a_java_take_over_after_a_forced_unlock_resolves_lost_as_taken_over,
    a_rust_forced_unlock_wakes_java_and_fails_the_java_holders_release,
    a_late_java_release_throws_and_does_not_affect_the_rust_hold,
    a_late_rust_release_does_not_affect_the_java_hold,
}

on_each_master! {
    java_hands_a_released_lock_over_to_rust_by_a_wake_up,
    rust_hands_a_released_lock_over_to_java_by_a_wake_up,
}

/// The configuration for fleets without sharded channels, where a message on the wrong kind of channel reaches no
/// waiter.
#[tokio::test]
async fn a_cluster_without_sharded_channels_is_handed_over_on_in_both_directions() {
    let harness = Harness::cluster_with(Java::shared(), ShardedPubsub::Off);
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let lock = client.lock(&*name);
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&harness, &lock_commands(&name), &peer.thread("a"), acquire).await;
    rust_hands_over_to_java(&harness, &lock_commands(&name), &peer.thread("a"), async { drop(guard) }).await;
}

/// Redisson's plain lock.
fn lock_commands(name: &str) -> LockCommands {
    LockCommands::of_lock("lock", name, Some(channel(name)))
}

async fn java_hands_a_released_lock_over_to_rust_by_a_wake_up(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let lock = client.lock(&*name);
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&harness, &lock_commands(&name), &peer.thread("a"), acquire).await;
    assert_eq!(fields(harness.server(), &name).into_keys().next(), Some(guard.wire_owner().to_string()));
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
}

async fn rust_hands_a_released_lock_over_to_java_by_a_wake_up(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    for released in [true, false] {
        let guard = client.lock(&*name).lock().await.unwrap();
        let release_lock = async move {
            if released {
                assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
            } else {
                drop(guard);
            }
        };
        rust_hands_over_to_java(&harness, &lock_commands(&name), &peer.thread("a"), release_lock).await;
    }
}

async fn a_name_with_braces_is_handed_over_in_both_directions(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let name = format!("{{{}}}:abc:key", harness.name("order"));
    let lock_commands = LockCommands::of_lock("lock", &name, Some(format!("redisson_lock__channel:{name}")));
    let lock = client.lock(Name::raw_redisson(&name).unwrap());
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&harness, &lock_commands, &peer.thread("a"), acquire).await;
    rust_hands_over_to_java(&harness, &lock_commands, &peer.thread("a"), async { drop(guard) }).await;
}

/// On the wire this lock equals the reentrant lock, but its holder acquires only once.
async fn javas_non_reentrant_lock_is_handed_over_in_both_directions(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (lock, thread) = (client.lock(&*name).non_reentrant(), peer.thread("a"));
    let lock_commands = LockCommands::of_lock("nonreentrant", &name, Some(channel(&name)));
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&harness, &lock_commands, &thread, acquire).await;
    assert_eq!(thread.ok(&format!("lock try nonreentrant {name}")).await, "false", "it is another's");
    rust_hands_over_to_java(&harness, &lock_commands, &thread, async { drop(guard) }).await;
}

async fn java_threads_and_rust_tasks_count_exactly_under_one_lock(harness: Harness) {
    let name = harness.name("order");
    holders_count_exactly(&harness, ("lock", &name), |client| client.lock(&*name)).await;
    assert!(is_free(harness.server(), &name));
}

async fn java_sees_a_rust_hold_and_can_neither_acquire_nor_release_it(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let thread = peer.thread("a");
    let guard = client.lock(&*name).lease(ms(20_000)).lock().await.unwrap();
    assert_eq!(thread.ok(&format!("lock locked lock {name}")).await, "true");
    assert_eq!(thread.ok(&format!("lock held lock {name}")).await, "false");
    assert_eq!(thread.number(&format!("lock count lock {name}")).await, 0);
    let remaining = thread.number(&format!("lock remaining lock {name}")).await;
    assert!((1..=20_000).contains(&remaining), "{remaining}");

    assert_eq!(thread.ok(&format!("lock try lock {name}")).await, "false");
    assert_eq!(thread.ok(&format!("lock acquire lock {name} wait=200")).await, "false");
    assert_eq!(thread.thrown(&format!("lock release lock {name}")).await.class, NOT_THE_HOLDER);
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);

    assert_eq!(thread.ok(&format!("lock locked lock {name}")).await, "false");
    assert_eq!(thread.number(&format!("lock remaining lock {name}")).await, -2);
    assert_eq!(thread.ok(&format!("lock try lock {name}")).await, "true");
}

async fn rust_sees_a_java_hold_and_cannot_acquire_it(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (lock, thread) = (client.lock(&*name), peer.thread("a"));
    assert_eq!(thread.ok(&format!("lock try lock {name} lease=20000")).await, "true");
    assert!(lock.is_locked().await.unwrap());
    let remaining = lock.remaining().await.unwrap().unwrap();
    assert!(remaining > ms(0) && remaining <= ms(20_000), "{remaining:?}");
    assert_eq!(lock.hold_count(&client.owner()).await.unwrap(), 0);
    let owner = thread.wire_owner().await;
    assert_eq!(fields(harness.server(), &name), [(owner, "1".to_owned())].into());

    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(lock.try_lock_for(ms(200)).await.unwrap().is_none());
    thread.ok(&format!("lock release lock {name}")).await;
    assert!(!lock.is_locked().await.unwrap());
    assert!(lock.try_lock().await.unwrap().is_some());
}

async fn java_cannot_re_enter_a_rust_hold(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let lock = client.lock(&*name).owned_by(&client.owner());
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    assert_eq!(count(harness.server(), &name), 2);
    let thread = peer.thread("a");
    assert_eq!(thread.ok(&format!("lock try lock {name}")).await, "false");
    inner.release().await.unwrap();
    assert_eq!(count(harness.server(), &name), 1);
    assert_eq!(thread.ok(&format!("lock try lock {name}")).await, "false");
    outer.release().await.unwrap();
    assert_eq!(thread.ok(&format!("lock try lock {name}")).await, "true");
}

async fn a_re_entered_java_hold_lasts_until_its_second_release(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (lock, thread) = (client.lock(&*name), peer.thread("a"));
    lock_commands(&name).take(&thread).await;
    lock_commands(&name).take(&thread).await;
    assert_eq!(thread.number(&format!("lock count lock {name}")).await, 2);
    assert_eq!(count(harness.server(), &name), 2);
    lock_commands(&name).release_lock(&thread, "").await;
    assert_eq!(thread.ok(&format!("lock held lock {name}")).await, "true");
    assert!(lock.try_lock().await.unwrap().is_none());
    lock_commands(&name).release_lock(&thread, "").await;
    assert!(lock.try_lock().await.unwrap().is_some());
}

async fn both_watchdogs_renew_their_holds_for_several_leases(harness: Harness) {
    let client = harness.client().await;
    let peer = harness.peer(&format!("watchdog={}", SHORT_LEASE.as_millis())).await;
    let (ours, theirs) = (harness.name("ours"), harness.name("theirs"));
    let guard = client.lock(&*ours).watchdog(SHORT_LEASE).lock().await.unwrap();
    let thread = peer.thread("a");
    assert_eq!(thread.ok(&format!("lock acquire lock {theirs}")).await, "true");
    assert!(pttl(harness.server(), &theirs) <= 1_500, "it is the short lease that is kept");

    a_lease_passes(harness.server(), 3 * SHORT_LEASE).await;
    assert!(guard.is_held());
    assert_eq!(thread.ok(&format!("lock try lock {ours}")).await, "false");
    assert!(client.lock(&*theirs).try_lock().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    thread.ok(&format!("lock release lock {theirs}")).await;
}

async fn a_java_forced_unlock_resolves_lost_as_deleted(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let guard = client.lock(&*name).watchdog(SHORT_LEASE).lock().await.unwrap();
    assert_eq!(peer.thread("a").ok(&format!("lock force lock {name}")).await, "true");
    let forced = Instant::now();
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::Deleted);
    assert!(forced.elapsed() < SHORT_LEASE, "it was seen by a renewal, and took {:?}", forced.elapsed());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
}

async fn a_java_take_over_after_a_forced_unlock_resolves_lost_as_taken_over(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let thread = peer.thread("a");
    let guard = client.lock(&*name).watchdog(SHORT_LEASE).lock().await.unwrap();
    let waiter = thread.ask(&format!("lock acquire lock {name}"));
    assert_eq!(peer.thread("b").ok(&format!("lock force lock {name}")).await, "true");
    soon("the lock that was forced free", waiter.ok()).await;
    let reason = soon("the loss", guard.lost()).await;
    // A renewal may have run between the forced unlock and the waiter's acquire.
    assert!([LostReason::TakenOver, LostReason::Deleted].contains(&reason), "{reason:?}");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
    assert_eq!(thread.ok(&format!("lock held lock {name}")).await, "true");
}

async fn a_rust_forced_unlock_wakes_java_and_fails_the_java_holders_release(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (holder, lock) = (peer.thread("holder"), client.lock(&*name));
    lock_commands(&name).take(&holder).await;
    let force = async {
        assert!(lock.force_unlock().await.unwrap());
    };
    rust_hands_over_to_java(&harness, &lock_commands(&name), &peer.thread("waiter"), force).await;
    assert_eq!(holder.thrown(&format!("lock release lock {name}")).await.class, NOT_THE_HOLDER);
}

async fn a_late_java_release_throws_and_does_not_affect_the_rust_hold(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let thread = peer.thread("late");
    assert_eq!(thread.ok(&format!("lock try lock {name} lease=300")).await, "true");
    let asked = Instant::now();
    let guard = soon("the end of Java's lease", client.lock(&*name).lock()).await.unwrap();
    assert!(asked.elapsed() < PROMPTLY, "it took {:?}", asked.elapsed());
    assert_eq!(thread.thrown(&format!("lock release lock {name}")).await.class, NOT_THE_HOLDER);
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
}

async fn a_late_rust_release_does_not_affect_the_java_hold(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let thread = peer.thread("a");
    let guard = client.lock(&*name).lease(ms(300)).lock().await.unwrap();
    lock_commands(&name).take(&thread).await;
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
    assert_eq!(thread.ok(&format!("lock held lock {name}")).await, "true");
    let left = pttl(harness.server(), &name);
    assert!(left > 20_000 && left <= i64::try_from(LEASE.as_millis()).unwrap(), "{left}");
}
