//! The count-down latch and Redisson's `RCountDownLatch`.

use std::time::Instant;

use leasehold::error::WaitErrorKind;
use leasehold::{CountDownLatch, WaitError};
use tokio::task::JoinHandle;

use crate::harness::{Harness, PROMPTLY, Wait, on_each_master, on_each_server};
use crate::java::Answer;
use crate::support::{eventually, is_free, ms, soon};

on_each_server! {
    the_last_rust_count_down_releases_java_waiters,
    the_last_java_count_down_releases_rust_waiters,
    both_sides_see_one_count,
    one_latch_is_counted_down_by_both_sides_with_waiters_on_both,
    a_finished_latch_can_be_set_by_the_other_side,
    a_deletion_by_rust_ends_rust_waits_while_java_waits_for_the_next_count,
    a_deletion_by_java_ends_rust_waits,
}

on_each_master! {
    the_last_rust_count_down_releases_java_waiters,
    the_last_java_count_down_releases_rust_waiters,
}

fn channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

fn wait(latch: &CountDownLatch) -> JoinHandle<Result<(), WaitError>> {
    let latch = latch.clone();
    tokio::spawn(async move { latch.wait().await })
}

async fn the_last_rust_count_down_releases_java_waiters(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("parts"));
    let latch = client.count_down_latch(&*name);
    assert!(latch.try_set_count(2).await.unwrap());
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let waiter = peer.thread("a").ask(&format!("latch await {name}"));
    watch.wait_for_waiter().await;
    assert_eq!(latch.count_down().await.unwrap(), 1);
    assert!(waiter.is_pending());
    let counted = Instant::now();
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert_eq!(soon("the last count", waiter.ok()).await, "true");
    assert!(counted.elapsed() < PROMPTLY, "it took {:?}", counted.elapsed());
    assert!(is_free(harness.server(), &name));
}

async fn the_last_java_count_down_releases_rust_waiters(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("parts"));
    let (latch, thread) = (client.count_down_latch(&*name), peer.thread("a"));
    assert_eq!(thread.ok(&format!("latch set {name} 2")).await, "true");
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let waiter = wait(&latch);
    watch.wait_for_waiter().await;
    thread.ok(&format!("latch down {name}")).await;
    assert_eq!(latch.count().await.unwrap(), 1);
    assert!(!waiter.is_finished());
    let counted = Instant::now();
    thread.ok(&format!("latch down {name}")).await;
    soon("the last count", waiter).await.unwrap().unwrap();
    assert!(counted.elapsed() < PROMPTLY, "it took {:?}", counted.elapsed());
}

async fn both_sides_see_one_count(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("parts"));
    let (latch, thread) = (client.count_down_latch(&*name), peer.thread("a"));
    assert_eq!(thread.ok(&format!("latch await {name}")).await, "true", "a latch without a count is open");
    soon("a latch without a count is open", latch.wait()).await.unwrap();
    thread.ok(&format!("latch down {name}")).await;
    assert_eq!(latch.count_down().await.unwrap(), 0, "there is nothing to count");

    assert!(latch.try_set_count(3).await.unwrap());
    assert_eq!(thread.ok(&format!("latch set {name} 5")).await, "false");
    thread.ok(&format!("latch down {name}")).await;
    assert_eq!((latch.count().await.unwrap(), thread.number(&format!("latch count {name}")).await), (2, 2));
    assert_eq!(thread.ok(&format!("latch await {name} wait=100")).await, "false");
    assert!(!latch.wait_for(ms(100)).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), 1);
    assert_eq!(thread.number(&format!("latch count {name}")).await, 1);
}

