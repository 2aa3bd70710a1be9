//! The semaphore and Redisson's `RSemaphore`, which are one number.

use leasehold::{Guard, ReleaseOutcome, Semaphore};

use crate::crowd::permits_are_never_exceeded;
use crate::harness::{Harness, Wait, on_each_master, on_each_server};
use crate::lock_commands::{LockCommands, java_hands_over_to_rust, rust_hands_over_to_java};
use crate::support::{eventually, is_free, ms, pttl, soon};

on_each_server! {
    a_permit_is_handed_over_in_both_directions,
    a_queued_rust_waiter_is_woken_by_java,
    a_waiter_for_several_permits_waits_until_all_are_available,
    java_threads_and_rust_tasks_never_exceed_the_permits,
    java_threads_and_queued_rust_tasks_never_exceed_the_permits,
    both_sides_see_one_number_of_permits,
    both_sides_see_a_negative_permit_count_and_java_waiters_keep_listening,
    permits_set_with_an_expiry_expire_for_both_sides,
    either_side_can_return_a_permit_of_the_other,
}

on_each_master! {
    a_permit_is_handed_over_in_both_directions,
}

/// The channel of both sides' waiters, for either kind of semaphore.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_sc:{{{name}}}")
}

/// The commands for one permit.
fn lock_commands(name: &str) -> LockCommands {
    let [acquire, release] = ["acquire", "release"].map(|verb| format!("semaphore {verb} {name}"));
    LockCommands { name: name.to_owned(), acquire, release, channel: Some(channel(name)) }
}

async fn a_permit_is_handed_over_in_both_directions(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("seats"));
    let (seats, thread) = (client.semaphore(&*name), peer.thread("a"));
    assert!(seats.try_set_permits(1).await.unwrap());
    let acquire = acquire(seats, 1);
    let guard = java_hands_over_to_rust(&harness, &lock_commands(&name), &thread, acquire).await;
    let release_lock = async {
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    };
    rust_hands_over_to_java(&harness, &lock_commands(&name), &thread, release_lock).await;
    assert_eq!(harness.server().cli(&["GET", &name]), "1");
}

async fn acquire(seats: Semaphore, permits: u32) -> Guard {
    seats.acquire_many(permits).await.unwrap()
}

async fn a_queued_rust_waiter_is_woken_by_java(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("seats"));
    let (seats, thread) = (client.semaphore(&*name).fifo(), peer.thread("a"));
    assert!(seats.try_set_permits(1).await.unwrap());
    let guard =
        java_hands_over_to_rust(&harness, &lock_commands(&name), &thread, acquire(seats.clone(), 1)).await;
    rust_hands_over_to_java(&harness, &lock_commands(&name), &thread, async { drop(guard) }).await;
    assert_eq!(seats.available().await.unwrap(), 1);
    assert!(is_free(harness.server(), &format!("leasehold_sc_queue:{{{name}}}")));
}

async fn a_waiter_for_several_permits_waits_until_all_are_available(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("seats"));
    let (seats, thread) = (client.semaphore(&*name), peer.thread("a"));
    let (first, second) = (peer.thread("first"), peer.thread("second"));
    thread.ok(&format!("semaphore set {name} 2")).await;
    for one in [&first, &second] {
        one.ok(&format!("semaphore acquire {name}")).await;
    }
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let ours = tokio::spawn(acquire(seats.clone(), 2));
    watch.wait_for_waiter().await;
    first.ok(&format!("semaphore release {name}")).await;
    assert!(!ours.is_finished());
    second.ok(&format!("semaphore release {name}")).await;
    let guard = soon("both permits", ours).await.unwrap();

    // The reverse direction, in which Java waits for two permits and Rust returns them one by one.
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let theirs = first.ask(&format!("semaphore acquire {name} 2"));
    watch.wait_for_waiter().await;
    guard.detach();
    assert_eq!(seats.release(1).await.unwrap(), 1);
    assert!(theirs.is_pending());
    assert_eq!(thread.ok(&format!("semaphore available {name}")).await, "1");
    assert_eq!(seats.release(1).await.unwrap(), 2);
    soon("both permits", theirs.ok()).await;
}

async fn java_threads_and_rust_tasks_never_exceed_the_permits(harness: Harness) {
    crowd(&harness, |seats| seats).await;
}

/// Java bypasses the queue. Both sides still conserve the permits.
async fn java_threads_and_queued_rust_tasks_never_exceed_the_permits(harness: Harness) {
    crowd(&harness, Semaphore::fifo).await;
}

