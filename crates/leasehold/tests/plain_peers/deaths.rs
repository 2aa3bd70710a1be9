//! A lock whose holder is killed.

use std::time::Instant;

use leasehold::Client;

use crate::child::{ChildProcess, part, report_held};
use crate::scene::{NAME, PROMPTLY, SHORT, Scene};
use crate::support::soon;

pub(crate) async fn a_killed_peer_blocks_rust_for_its_lease(scene: Scene) -> String {
    let (mut peer, client) = (scene.peer().await, scene.client().await);
    let asked = Instant::now();
    assert_eq!(peer.ask(&format!("try {NAME} {}", SHORT.as_millis())).await, "ok");
    let answered = Instant::now();
    let (watch, lock) = (scene.watch(), scene.lock(&client));
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    watch.wait_for_waiter().await;

    peer.kill().await;
    let guard = soon("the lock of the killed peer", waiter).await.unwrap();
    let (since_asked, took) = (asked.elapsed(), answered.elapsed());
    assert!(SHORT <= since_asked, "granted {since_asked:?} after the start of a lease of {SHORT:?}");
    assert!(took < SHORT + PROMPTLY, "it took {took:?}");
    drop(guard);
    format!("{} ms after its lease", since_asked.saturating_sub(SHORT).as_millis())
}

pub(crate) async fn a_killed_rust_process_blocks_a_peer_for_its_lease(scene: Scene) -> String {
    let mut peer = scene.peer().await;
    let part = "deaths::a_process_that_holds_a_lock_until_it_is_killed";
    let started = Instant::now();
    let mut holder = ChildProcess::start(part, &scene.server.url(), &scene.key());
    let watch = scene.watch();
    // python-redis-lock learns of an expired holder when a lease of its own has passed.
    peer.say(&format!("acquire {NAME} {}", SHORT.as_millis())).await;
    watch.wait_for_waiter().await;

    holder.kill();
    let killed = Instant::now();
    assert_eq!(peer.answer().await, "ok");
    let (took, since_start) = (killed.elapsed(), started.elapsed());
    assert!(SHORT <= since_start, "granted {since_start:?} after the start of a lease of {SHORT:?}");
    assert!(took < 2 * SHORT + PROMPTLY + scene.kind.poll, "it took {took:?}");
    format!("{} ms after the end of the process", took.as_millis())
}

/// Not a test by itself, but the part of the second process. The name is the key, because a key without a prefix is the
/// name in every format.
#[tokio::test]
async fn a_process_that_holds_a_lock_until_it_is_killed() {
    let Some((url, key)) = part() else { return };
    let client = Client::connect(&url).await.unwrap();
    let guard = client.plain_lock(&*key).watchdog(SHORT).lock().await.unwrap();
    report_held();
    guard.lost().await;
}
