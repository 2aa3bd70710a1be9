//! A lock that passes from one side to the other when its holder releases it.

use std::time::Instant;

use leasehold::ReleaseOutcome;

use crate::scene::{LONG, NAME, PROMPTLY, Scene};
use crate::support::soon;

pub(crate) async fn a_peer_hands_over_to_rust(scene: Scene) -> String {
    let (mut peer, client) = (scene.peer().await, scene.client().await);
    assert_eq!(peer.ask(&format!("try {NAME} {LONG}")).await, "ok");
    assert!(scene.lock(&client).try_lock().await.unwrap().is_none(), "the peer holds it");
    let (watch, lock) = (scene.watch(), scene.lock(&client));
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    watch.wait_for_waiter().await;
    assert!(!waiter.is_finished());

    let released = Instant::now();
    let answer = peer.ask(&format!("release {NAME}")).await;
    assert!(["ok", "silent"].contains(&&*answer), "{answer}");
    let guard = soon("the lock that the peer released", waiter).await.unwrap();
    let took = released.elapsed();
    assert!(took < PROMPTLY, "it took {took:?}");
    assert_eq!(peer.ask(&format!("try {NAME} {LONG}")).await, "busy");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    format!("{} ms", took.as_millis())
}

pub(crate) async fn rust_hands_over_to_a_peer(scene: Scene) -> String {
    let (mut peer, client) = (scene.peer().await, scene.client().await);
    let guard = scene.lock(&client).lock().await.unwrap();
    assert_eq!(peer.ask(&format!("try {NAME} {LONG}")).await, "busy");
    let watch = scene.watch();
    peer.say(&format!("acquire {NAME} {LONG}")).await;
    watch.wait_for_waiter().await;
    assert!(guard.is_held());

    let released = Instant::now();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(peer.answer().await, "ok");
    let took = released.elapsed();
    assert!(took < PROMPTLY + scene.kind.poll, "it took {took:?}");
    assert!(scene.lock(&client).try_lock().await.unwrap().is_none(), "the peer holds it");
    format!("{} ms", took.as_millis())
}
