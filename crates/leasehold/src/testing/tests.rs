//! Tests of waits for a clock that stands still, and of the panics of such waits.
//!
//! Invariant: a server with a short limit counts the real time, so no test sleeps.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use leasehold_testkit::wait;
use tokio::task::JoinHandle;

use super::Server;
use super::world::World;
use crate::client::Client;
use crate::lock::guard::Guard;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const SOON: Duration = Duration::from_secs(20);

/// Returns a server on which a wait may stand still for a fifth of a second.
fn server() -> Server {
    Server::in_world(World::with_limit(SECOND / 5))
}

/// Connects a client that polls once a day.
async fn rare_poller(server: &Server) -> Client {
    server.client_with(Client::builder().poll_interval(DAY)).await.unwrap()
}

/// Returns the lock `job` held by one client, and another client.
async fn contended(server: &Server) -> (Guard, Client) {
    let guard = rare_poller(server).await.lock("job").lock().await.unwrap();
    (guard, rare_poller(server).await)
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<String>().expect("the panic has a message")
}

/// Returns the message of the panic that ends this task.
#[expect(clippy::disallowed_methods, reason = "a test that fails instead of hanging")]
async fn panic_of<T: std::fmt::Debug>(task: JoinHandle<T>) -> String {
    let ended = tokio::time::timeout(SOON, task).await.expect("the wait does not hang");
    text(&*ended.expect_err("the wait panics").into_panic()).to_owned()
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "test code: tasks")]
async fn a_waiter_panics_in_its_own_task_when_the_clock_stands_still() {
    let server = server();
    let (guard, other) = contended(&server).await;
    server.advance(2 * SECOND).await;
    let waiting = tokio::spawn(async move { other.lock("job").try_lock_for(3 * SECOND).await });
    let said = panic_of(waiting).await;
    let expected = "a client waits until 5s of the test's clock, which stands still at 2s; \
                    call `testing::Server::advance`";
    assert_eq!(said, expected);
    // The drivers live, and the waiter's attempt is undone.
    drop(guard);
    assert_eq!(server.holder("job"), None);
    assert!(server.client().await.unwrap().lock("job").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn all_waiters_panic_and_not_only_the_first() {
    let server = server();
    let (_guard, other) = contended(&server).await;
    let lock = other.lock("job");
    let mut waiting = [1, 2, 3].map(|_| Box::pin(lock.lock()));
    assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
    wait::eventually(SOON, "the standstill", || server.0.world.is_stalled());
    for waiting in waiting {
        // Each panic undoes its waiter, which is a turn of the drivers.
        let panic = AssertUnwindSafe(waiting).catch_unwind().now_or_never().expect("it panics").unwrap_err();
        assert!(text(&*panic).starts_with("a client waits until"));
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "test code: tasks")]
async fn an_inspection_without_an_answer_panics() {
    let server = server();
    let lock = server.client().await.unwrap().lock("job");
    server.lose_replies(true);
    let said = panic_of(tokio::spawn(async move { lock.is_locked().await })).await;
    assert!(said.starts_with("a client waits until 3s of the test's clock"), "{said}");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "test code: tasks")]
async fn a_sleep_on_the_clock_panics() {
    let server = server();
    let _client = server.client().await.unwrap();
    let said = panic_of(tokio::spawn(server.sleep(90 * SECOND))).await;
    assert!(said.starts_with("a sleep waits until 1m 30s of the test's clock"), "{said}");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "test code: tasks")]
async fn a_clock_without_a_server_is_named() {
    let server = server();
    let (_guard, other) = contended(&server).await;
    drop(server);
    let said = panic_of(tokio::spawn(async move { other.lock("job").lock().await.map(drop) })).await;
    assert!(said.contains("`testing::Server` is dropped: keep one"), "{said}");
}

#[cfg(feature = "blocking")]
#[tokio::test]
async fn a_blocked_thread_panics() {
    let server = server();
    let (_guard, other) = contended(&server).await;
    let lock = crate::blocking::Client::from(other).lock("job");
    let in_tokio = tokio::task::spawn_blocking({
        let lock = lock.clone();
        move || lock.try_lock_for(3 * SECOND)
    });
    let said = panic_of(in_tokio).await;
    assert!(said.starts_with("a client waits until 3s of the test's clock"), "{said}");
    #[expect(clippy::disallowed_methods, reason = "test code: a thread without an executor")]
    let plain = std::thread::spawn(move || lock.try_lock_for(3 * SECOND).map(drop));
    wait::eventually(SOON, "the thread to panic", || plain.is_finished());
    let said = plain.join().unwrap_err();
    assert!(text(&*said).starts_with("a client waits until 3s of the test's clock"), "{said:?}");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "test code: tasks")]
async fn a_holder_can_work_without_a_time_limit() {
    // The body works under its lock until two waiters of other servers have panicked, one after the other.
    let (holding, done) = (server(), Arc::new(AtomicBool::new(false)));
    let lock = holding.client().await.unwrap().lock("report");
    let body = {
        let done = Arc::clone(&done);
        async move |_guard: &Guard| {
            while !done.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        }
    };
    let working = tokio::spawn(async move { lock.run(body).await });
    let watched = holding.client().await.unwrap().lock("order").lock().await.unwrap();
    let watching = tokio::spawn(async move { watched.lost().await });
    for _ in 0..2 {
        let other_server = server();
        let (_guard, other) = contended(&other_server).await;
        panic_of(tokio::spawn(async move { other.lock("job").lock().await.map(drop) })).await;
    }
    assert!(!working.is_finished() && !watching.is_finished());
    done.store(true, Ordering::SeqCst);
    working.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_release_ends_a_standstill_without_a_panic() {
    let server = server();
    let (guard, other) = contended(&server).await;
    let lock = other.lock("job");
    let mut waiting = Box::pin(lock.lock());
    assert!((&mut waiting).now_or_never().is_none());
    // The test works for long, in the only thread of its executor.
    wait::eventually(SOON, "the standstill", || server.0.world.is_stalled());
    drop(guard);
    assert!(waiting.await.unwrap().is_held());
    assert_eq!(server.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn an_advance_ends_a_standstill_without_a_panic() {
    let server = server();
    let (_guard, other) = contended(&server).await;
    let lock = other.lock("job");
    let mut waiting = Box::pin(lock.try_lock_for(3 * SECOND));
    assert!((&mut waiting).now_or_never().is_none());
    wait::eventually(SOON, "the standstill", || server.0.world.is_stalled());
    let ((), outcome) = join(server.advance(3 * SECOND), waiting).await;
    assert!(outcome.unwrap().is_none());
}
