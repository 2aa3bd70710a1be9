//! A hold whose key never expires.

use leasehold::Endless;
use leasehold::error::AcquireErrorKind;

use crate::scene::{NAME, Scene};
use crate::support::soon;

pub(crate) async fn a_hold_without_expiry_is_awaited_or_reported(scene: Scene) -> String {
    let (mut peer, client) = (scene.peer().await, scene.client().await);
    let answer = peer.ask(&format!("try {NAME} none")).await;
    let by_library = answer == "ok";
    if !by_library {
        assert_eq!(answer, "unsupported");
        assert_eq!(scene.server.cli(&["SET", &scene.key(), "a-value-by-hand"]), "OK");
    }
    assert_eq!(scene.server.cli(&["PTTL", &scene.key()]), "-1");

    let in_format = |endless| client.plain_lock(NAME).format((scene.kind.format)().endless(endless));
    let refused = soon("a refusal", in_format(Endless::Fail).lock()).await;
    assert_eq!(refused.unwrap_err().kind, AcquireErrorKind::NoExpiry);
    let (watch, lock) = (scene.watch(), in_format(Endless::Wait));
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    watch.wait_for_waiter().await;
    assert!(!waiter.is_finished());

    if by_library {
        assert_eq!(peer.ask(&format!("release {NAME}")).await, "ok");
    } else {
        scene.delete();
    }
    drop(soon("the lock without an expiry", waiter).await.unwrap());
    if by_library { "ok".to_owned() } else { "ok, its key set by hand".to_owned() }
}