async fn one_latch_is_counted_down_by_both_sides_with_waiters_on_both(harness: Harness) {
    const COUNT: u32 = 200;
    let clients = [harness.client().await, harness.client().await];
    let peers = [harness.peer("").await, harness.peer("").await];
    let name = harness.name("parts");
    let latches = clients.each_ref().map(|client| client.count_down_latch(&*name));
    assert!(latches[0].try_set_count(COUNT).await.unwrap());
    let ours: Vec<_> = latches.iter().flat_map(|latch| [wait(latch), wait(latch)]).collect();
    let await_it =
        |peer: &crate::harness::Peer, thread: &str| peer.thread(thread).ask(&format!("latch await {name}"));
    let theirs: Vec<Answer> =
        peers.iter().flat_map(|peer| [await_it(peer, "one"), await_it(peer, "other")]).collect();
    eventually("all four clients to listen", || harness.listeners(&channel(&name)) == 4).await;

    // Each of two tasks and two threads has a quarter of the count. Each thread leaves one count for the end.
    let share = COUNT / 4;
    let counting = latches.clone().map(|latch| {
        tokio::spawn(async move {
            for _ in 0..share {
                latch.count_down().await.unwrap();
            }
        })
    });
    let mut answers = Vec::new();
    for peer in &peers {
        let thread = peer.thread("counter");
        answers.extend((0..share - 1).map(|_| thread.ask(&format!("latch down {name}"))));
    }
    for task in counting {
        task.await.unwrap();
    }
    for answer in answers {
        answer.ok().await;
    }
    assert_eq!(latches[0].count().await.unwrap(), 2, "each count was counted once");
    assert!(ours.iter().all(|waiter| !waiter.is_finished()) && theirs.iter().all(Answer::is_pending));

    let counted = Instant::now();
    assert_eq!(latches[1].count_down().await.unwrap(), 1);
    peers[1].thread("counter").ok(&format!("latch down {name}")).await;
    for waiter in ours {
        soon("the last count", waiter).await.unwrap().unwrap();
    }
    for answer in theirs {
        assert_eq!(soon("the last count", answer.ok()).await, "true");
    }
    assert!(counted.elapsed() < PROMPTLY, "it took {:?}", counted.elapsed());
    assert!(is_free(harness.server(), &name));
}

async fn a_finished_latch_can_be_set_by_the_other_side(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("parts"));
    let (latch, thread) = (client.count_down_latch(&*name), peer.thread("a"));
    for round in 0..2 {
        assert_eq!(thread.ok(&format!("latch set {name} 1")).await, "true", "{round}");
        assert_eq!(latch.count_down().await.unwrap(), 0);
        assert!(latch.try_set_count(1).await.unwrap());
        let watch = harness.watch(&name, Wait::Listening(channel(&name)));
        let waiter = peer.thread("waiter").ask(&format!("latch await {name}"));
        watch.wait_for_waiter().await;
        thread.ok(&format!("latch down {name}")).await;
        assert_eq!(soon("the count of this round", waiter.ok()).await, "true");
    }
}

async fn a_deletion_by_rust_ends_rust_waits_while_java_waits_for_the_next_count(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("parts"));
    let latch = client.count_down_latch(&*name);
    assert!(latch.try_set_count(1).await.unwrap());
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let ours = wait(&latch);
    watch.wait_for_waiter().await;
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let theirs = peer.thread("a").ask(&format!("latch await {name}"));
    watch.wait_for_waiter().await;

    let deleted = Instant::now();
    assert!(latch.delete().await.unwrap());
    assert_eq!(
        soon("the deletion", ours).await.unwrap().map_err(|error| error.kind),
        Err(WaitErrorKind::Deleted)
    );
    assert!(deleted.elapsed() < PROMPTLY, "it took {:?}", deleted.elapsed());
    assert!(latch.try_set_count(1).await.unwrap());
    assert!(theirs.is_pending(), "Redisson tells no waiter of a deletion");
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert_eq!(soon("the next count", theirs.ok()).await, "true");
}

/// A deleted latch looks to leasehold like a latch at zero, because neither has a key.
async fn a_deletion_by_java_ends_rust_waits(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("parts"));
    let (latch, thread) = (client.count_down_latch(&*name), peer.thread("a"));
    assert_eq!(thread.ok(&format!("latch set {name} 1")).await, "true");
    let watch = harness.watch(&name, Wait::Listening(channel(&name)));
    let waiter = wait(&latch);
    watch.wait_for_waiter().await;
    let deleted = Instant::now();
    assert_eq!(thread.ok(&format!("latch delete {name}")).await, "true");
    soon("the deletion", waiter).await.unwrap().unwrap();
    assert!(deleted.elapsed() < PROMPTLY, "it took {:?}", deleted.elapsed());
    assert!(!latch.delete().await.unwrap());
}
