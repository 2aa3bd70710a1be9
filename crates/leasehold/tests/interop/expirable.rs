//! The expirable semaphore and Redisson's `RPermitExpirableSemaphore`. Both sides know permits by their ids.

use std::time::{Duration, Instant};

use leasehold::lock::Remaining;
use leasehold::semaphore::PermitId;
use leasehold::{LostReason, ReleaseOutcome};

use crate::crowd::permits_are_never_exceeded;
use crate::harness::{Harness, PROMPTLY, Thread, Wait, on_each_server};
use crate::lock_commands::{LockCommands, java_hands_over_to_rust, rust_hands_over_to_java};
use crate::semaphore::channel;
use crate::support::{a_lease_passes, ms, soon};

const SHORT_LEASE: Duration = ms(1_500);
/// The exception that Redisson throws for an id that it does not find. Its cause is an `IllegalArgumentException`.
const NOT_THERE: &str = "RedisException";

on_each_server! {
    a_permit_is_handed_over_in_both_directions,
    multiple_permits_are_handed_over_in_both_directions,
    permits_released_one_by_one_wake_a_java_thread_that_waits_for_all,
    both_sides_publish_returned_permits_alike,
    java_threads_and_rust_tasks_never_exceed_the_permits,
    a_rust_permit_is_released_by_java_by_its_id,
    a_java_permit_is_released_by_rust_by_its_id,
    a_release_by_java_resolves_lost_in_rust,
    rust_reads_and_changes_the_lease_of_a_java_permit,
    java_reads_and_changes_the_lease_of_a_rust_permit,
    a_permit_that_java_shortened_is_lost_at_the_next_renewal,
    the_watchdog_renews_permits_against_java_for_several_leases,
    an_expired_permit_goes_to_a_waiter_of_the_other_side,
    both_sides_count_the_permits_alike,
}

fn lock_commands(name: &str, permits: u32) -> LockCommands {
    let acquire = format!("expirable acquire {name} {permits} lease=20000");
    let release = format!("expirable try-release {name} {{}}");
    LockCommands { name: name.to_owned(), acquire, release, channel: Some(channel(name)) }
}

/// Acquires a permit on a Java thread.
async fn take(thread: &Thread, name: &str, options: &str) -> PermitId {
    thread.ok(&format!("expirable acquire {name} 1 {options}")).await.parse().unwrap()
}

async fn a_permit_is_handed_over_in_both_directions(harness: Harness) {
    hand_over(&harness, 1).await;
}

async fn multiple_permits_are_handed_over_in_both_directions(harness: Harness) {
    hand_over(&harness, 3).await;
}

async fn hand_over(harness: &Harness, permits: u32) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name), peer.thread("a"));
    assert!(rooms.try_set_permits(permits).await.unwrap());
    let lock_commands = lock_commands(&name, permits);
    let waiting = rooms.clone();
    let acquire = async move { waiting.acquire_many(permits).await.unwrap() };
    let got = java_hands_over_to_rust(harness, &lock_commands, &thread, acquire).await;
    assert_eq!(got.count(), permits);
    let release_lock = async {
        assert_eq!(got.release().await.unwrap(), ReleaseOutcome::Released);
    };
    rust_hands_over_to_java(harness, &lock_commands, &thread, release_lock).await;
    assert_eq!(rooms.available().await.unwrap(), i64::from(permits));
}

/// Each return publishes one message, and before Redisson 4.0.0 a thread that waits for three permits needs three
/// messages.
async fn permits_released_one_by_one_wake_a_java_thread_that_waits_for_all(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name), peer.thread("a"));
    assert!(rooms.try_set_permits(3).await.unwrap());
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(rooms.acquire().await.unwrap());
    }
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let waiter = thread.ask(&format!("expirable acquire {name} 3 lease=20000"));
    watch.wait_for_waiter().await;
    assert!(waiter.is_pending(), "they are Rust's");
    let released = Instant::now();
    for permit in permits {
        assert_eq!(permit.release().await.unwrap(), ReleaseOutcome::Released);
    }
    soon("what Rust gave back", waiter.ok()).await;
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
}

