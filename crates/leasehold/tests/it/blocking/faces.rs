//! The async and the blocking API of one client, used together.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasehold::blocking::{self, Client};
use leasehold::error::{AcquireErrorKind, WaitErrorKind};
use leasehold::{LostReason, ReleaseOutcome};

use crate::blocking::{connect_without_polling, elsewhere, eventually, joined, server_and_client};
use crate::support::{count, is_free, listeners, soon};

#[tokio::test]
async fn a_lock_is_handed_over_by_wake_up_from_async_to_blocking_and_back() {
    let (server, one, other) = elsewhere(|| {
        let (server, _) = server_and_client();
        let clients = (connect_without_polling(&server), connect_without_polling(&server));
        (server, clients.0, clients.1)
    });
    let in_tasks = one.as_async().lock("job");
    let holder = in_tasks.lock().await.unwrap();
    let (let_go, told) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let guard = other.lock("job").lock().unwrap();
        told.recv().unwrap();
        guard.release().unwrap()
    });
    crate::support::eventually("the thread to sleep", || listeners(&server, "job") == 1).await;
    holder.release().await.unwrap();
    crate::support::eventually("the thread to have it", || !is_free(&server, "job")).await;

    let task = tokio::spawn(async move { in_tasks.lock().await.map(leasehold::Guard::release) });
    crate::support::eventually("the task to sleep", || listeners(&server, "job") == 1).await;
    let_go.send(()).unwrap();
    let release = soon("the task to have it", task).await.unwrap().unwrap();
    assert_eq!(release.await, Ok(ReleaseOutcome::Released));
    assert_eq!(joined(thread), ReleaseOutcome::Released);
}

#[tokio::test]
async fn both_apis_of_one_client_share_its_state() {
    let (server, client) = elsewhere(server_and_client);
    let clients = || server.cli(&["CLIENT", "LIST"]).lines().count();
    let before = clients();
    let (for_tasks, for_threads) = (leasehold::Client::from(client.clone()), client.clone());
    let guard = for_tasks.lock("job").lock().await.unwrap();
    let guard = blocking::Guard::from(guard);
    assert_eq!(count(&server, "job"), 1);
    assert!(elsewhere(move || for_threads.lock("job").try_lock().unwrap().is_none()));
    let again = Client::from(for_tasks);
    assert_eq!(elsewhere(move || guard.release()), Ok(ReleaseOutcome::Released));
    let back = elsewhere(move || leasehold::Guard::from(again.lock("job").lock().unwrap()));
    assert_eq!(back.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(clients(), before, "nothing has connected");
    assert!(client.as_ref().lock("job").try_lock().await.unwrap().is_some());
}

#[test]
fn closing_a_client_ends_the_wait_of_every_thread() {
    let (server, client) = server_and_client();
    let _guard = Client::connect(&server.url()).unwrap().lock("job").lock().unwrap();
    let mine = client.lock("mine").lock().unwrap();
    client.count_down_latch("latch").try_set_count(1).unwrap();
    let (lock, latch, seats) =
        (client.lock("job"), client.count_down_latch("latch"), client.semaphore("seats"));
    let waiting = thread::spawn(move || lock.lock().unwrap_err());
    let at_latch = thread::spawn(move || latch.wait());
    let at_seats = thread::spawn(move || seats.acquire().unwrap_err());
    let losing = thread::spawn(move || mine.lost());
    eventually("the waiter to sleep", || listeners(&server, "job") == 1);
    client.close();
    assert_eq!(joined(waiting), AcquireErrorKind::Closed);
    assert_eq!(joined(at_latch).map_err(|error| error.kind), Err(WaitErrorKind::Closed));
    assert_eq!(joined(at_seats), AcquireErrorKind::Closed);
    assert_eq!(joined(losing), LostReason::Closed);
    assert!(is_free(&server, "mine"));
    assert_eq!(client.lock("job").lock().unwrap_err(), AcquireErrorKind::Closed);
}

#[tokio::test]
async fn a_thread_waits_on_the_test_clock() {
    let server = leasehold::testing::Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let guard = one.lock("job").lease(Duration::from_secs(600)).lock().await.unwrap();
    let thread = tokio::task::spawn_blocking(move || {
        Client::from(other).lock("job").lock().unwrap().name().to_owned()
    });
    // Each step is shorter than the lease of a grant in flight.
    let passing = async {
        while !thread.is_finished() {
            server.advance(Duration::from_secs(5)).await;
        }
    };
    soon("the thread to have it", passing).await;
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert_eq!(thread.await.unwrap(), "job");
}
