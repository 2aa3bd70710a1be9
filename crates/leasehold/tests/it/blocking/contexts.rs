//! The contexts in which the client refuses a blocking call, and those in which it works.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

use leasehold::blocking::{Client, Lock};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task;

use crate::blocking::{elsewhere, joined};
use crate::support::SOON;

thread_local! {
    /// The place of this thread's last panic.
    static PANICKED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Records the place of each panic, per thread.
fn note_panics() {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if let Some(at) = info.location() {
                PANICKED.set(format!("{}:{}", at.file(), at.line()));
            }
            before(info);
        }));
    });
}

/// The message of a call that must panic, and the place of the call.
#[track_caller]
fn refusal<T>(call: impl FnOnce() -> T) -> (String, String) {
    note_panics();
    let Err(said) = panic::catch_unwind(AssertUnwindSafe(call)) else { panic!("it was not refused") };
    let text = said.downcast_ref::<&str>().map(|said| (*said).to_owned());
    (text.or_else(|| said.downcast_ref().cloned()).unwrap_or_default(), PANICKED.take())
}

/// Calls `lock` in a context that must refuse it, and checks the message's advice and the place of the panic.
#[track_caller]
fn is_refused(lock: &Lock) {
    let line = line!() + 1;
    let (said, at) = refusal(|| lock.lock());
    assert!(said.contains("`leasehold::blocking::Lock::lock` was called in async code"), "{said}");
    assert!(said.contains("await `leasehold::Lock::lock` instead"), "{said}");
    assert!(said.contains("`tokio::task::spawn_blocking`"), "{said}");
    assert!(at.ends_with(&format!("contexts.rs:{line}")), "{at} is not the call");
}

/// Takes the lock in a context that must allow it.
fn is_at_home(lock: &Lock) {
    let guard = lock.lock().unwrap();
    assert!(guard.is_held() && lock.is_locked().unwrap());
    guard.release().unwrap();
}

fn lock() -> Lock {
    elsewhere(|| Client::connect("memory://").unwrap()).lock("job")
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).build().unwrap()
}

#[tokio::test]
async fn blocking_is_refused_in_a_test_on_one_thread() {
    let lock = lock();
    is_refused(&lock);
    task::yield_now().await; // the task goes on
    leasehold::Lock::from(lock).lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_is_refused_in_a_test_on_many_threads() {
    is_refused(&lock());
}

#[test]
fn blocking_is_refused_in_tasks_and_in_block_on() {
    let lock = lock();
    for runtime in [current_thread(), multi_thread()] {
        runtime.block_on(async { is_refused(&lock) });
        let in_task = lock.clone();
        runtime.block_on(runtime.spawn(async move { is_refused(&in_task) })).unwrap();
        let handle = runtime.handle().clone();
        let (in_job, inner) = (lock.clone(), handle.clone());
        let job = handle.spawn_blocking(move || inner.block_on(async { is_refused(&in_job) }));
        runtime.block_on(job).unwrap();
        let local = task::LocalSet::new();
        let in_local = lock.clone();
        let task = local.spawn_local(async move { is_refused(&in_local) });
        runtime.block_on(local.run_until(task)).unwrap();
    }
}

#[test]
fn blocking_is_refused_after_a_task_exhausted_its_budget() {
    let lock = lock();
    current_thread().block_on(async {
        use futures_util::FutureExt;
        while task::coop::consume_budget().now_or_never().is_some() {}
        is_refused(&lock);
    });
}

#[test]
fn blocking_is_refused_in_executors_of_futures() {
    let lock = lock();
    futures_executor::block_on(async { is_refused(&lock) });
    let runtime = current_thread();
    let _entered = runtime.enter();
    futures_executor::block_on(async { is_refused(&lock) });
}

#[test]
fn tokio_refuses_blocking_in_a_task_without_a_budget() {
    let lock = lock();
    let call = async {
        let line = line!() + 1;
        (line, refusal(|| lock.lock()))
    };
    let (line, (said, at)) = current_thread().block_on(task::unconstrained(call));
    assert!(said.contains("Cannot start a runtime from within a runtime"), "{said}");
    assert!(at.ends_with(&format!("contexts.rs:{line}")), "{at} is not the call");
}

#[test]
fn every_waiting_method_names_its_async_counterpart() {
    let client = elsewhere(|| Client::connect("memory://").unwrap());
    let said = current_thread().block_on(async {
        [
            refusal(|| Client::connect("memory://")).0,
            refusal(|| client.count_down_latch("latch").wait()).0,
            refusal(|| client.lock("job").section().run(|_| ())).0,
            refusal(|| client.lock("job").run(|_| ())).0,
            refusal(|| client.close()).0,
        ]
    });
    let names = ["Client::connect", "CountDownLatch::wait", "Section::run", "Lock::run", "Client::close"];
    for (said, name) in said.iter().zip(names) {
        assert!(said.contains(&format!("await `leasehold::{name}` instead")), "{said}");
    }
}

#[test]
fn methods_that_do_not_wait_are_never_refused() {
    let client = elsewhere(|| Client::connect("memory://").unwrap());
    let guard = client.lock("job").lock().unwrap();
    current_thread().block_on(async {
        assert!(guard.is_held() && !guard.remaining().is_zero());
        let _lock = client.fair_lock("job").lease(SOON).owned_by(&leasehold::blocking::owner());
        drop(guard);
    });
}

#[test]
fn blocking_works_in_spawn_blocking() {
    let lock = lock();
    for runtime in [current_thread(), multi_thread()] {
        let lock = lock.clone();
        runtime.block_on(runtime.spawn_blocking(move || is_at_home(&lock))).unwrap();
    }
}

#[test]
fn blocking_works_in_block_in_place() {
    let (lock, runtime) = (lock(), multi_thread());
    runtime.block_on(async { task::block_in_place(|| is_at_home(&lock)) });
    let task = runtime.spawn(async move {
        task::block_in_place(|| is_at_home(&lock));
        is_refused(&lock); // and is a task again
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn blocking_works_on_a_thread_that_entered_a_runtime() {
    let lock = lock();
    for runtime in [current_thread(), multi_thread()] {
        let _entered = runtime.enter();
        is_at_home(&lock);
        assert!(Handle::try_current().is_ok());
    }
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    is_at_home(&lock); // also when it is gone
}

#[test]
fn blocking_works_on_many_threads_at_once() {
    let lock = lock();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let lock = lock.clone();
            thread::spawn(move || is_at_home(&lock))
        })
        .collect();
    threads.into_iter().for_each(joined);
}
