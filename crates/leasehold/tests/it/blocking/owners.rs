//! The owner of a hold: the calling thread, the owner of its job, or an owner that the call names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use leasehold::ReleaseOutcome;
use leasehold::blocking::{MultiLock, Redlock, owner};
use leasehold::error::AcquireErrorKind;
use tokio::runtime::Builder;
use tokio::task;

use crate::blocking::{connect_without_polling, elsewhere, eventually, joined, server_and_client};
use crate::support::{count, is_free, ms};

#[test]
fn a_thread_re_enters_its_lock_and_other_threads_do_not() {
    let (server, client) = server_and_client();
    let lock = client.lock("job");
    let (outer, inner) = (lock.lock().unwrap(), client.lock("job").lock().unwrap());
    assert_eq!(count(&server, "job"), 2);
    assert_eq!(lock.hold_count(&owner()).unwrap(), 2);
    let other = lock.clone();
    elsewhere(move || {
        assert!(other.try_lock().unwrap().is_none());
        assert!(!other.is_held_by(&owner()).unwrap());
    });
    inner.release().unwrap();
    assert_eq!(count(&server, "job"), 1);
    outer.release().unwrap();
    assert!(is_free(&server, "job"));
}

#[test]
fn a_thread_cannot_re_enter_a_non_reentrant_lock() {
    let (_server, client) = server_and_client();
    let lock = client.lock("job").non_reentrant();
    let _guard = lock.lock().unwrap();
    assert_eq!(lock.lock().unwrap_err(), AcquireErrorKind::AlreadyHeld);
}

#[test]
fn threads_count_to_eight_hundred_under_one_lock() {
    const THREADS: u32 = 8;
    const TIMES: u32 = 100;
    let (server, client) = server_and_client();
    let clients = [client, leasehold::blocking::Client::connect(&server.url()).unwrap()];
    // The load and the store are separate steps, and any other thread may run between them.
    let counter = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..THREADS as usize)
        .map(|number| {
            let (lock, counter) = (clients[number % 2].lock("job"), Arc::clone(&counter));
            thread::spawn(move || {
                for _ in 0..TIMES {
                    let guard = lock.lock().unwrap();
                    let seen = counter.load(Ordering::Relaxed);
                    thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.load(Ordering::Relaxed), THREADS * TIMES);
    assert!(is_free(&server, "job"));
}

#[test]
fn a_guard_belongs_to_its_thread_until_another_thread_drops_it() {
    let (server, client) = server_and_client();
    let lock = client.lock("job");
    let guard = lock.lock().unwrap();
    let (let_go, told) = std::sync::mpsc::channel::<()>();
    let keeper = thread::spawn(move || {
        told.recv().unwrap();
        drop(guard);
    });
    lock.try_lock().unwrap().unwrap().release().unwrap();
    assert_eq!(count(&server, "job"), 1, "of the guard that is elsewhere");
    let_go.send(()).unwrap();
    joined(keeper);
    eventually("the release", || is_free(&server, "job"));
}

#[test]
fn each_job_of_a_thread_has_its_own_owner() {
    let (_server, client) = server_and_client();
    let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let job = |lock: leasehold::blocking::Lock| {
        let job = runtime.spawn_blocking(move || {
            let guard = lock.try_lock().unwrap();
            let again = lock.try_lock().unwrap();
            (thread::current().id(), guard.is_some(), again.is_some(), guard)
        });
        runtime.block_on(job).unwrap()
    };
    let (first, taken, again, guard) = job(client.lock("job"));
    assert!(taken && again, "a job re-enters what it holds");
    let (second, taken, ..) = job(client.lock("job"));
    assert_eq!(first, second, "there is one thread");
    assert!(!taken, "the next job is another owner");
    drop(guard);
}

#[test]
fn an_enclosing_scope_sets_the_owner() {
    let (server, client) = server_and_client();
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let lock = client.lock("job");
    runtime.block_on(leasehold::owner::scope(async {
        let outer = client.as_async().lock("job").lock().await.unwrap();
        task::block_in_place(|| {
            assert_eq!(Some(owner()), leasehold::owner::ambient());
            let inner = lock.lock().unwrap();
            assert_eq!(count(&server, "job"), 2);
            inner.release().unwrap();
        });
        outer.release().await.unwrap();
    }));
    assert!(is_free(&server, "job"));
}

#[test]
fn a_named_owner_is_the_same_on_every_thread() {
    let (server, client) = server_and_client();
    let mine = client.owner();
    let lock = client.lock("job").owned_by(&mine);
    let outer = lock.lock().unwrap();
    let inner = elsewhere(move || lock.try_lock().unwrap().unwrap());
    assert_eq!(count(&server, "job"), 2);
    assert!(client.lock("job").try_lock().unwrap().is_none(), "the thread itself is another owner");
    drop((outer, inner));
}

#[test]
fn a_multi_lock_and_a_quorum_re_enter_the_holds_of_their_thread() {
    let (server, client) = server_and_client();
    let one = client.lock("one").lock().unwrap();
    let both = MultiLock::of([client.lock("one").into(), client.lock("two").into()]);
    let guard = both.try_lock().unwrap().unwrap();
    assert_eq!(count(&server, "one"), 2);
    let others = both.clone();
    assert!(elsewhere(move || others.try_lock().unwrap().is_none()));
    guard.release().unwrap();
    one.release().unwrap();
    assert!(is_free(&server, "one") && is_free(&server, "two"));

    let redlock = Redlock::builder().nodes_persist_every_write().over([client]);
    let (outer, inner) = (redlock.lock("job").lock().unwrap(), redlock.lock("job").lock().unwrap());
    assert_eq!((outer.votes(), inner.votes()), (1, 1));
    assert!(elsewhere(move || redlock.lock("job").try_lock().unwrap().is_none()));
}

#[test]
fn a_thread_waits_until_granted_or_its_timeout() {
    let (server, client) = server_and_client();
    let guard = client.lock("job").lock().unwrap();
    let impatient = client.lock("job");
    let took = elsewhere(move || {
        let since = std::time::Instant::now();
        assert!(impatient.try_lock_for(ms(100)).unwrap().is_none());
        since.elapsed()
    });
    assert!(took >= ms(100), "{took:?}");
    let patient = connect_without_polling(&server).lock("job");
    let waiter = thread::spawn(move || patient.try_lock_for(crate::support::SOON).unwrap().is_some());
    eventually("the waiter to listen", || crate::support::listeners(&server, "job") == 1);
    guard.release().unwrap();
    assert!(joined(waiter), "it was woken");
}