/// Either side publishes one message for a return of several permits, so a waiter that one side wakes, the other wakes
/// too.
async fn both_sides_publish_returned_permits_alike(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name), peer.thread("a"));
    assert!(rooms.try_set_permits(3).await.unwrap());
    let watch = harness.watch(&name, Wait::Polling);
    let take = async || rooms.acquire_many(3).await.unwrap().detach();
    let ids = take().await;
    let given = ids.iter().map(PermitId::to_string).collect::<Vec<_>>().join(",");
    assert_eq!(thread.ok(&format!("expirable try-release {name} {given}")).await, "3");
    assert!(rooms.release_ids(&take().await).await.unwrap());
    assert_eq!(watch.messages(&channel(&name)), ["3", "3"], "Java's and ours");
    for id in take().await {
        thread.ok(&format!("expirable release {name} {id}")).await;
    }
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(rooms.acquire().await.unwrap());
    }
    for permit in permits {
        assert_eq!(permit.release().await.unwrap(), ReleaseOutcome::Released);
    }
    assert_eq!(watch.messages(&channel(&name))[2..], ["1", "2", "3", "1", "2", "3"], "Java's and ours");
}

async fn java_threads_and_rust_tasks_never_exceed_the_permits(harness: Harness) {
    let clients = [harness.client().await, harness.client().await];
    let (peer, name) = (harness.peer("").await, harness.name("rooms"));
    peer.thread("setter").ok(&format!("expirable set {name} 3")).await;
    let rooms = clients.each_ref().map(|client| client.expirable_semaphore(&*name));
    permits_are_never_exceeded(&harness, &format!("crowd expirable {name} 1 lease=20000"), 3, {
        move |client, tally| {
            let rooms = rooms[client].clone();
            async move {
                let permit = rooms.acquire().await.unwrap();
                tally.visit().await;
                assert_eq!(permit.release().await.unwrap(), ReleaseOutcome::Released);
            }
        }
    })
    .await;
    assert_eq!(harness.server().cli(&["GET", &name]), "3", "all are back");
    assert_eq!(harness.server().cli(&["ZCARD", &format!("{{{name}}}:timeout")]), "0");
}

async fn a_rust_permit_is_released_by_java_by_its_id(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name), peer.thread("a"));
    assert!(rooms.try_set_permits(3).await.unwrap());
    let ids = rooms.acquire_many(3).await.unwrap().detach();
    let [first, second, third] = ids.iter().map(PermitId::to_string).collect::<Vec<_>>().try_into().unwrap();
    thread.ok(&format!("expirable release {name} {first}")).await;
    assert_eq!(rooms.available().await.unwrap(), 1);
    let failure = thread.thrown(&format!("expirable release {name} {first}")).await;
    assert_eq!(failure.class, NOT_THERE, "{failure:?}");
    assert_eq!(thread.ok(&format!("expirable try-release {name} {second},{third}")).await, "2");
    assert!(!rooms.release_ids(&ids[1..]).await.unwrap(), "Java has released them");
    assert_eq!(rooms.available().await.unwrap(), 3);
}

async fn a_java_permit_is_released_by_rust_by_its_id(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name), peer.thread("a"));
    thread.ok(&format!("expirable set {name} 2")).await;
    let (ending, endless) = (take(&thread, &name, "lease=20000").await, take(&thread, &name, "").await);
    assert_eq!(rooms.acquired().await.unwrap(), 2);
    assert!(rooms.release_ids(&[ending, endless]).await.unwrap());
    assert!(!rooms.release_ids(&[ending]).await.unwrap());
    assert_eq!(thread.number(&format!("expirable available {name}")).await, 2);
    assert_eq!(thread.ok(&format!("expirable try-release {name} {endless}")).await, "false");
}

