//! A key that is deleted under its holder, and set again by the other side.

use std::time::{Duration, Instant};

use leasehold::ReleaseOutcome;

use crate::peer::Peer;
use crate::scene::{LONG, NAME, Scene};
use crate::support::{eventually, ms, soon};

/// The watchdog of the Rust holder, whose renewals find a loss after a third of it.
const WATCHDOG: Duration = ms(1_500);
/// What a library may answer that leaves the lock of another holder alone.
const HARMLESS: [&str; 3] = ["not-owned", "silent", "unsupported"];

pub(crate) async fn rust_learns_that_its_key_was_deleted(scene: Scene) -> String {
    let (mut peer, client) = (scene.peer().await, scene.client().await);
    let guard = scene.lock(&client).watchdog(WATCHDOG).lock().await.unwrap();
    let deleted = Instant::now();
    scene.delete();
    soon("the loss", guard.lost()).await;
    let took = deleted.elapsed();
    assert!(!guard.is_held());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
    let by_library = forced(&scene, &mut peer).await;
    format!("lost after {} ms{by_library}", took.as_millis())
}

/// Lets the library delete the key of Rust, if it has a call for that.
async fn forced(scene: &Scene, peer: &mut Peer) -> &'static str {
    let client = scene.client().await;
    let guard = scene.lock(&client).watchdog(WATCHDOG).lock().await.unwrap();
    let answer = peer.ask(&format!("force {NAME}")).await;
    if answer == "unsupported" {
        assert!(guard.is_held());
        return "";
    }
    assert_eq!(answer, "ok");
    soon("the loss by the library's own call", guard.lost()).await;
    ", also by the library's own call"
}

pub(crate) async fn a_peer_whose_key_was_deleted_leaves_rust_alone(scene: Scene) -> String {
    let (mut peer, client) = (scene.peer().await, scene.client().await);
    assert_eq!(peer.ask(&format!("try {NAME} {LONG}")).await, "ok");
    let (watch, lock) = (scene.watch(), scene.lock(&client).watchdog(WATCHDOG));
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    watch.wait_for_waiter().await;

    let deleted = Instant::now();
    scene.delete();
    let guard = soon("the lock whose key was deleted", waiter).await.unwrap();
    let took = deleted.elapsed();
    let value = scene.value();
    let mut answers = Vec::new();
    for command in
        [format!("extend {NAME} {LONG}"), format!("recreate {NAME} {LONG}"), format!("release {NAME}")]
    {
        answers.push(peer.ask(&command).await);
    }
    let seen = format!("{} ms, then extend: {}, release: {}", took.as_millis(), answers[0], answers[2]);
    if scene.kind.overwrites {
        assert_ne!(scene.value(), value, "the library takes what it does not own: {answers:?}");
        soon("the loss", guard.lost()).await;
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
        return format!("{seen}, which end the hold of Rust; Rust is told");
    }
    assert!(answers.iter().all(|answer| HARMLESS.contains(&&**answer)), "{answers:?}");
    assert_eq!(scene.value(), value, "the value of Rust is in place after {answers:?}");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    seen
}

pub(crate) async fn rust_leaves_a_key_alone_that_a_peer_set_again(scene: Scene) -> String {
    let (mut peer, client) = (scene.peer().await, scene.client().await);
    let guard = scene.lock(&client).watchdog(WATCHDOG).lock().await.unwrap();
    scene.delete();
    // A renewal may come between the two, and finds a free lock.
    assert_eq!(peer.ask(&format!("try {NAME} {LONG}")).await, "ok");
    let value = scene.value();
    soon("the loss", guard.lost()).await;
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
    assert!(!value.is_empty() && scene.value() == value, "the value of the peer is in place");
    let answer = peer.ask(&format!("release {NAME}")).await;
    assert!(["ok", "silent"].contains(&&*answer), "{answer}");
    eventually("the end of the peer's hold", || scene.value().is_empty()).await;
    recreated(&scene, &mut peer).await
}

/// Deletes the key under the peer and lets it extend its lock, which sets the key again in some libraries.
async fn recreated(scene: &Scene, peer: &mut Peer) -> String {
    let mut seen = Vec::new();
    for verb in ["extend", "recreate"] {
        assert_eq!(peer.ask(&format!("try {NAME} {LONG}")).await, "ok");
        scene.delete();
        let answer = peer.ask(&format!("{verb} {NAME} {LONG}")).await;
        if answer == "ok" {
            assert!(!scene.value().is_empty());
            seen.push(if verb == "extend" { "an extension" } else { "an option" });
        }
        let _ = peer.ask(&format!("release {NAME}")).await;
    }
    if seen.is_empty() { "ok".to_owned() } else { format!("ok, sets a lost key again: {}", seen.join(", ")) }
}
