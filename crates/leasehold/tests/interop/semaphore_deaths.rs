//! Both kinds of semaphore when a process of either side is killed: the permits that come back, and the permits that do
//! not.

use std::time::{Duration, Instant};

use leasehold::{Client, ReleaseOutcome};

use crate::child::{ChildProcess, part, report_held};
use crate::harness::{Harness, PROMPTLY, Wait, on_each_server};
use crate::java::Java;
use crate::semaphore::channel;
use crate::support::{eventually, ms, soon};

const LEASE: Duration = ms(1_500);

on_each_server! {
    only_expirable_permits_return_from_a_killed_java_process,
    only_expirable_permits_return_from_a_killed_rust_process,
}

async fn only_expirable_permits_return_from_a_killed_java_process(harness: Harness) {
    let (client, java) = (harness.client().await, Java::start());
    let peer = harness.peer_in(&java, "").await;
    let [plain, expirable] = ["plain", "expirable"].map(|stem| harness.name(stem));
    let (seats, rooms) = (client.semaphore(&*plain), client.expirable_semaphore(&*expirable));
    assert!(seats.try_set_permits(2).await.unwrap());
    assert!(rooms.try_set_permits(1).await.unwrap());
    // The Java process holds one permit of each semaphore, and waits for more plain permits than exist.
    let holder = peer.thread("holder");
    holder.ok(&format!("semaphore acquire {plain}")).await;
    holder.ok(&format!("expirable acquire {expirable} 1 lease={}", LEASE.as_millis())).await;
    let watch = harness.watch(&plain, Wait::Listening(channel(&plain)));
    drop(peer.thread("waiter").ask(&format!("semaphore acquire {plain} 2")));
    watch.wait_for_waiter().await;
    let waiting = rooms.clone();
    let waiter = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    eventually("ours to listen", || harness.listeners(&channel(&expirable)) == 1).await;

    java.kill();
    let killed = Instant::now();
    let permit = soon("the permit of the dead", waiter).await.unwrap();
    assert!(killed.elapsed() < 2 * LEASE, "it took {:?}", killed.elapsed());
    assert_eq!(permit.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(rooms.available().await.unwrap(), 1);

    // The dead waiter has taken nothing. The dead holder's plain permit is gone until a caller returns it by number.
    assert_eq!(seats.available().await.unwrap(), 1);
    assert!(seats.try_acquire_many_for(2, LEASE).await.unwrap().is_none());
    assert_eq!(seats.release(1).await.unwrap(), 2);
    assert!(seats.try_acquire_many(2).await.unwrap().is_some());
}

async fn only_expirable_permits_return_from_a_killed_rust_process(harness: Harness) {
    let (peer, stem) = (harness.peer("").await, harness.name("dead"));
    let (plain, expirable) = (format!("{stem}-plain"), format!("{stem}-expirable"));
    let part = "semaphore_deaths::a_process_that_has_permits_until_it_is_killed";
    let mut holder = ChildProcess::start(part, &harness.url(), &stem);
    let (one, other) = (peer.thread("one"), peer.thread("other"));
    let watch = harness.watch(&expirable, Wait::Listening(channel(&expirable)));
    let waiter = one.ask(&format!("expirable acquire {expirable} 1 lease=20000"));
    watch.wait_for_waiter().await;
    let watch = harness.watch(&plain, Wait::Listening(channel(&plain)));
    let in_vain = other.ask(&format!("semaphore acquire {plain}"));
    watch.wait_for_waiter().await;

    holder.kill();
    let killed = Instant::now();
    soon("the permit of the dead", waiter.ok()).await;
    assert!(killed.elapsed() < 2 * LEASE, "it took {:?}", killed.elapsed());
    assert!(in_vain.is_pending());
    assert_eq!(one.number(&format!("semaphore available {plain}")).await, 0);
    let returned = Instant::now();
    one.ok(&format!("semaphore release {plain}")).await;
    soon("what was returned by number", in_vain.ok()).await;
    assert!(returned.elapsed() < PROMPTLY, "it took {:?}", returned.elapsed());
}

/// Not a test by itself, but the part of the second process.
#[tokio::test]
async fn a_process_that_has_permits_until_it_is_killed() {
    let Some((url, stem)) = part() else { return };
    let client = Client::connect(&url).await.unwrap();
    let seats = client.semaphore(format!("{stem}-plain"));
    let rooms = client.expirable_semaphore(format!("{stem}-expirable")).watchdog(LEASE);
    assert!(seats.try_set_permits(1).await.unwrap());
    assert!(rooms.try_set_permits(1).await.unwrap());
    let _seat = seats.acquire().await.unwrap();
    let room = rooms.acquire().await.unwrap();
    report_held();
    room.lost().await;
}
