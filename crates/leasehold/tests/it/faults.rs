//! Lost locks: every reason for a loss, the time of its report, and the state that is left.

use std::time::{Duration, Instant};

use leasehold::{Client, Guard, LostReason, ReleaseOutcome, RunError};
use leasehold_testkit::lateness::Lateness;
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    connect, connect_with, eventually, hold_as_redisson, is_free, keys, ms, run_command, soon,
};

/// The promise L5: the longest time between a deadline and the report of the loss.
const TOLD_WITHIN: Duration = ms(50);

/// The time between the deadline that the guard last named and the report of its loss. Panics if the report is early.
async fn lateness(guard: &Guard) -> Duration {
    let watch = async {
        let mut ticks = tokio::time::interval(ms(2));
        let mut deadline = Instant::now();
        loop {
            // The clock is read first, so the deadline comes out a little early, never late.
            let now = Instant::now();
            match guard.remaining() {
                Duration::ZERO => return deadline,
                left => deadline = now + left,
            }
            ticks.tick().await;
        }
    };
    let lost = async {
        guard.lost().await;
        assert!(!guard.is_held(), "it was told while the lock could be trusted");
        Instant::now()
    };
    let (deadline, lost) = tokio::join!(watch, lost);
    assert!(lost >= deadline, "it was told {:?} early", deadline - lost);
    lost - deadline
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_resolves_lost_by_the_local_clock_within_fifty_milliseconds_of_the_deadline() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    for _ in 0..7 {
        let guard = client.lock("job").watchdog(ms(300)).lock().await.unwrap();
        let machine = Lateness::start();
        server.freeze();
        let late = soon("the loss", lateness(&guard)).await;
        machine.assert_within("the loss after its deadline", TOLD_WITHIN, late);
        // The server is still frozen here.
        assert_eq!(guard.lost().await, LostReason::Unreachable);
        server.thaw();
        drop(guard);
        eventually("everything to be undone", || is_free(&server, "job")).await;
    }
    assert_eq!(keys(&server), 0);
    drop(soon("the lock", client.lock("job").lock()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fixed_lease_resolves_lost_within_fifty_milliseconds_of_its_end() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    for _ in 0..7 {
        let guard = client.lock("job").lease(ms(120)).lock().await.unwrap();
        let machine = Lateness::start();
        let late = soon("the end", lateness(&guard)).await;
        machine.assert_within("the loss after its deadline", TOLD_WITHIN, late);
        assert_eq!(guard.lost().await, LostReason::Expired);
        eventually("the key to run out", || is_free(&server, "job")).await;
    }
}

#[tokio::test]
async fn a_holders_validity_ends_before_the_server_grants_the_lock_again() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    for _ in 0..5 {
        let guard = one.lock("job").lease(ms(150)).lock().await.unwrap();
        let next = soon("the end of the lease", other.lock("job").lock()).await.unwrap();
        assert!(!guard.is_held(), "two at once");
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_restarts_empty_resolves_lost_as_deleted() {
    let mut server = RedisServer::start();
    let guard = connect(&server).await.lock("job").watchdog(Duration::from_secs(3)).lock().await.unwrap();
    server.restart();
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::Deleted);
    assert!(!guard.is_held());
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::NotHeld));
}

#[tokio::test]
async fn an_unreachable_server_resolves_lost_as_unreachable() {
    let mut server = RedisServer::start();
    let guard = connect(&server).await.lock("job").watchdog(ms(400)).lock().await.unwrap();
    server.kill();
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::Unreachable);
}

#[tokio::test]
async fn a_client_recovers_with_its_server() {
    let mut server = RedisServer::start();
    let client = connect(&server).await;
    let guard = client.lock("job").watchdog(ms(300)).lock().await.unwrap();
    server.kill();
    soon("the loss", guard.lost()).await;
    server.restart();
    let guard = soon("a new hold", client.lock("job").lock()).await.unwrap();
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_deleted_key_resolves_lost_as_deleted() {
    let server = RedisServer::start();
    let guard = connect(&server).await.lock("job").watchdog(ms(600)).lock().await.unwrap();
    run_command(&server, &["DEL", "job"]);
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::Deleted);
}

#[tokio::test]
async fn another_holder_resolves_lost_as_taken_over() {
    let server = RedisServer::start();
    let guard = connect(&server).await.lock("job").watchdog(ms(600)).lock().await.unwrap();
    run_command(
        &server,
        &[
            "EVAL",
            "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], 'java:1', 1) redis.call('pexpire', KEYS[1], 60000)",
            "1",
            "job",
        ],
    );
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::TakenOver);
    drop(guard);
    assert!(crate::support::fields(&server, "job").contains_key("java:1"));
}