async fn crowd(harness: &Harness, terms: impl Fn(Semaphore) -> Semaphore) {
    let clients = [harness.client().await, harness.client().await];
    let name = harness.name("seats");
    let seats = clients.each_ref().map(|client| terms(client.semaphore(&*name)));
    assert!(seats[0].try_set_permits(3).await.unwrap());
    permits_are_never_exceeded(harness, &format!("crowd semaphore {name}"), 3, move |client, tally| {
        let seats = seats[client].clone();
        async move {
            let guard = seats.acquire().await.unwrap();
            tally.visit().await;
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        }
    })
    .await;
    assert_eq!(harness.server().cli(&["GET", &name]), "3", "all are back");
}

async fn both_sides_see_one_number_of_permits(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("seats"));
    let (seats, thread) = (client.semaphore(&*name), peer.thread("a"));
    assert_eq!(thread.ok(&format!("semaphore release-if-exists {name} 2")).await, "false");
    assert!(seats.try_set_permits(3).await.unwrap());
    assert_eq!(thread.ok(&format!("semaphore set {name} 9")).await, "false");
    assert_eq!(thread.number(&format!("semaphore available {name}")).await, 3);
    thread.ok(&format!("semaphore acquire {name} 2")).await;
    assert_eq!(seats.available().await.unwrap(), 1);
    assert!(seats.try_acquire_many(2).await.unwrap().is_none());
    assert_eq!(thread.ok(&format!("semaphore release-if-exists {name} 2")).await, "true");
    let both = seats.try_acquire_many(2).await.unwrap().unwrap();
    assert_eq!(thread.ok(&format!("semaphore try {name} 2")).await, "false");
    assert_eq!(thread.ok(&format!("semaphore try {name} 2 wait=100")).await, "false");
    assert_eq!(both.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(seats.add_permits(2).await.unwrap(), 5);
    assert_eq!(thread.number(&format!("semaphore drain {name}")).await, 5);
    thread.ok(&format!("semaphore add {name} 4")).await;
    assert_eq!(seats.drain().await.unwrap(), 4);
    assert_eq!(thread.number(&format!("semaphore available {name}")).await, 0);
}

/// A Java waiter cannot use a message with a negative number. The next message must still reach it.
async fn both_sides_see_a_negative_permit_count_and_java_waiters_keep_listening(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("seats"));
    let (seats, thread) = (client.semaphore(&*name), peer.thread("a"));
    thread.ok(&format!("semaphore set {name} 0")).await;
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let waiter = peer.thread("waiter").ask(&lock_commands(&name).acquire);
    watch.wait_for_waiter().await;
    assert_eq!(seats.add_permits(-6).await.unwrap(), -6);
    assert_eq!(thread.number(&format!("semaphore available {name}")).await, -6);
    thread.ok(&format!("semaphore add {name} -3")).await;
    assert_eq!(seats.available().await.unwrap(), -9);
    assert!(seats.try_acquire().await.unwrap().is_none());
    assert_eq!(seats.release(10).await.unwrap(), 1);
    soon("the permit above zero", waiter.ok()).await;
    assert_eq!(seats.available().await.unwrap(), 0);
}

async fn permits_set_with_an_expiry_expire_for_both_sides(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let (ours, theirs, thread) = (harness.name("ours"), harness.name("theirs"), peer.thread("a"));
    assert!(client.semaphore(&*ours).try_set_permits_for(2, ms(500)).await.unwrap());
    assert_eq!(thread.ok(&format!("semaphore set {theirs} 2 lease=500")).await, "true");
    assert!((1..=500).contains(&pttl(harness.server(), &theirs)));
    let kept = client.semaphore(&*theirs).try_acquire().await.unwrap().unwrap();
    eventually("their end", || is_free(harness.server(), &theirs) && is_free(harness.server(), &ours)).await;
    assert_eq!(thread.ok(&format!("semaphore try {ours}")).await, "false");
    assert!(client.semaphore(&*theirs).try_acquire().await.unwrap().is_none());
    kept.detach();
}

async fn either_side_can_return_a_permit_of_the_other(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("slots"));
    let (slots, thread) = (client.semaphore(&*name), peer.thread("a"));
    assert!(slots.try_set_permits(2).await.unwrap());
    slots.acquire().await.unwrap().detach();
    thread.ok(&format!("semaphore acquire {name}")).await;
    thread.ok(&format!("semaphore release {name}")).await;
    thread.ok(&format!("semaphore release {name}")).await;
    assert_eq!(slots.available().await.unwrap(), 2);
    thread.ok(&format!("semaphore acquire {name} 2")).await;
    assert_eq!(slots.release(2).await.unwrap(), 2);
}