async fn a_release_by_java_resolves_lost_in_rust(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name).watchdog(SHORT_LEASE), peer.thread("a"));
    assert!(rooms.try_set_permits(1).await.unwrap());
    let permit = rooms.acquire().await.unwrap();
    thread.ok(&format!("expirable release {name} {}", permit.ids()[0])).await;
    let released = Instant::now();
    assert_eq!(soon("the loss", permit.lost()).await, LostReason::Deleted);
    assert!(released.elapsed() < SHORT_LEASE, "it was seen by a renewal, and took {:?}", released.elapsed());
    let theirs = take(&thread, &name, "lease=20000").await;
    assert_eq!(permit.release().await.unwrap(), ReleaseOutcome::NotHeld);
    assert!(rooms.lease_of(theirs).await.unwrap().is_some(), "our late release left it alone");
    assert_eq!(rooms.available().await.unwrap(), 0);
}

async fn rust_reads_and_changes_the_lease_of_a_java_permit(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name), peer.thread("a"));
    thread.ok(&format!("expirable set {name} 2")).await;
    let (ending, endless) = (take(&thread, &name, "lease=20000").await, take(&thread, &name, "").await);
    let Some(Remaining::For(left)) = rooms.lease_of(ending).await.unwrap() else { panic!("it ends") };
    assert!(left > ms(10_000) && left <= ms(20_000), "{left:?}");
    assert_eq!(rooms.lease_of(endless).await.unwrap(), Some(Remaining::NoExpiry));
    for id in [ending, endless] {
        assert!(rooms.update_lease(id, ms(60_000)).await.unwrap());
        let left = thread.number(&format!("expirable lease {name} {id}")).await;
        assert!((50_000..=60_000).contains(&left), "{left}");
    }
    thread.ok(&format!("expirable release {name} {ending}")).await;
    assert_eq!(rooms.lease_of(ending).await.unwrap(), None);
    assert!(!rooms.update_lease(ending, ms(60_000)).await.unwrap());
}

async fn java_reads_and_changes_the_lease_of_a_rust_permit(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name).lease(ms(20_000)), peer.thread("a"));
    assert!(rooms.try_set_permits(1).await.unwrap());
    let id = rooms.acquire().await.unwrap().detach()[0];
    let left = thread.number(&format!("expirable lease {name} {id}")).await;
    assert!((10_000..=20_000).contains(&left), "{left}");
    assert_eq!(thread.ok(&format!("expirable update-lease {name} {id} lease=60000")).await, "true");
    let Some(Remaining::For(left)) = rooms.lease_of(id).await.unwrap() else { panic!("it ends") };
    assert!(left > ms(50_000) && left <= ms(60_000), "{left:?}");
    assert!(rooms.release_ids(&[id]).await.unwrap());
    let failure = thread.thrown(&format!("expirable lease {name} {id}")).await;
    assert_eq!(failure.class, NOT_THERE, "{failure:?}");
    assert_eq!(thread.ok(&format!("expirable update-lease {name} {id} lease=60000")).await, "false");
}

/// Redisson publishes nothing here. The next renewal, within a third of the lease, finds that another owner has the
/// permit.
async fn a_permit_that_java_shortened_is_lost_at_the_next_renewal(harness: Harness) {
    const LEASE: Duration = ms(6_000);
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name).watchdog(LEASE), peer.thread("a"));
    assert!(rooms.try_set_permits(1).await.unwrap());
    let permit = rooms.acquire().await.unwrap();
    let renewed = Instant::now();
    let id = permit.ids()[0];
    assert_eq!(thread.ok(&format!("expirable update-lease {name} {id} lease=1")).await, "true");
    let theirs = soon("the permit that ended", take(&thread, &name, "lease=20000")).await;
    assert_eq!(soon("the loss", permit.lost()).await, LostReason::Deleted);
    assert!(
        renewed.elapsed() < LEASE / 2,
        "not as late as the lease would have ended: {:?}",
        renewed.elapsed()
    );
    assert_eq!(permit.release().await.unwrap(), ReleaseOutcome::NotHeld);
    assert!(rooms.lease_of(theirs).await.unwrap().is_some());
}