#[tokio::test]
async fn a_key_replaced_by_another_type_is_taken_over_and_not_changed() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let watched = client.lock("watched").watchdog(ms(600)).lock().await.unwrap();
    let released = client.lock("released").lock().await.unwrap();
    for name in ["watched", "released"] {
        run_command(&server, &["SET", name, "precious"]);
    }
    assert_eq!(soon("the loss", watched.lost()).await, LostReason::TakenOver);
    assert_eq!(soon("the release", released.release()).await.unwrap(), ReleaseOutcome::NotHeld);
    drop(watched);
    soon("the end", client.close()).await;
    assert_eq!(server.cli(&["GET", "watched"]), "precious");
    assert_eq!(server.cli(&["GET", "released"]), "precious");
}

#[tokio::test]
async fn a_closed_client_resolves_lost_as_closed() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    client.close().await;
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::Closed);
    assert!(!guard.is_held());
}

#[tokio::test]
async fn a_forced_unlock_is_seen_within_a_third_of_the_lease() {
    let lease = Duration::from_secs(3);
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let machine = Lateness::start();
    let guard = one.lock("job").watchdog(lease).lock().await.unwrap();
    let forced = Instant::now();
    other.lock("job").force_unlock().await.unwrap();
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::Deleted);
    machine.assert_within("the loss after a forced unlock", lease / 3, forced.elapsed());
}

#[tokio::test]
async fn every_listener_gets_the_loss_of_every_guard() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let owner = client.owner();
    // Two guards of one hold, and one guard of another lock.
    let lock = client.lock("job").owned_by(&owner).lease(ms(400));
    let guards = [lock.lock().await, lock.lock().await, client.lock("other").lease(ms(400)).lock().await];
    let guards = guards.map(|guard| std::sync::Arc::new(guard.unwrap()));
    let mut waiting = Vec::new();
    for guard in &guards {
        for _ in 0..8 {
            let guard = std::sync::Arc::clone(guard);
            waiting.push(tokio::spawn(async move { guard.lost().await }));
        }
    }
    for one in waiting {
        assert_eq!(soon("the loss", one).await.unwrap(), LostReason::Expired);
    }
    for guard in guards {
        assert_eq!(guard.lost().await, LostReason::Expired, "a listener that comes later is told as well");
    }
}

#[tokio::test]
async fn a_lost_lock_is_not_released_under_its_next_holder() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guard = client.lock("job").lease(ms(300)).lock().await.unwrap();
    soon("the end", guard.lost()).await;
    eventually("the key to run out", || is_free(&server, "job")).await;
    hold_as_redisson(&server, "job", Duration::from_secs(60));
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::NotHeld));
    assert!(!is_free(&server, "job"));
}

#[tokio::test]
async fn a_body_is_cancelled_when_the_lock_is_lost() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
    let outcome: Result<(), _> = soon(
        "the cancellation",
        client.lock("job").watchdog(ms(300)).run(async |guard| {
            let _ended = ended;
            run_command(&server, &["DEL", guard.name()]);
            std::future::pending::<()>().await;
        }),
    )
    .await;
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::Deleted, .. })));
    assert!(has_ended.await.is_err(), "the body is dropped");
}

#[tokio::test]
async fn a_value_computed_after_the_loss_is_not_returned() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lock = client.lock("job").lease(ms(300));
    let outcome = lock.run(async |guard| {
        // This work does not yield until after the end of the lease.
        leasehold_testkit::wait::eventually(crate::support::SOON, "the end", || !guard.is_held());
        42
    });
    assert!(matches!(outcome.await, Err(RunError::Lost { reason: LostReason::Expired, .. })));
}

#[tokio::test]
async fn a_body_that_lost_its_lock_unnoticed_gets_the_loss_at_its_end() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let outcome = client.lock("job").run(async |guard| run_command(&server, &["DEL", guard.name()])).await;
    assert!(matches!(outcome, Err(RunError::Lost { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_body_does_not_run_without_the_lock() {
    let mut server = RedisServer::start();
    let builder = Client::builder().timeout(ms(200));
    let client = connect_with(builder, &server.url()).await;
    server.kill();
    let mut ran = false;
    let outcome = soon("the failure", client.lock("job").run(async |_guard| ran = true)).await;
    assert!(matches!(outcome, Err(RunError::Acquire(_))), "{outcome:?}");
    assert!(!ran);
}

#[tokio::test]
async fn a_flushed_server_only_causes_a_loss() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guard = client.lock("job").watchdog(ms(600)).lock().await.unwrap();
    run_command(&server, &["FLUSHALL"]);
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::Deleted);
    drop(guard);
    drop(client.lock("job").lock().await.unwrap());
    eventually("the release", || keys(&server) == 0).await;
}