async fn the_watchdog_renews_permits_against_java_for_several_leases(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name).watchdog(SHORT_LEASE), peer.thread("a"));
    assert!(rooms.try_set_permits(2).await.unwrap());
    let permits = rooms.acquire_many(2).await.unwrap();
    a_lease_passes(harness.server(), 3 * SHORT_LEASE).await;
    assert!(permits.is_held());
    assert_eq!(thread.ok(&format!("expirable try {name}")).await, "none");
    assert_eq!(thread.number(&format!("expirable acquired {name}")).await, 2);
    for id in permits.ids() {
        // Java counts by the wall clock, which the system may set back meanwhile.
        let left = thread.number(&format!("expirable lease {name} {id}")).await;
        assert!((1..=1_600).contains(&left), "{left}");
    }
    assert_eq!(permits.release().await.unwrap(), ReleaseOutcome::Released);
    assert_ne!(thread.ok(&format!("expirable try {name} 2")).await, "none");
}

/// The end of a lease publishes nothing. The reply to a waiter's attempt already reported the time of that end.
async fn an_expired_permit_goes_to_a_waiter_of_the_other_side(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name), peer.thread("a"));
    assert!(rooms.try_set_permits(1).await.unwrap());
    let theirs = take(&thread, &name, "lease=1000").await;
    let asked = Instant::now();
    let permit = soon("the end of Java's lease", rooms.acquire()).await.unwrap();
    assert!(asked.elapsed() < PROMPTLY, "it took {:?}", asked.elapsed());
    assert_eq!(thread.ok(&format!("expirable try-release {name} {theirs}")).await, "false");
    assert_eq!(permit.release().await.unwrap(), ReleaseOutcome::Released);

    let ours = rooms.clone().lease(ms(1_000)).acquire().await.unwrap();
    let asked = Instant::now();
    let theirs = soon("the end of our lease", take(&thread, &name, "lease=20000")).await;
    assert!(asked.elapsed() < PROMPTLY, "it took {:?}", asked.elapsed());
    assert_eq!(ours.release().await.unwrap(), ReleaseOutcome::NotHeld);
    assert!(rooms.lease_of(theirs).await.unwrap().is_some());
    assert_eq!(rooms.available().await.unwrap(), 0);
}

async fn both_sides_count_the_permits_alike(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("rooms"));
    let (rooms, thread) = (client.expirable_semaphore(&*name), peer.thread("a"));
    let same = async |available: i64, acquired: i64, permits: i64| {
        let of_java = [("available", available), ("acquired", acquired), ("permits", permits)];
        for (verb, expected) in of_java {
            assert_eq!(thread.number(&format!("expirable {verb} {name}")).await, expected, "{verb}");
        }
        assert_eq!(rooms.available().await.unwrap(), available);
        assert_eq!(i64::try_from(rooms.acquired().await.unwrap()).unwrap(), acquired);
        assert_eq!(rooms.permits().await.unwrap(), permits);
    };
    same(0, 0, 0).await;
    assert_eq!(thread.ok(&format!("expirable set {name} 3")).await, "true");
    assert!(!rooms.try_set_permits(9).await.unwrap());
    same(3, 0, 3).await;
    let ours = rooms.acquire_many(2).await.unwrap();
    let theirs = take(&thread, &name, "").await;
    same(0, 3, 3).await;
    assert_eq!(rooms.set_permits(1).await.unwrap(), -2);
    same(-2, 3, 1).await;
    thread.ok(&format!("expirable set-permits {name} 5")).await;
    same(2, 3, 5).await;
    assert_eq!(rooms.add_permits(2).await.unwrap(), 4);
    thread.ok(&format!("expirable add {name} 1")).await;
    same(5, 3, 8).await;
    assert!(rooms.release_ids(&[theirs]).await.unwrap());
    assert_eq!(ours.release().await.unwrap(), ReleaseOutcome::Released);
    same(8, 0, 8).await;
}
