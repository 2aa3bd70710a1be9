//! How every blocking call waits: it parks its thread until the async method is done.
//!
//! Invariant: a thread that drives async code is never parked, because the end of the wait may need a task of that
//! thread.
//!
//! # How it works
//! Async code is recognized by its *budget*. Tokio limits how much a task, or a future in `block_on`, does without a
//! pause. Other threads of tokio have no budget, such as those of `spawn_blocking` and `block_in_place`. A task that
//! was made `unconstrained` has no budget either, but tokio itself detects such a task when the thread parks. Among
//! other executors, only those of `futures` can be recognized.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt;
use leasehold_proto::Owner;
use leasehold_store::reading_runtime;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;
use tokio::task::{self, coop::consume_budget};

use crate::owner::{ambient, scope_of};
use crate::runtime::process::Process;

/// A number above every budget, which tokio counts in one byte. Whoever can spend this much has no budget.
const MORE_THAN_A_BUDGET: usize = 256;

/// The job of the calling thread, or `None` for a thread without a job.
type Job = Option<task::Id>;

thread_local! {
    static OWNER: Cell<Option<(Job, Owner)>> = const { Cell::new(None) };
}

/// Returns the owner of the calling thread's acquires.
///
/// A thread has one owner for its whole life. In `tokio::task::spawn_blocking` each job has an owner, since the next
/// job of that thread is unrelated to it. Within an [`owner::scope`](crate::owner::scope), also in `block_in_place`,
/// the owner is the scope's.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let lock = client.lock("order:42");
/// let guard = lock.lock()?;
/// assert!(lock.is_held_by(&leasehold::blocking::owner())?);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn owner() -> Owner {
    ambient().unwrap_or_else(of_thread)
}

fn of_thread() -> Owner {
    let job = task::try_id();
    let known = OWNER.get().filter(|(its_job, _)| *its_job == job);
    let (_, owner) = known.unwrap_or_else(|| (job, Owner::unique()));
    OWNER.set(Some((job, owner)));
    owner
}

/// Parks the calling thread until the future of this async method is ready. The thread owns what the future acquires.
#[track_caller]
pub(super) fn park<F: Future>(method: &str, future: F) -> F::Output {
    assert!(
        !is_async_code(),
        "`leasehold::blocking::{method}` was called in async code, and would keep its thread from everything else: \
         await `leasehold::{method}` instead, or call this one in `tokio::task::spawn_blocking`"
    );
    let owned = scope_of(owner(), future);
    if let Ok(runtime) = Handle::try_current() {
        return runtime.block_on(owned);
    }
    match Readers::of_this_process() {
        Some(readers) => read_until(readers, owned),
        None => futures_executor::block_on(owned),
    }
}

/// Parks the calling thread while it connects. The client then takes the runtime of the readers for its callers'.
#[track_caller]
pub(super) fn park_connecting<F: Future>(method: &str, future: F) -> F::Output {
    let readers = Handle::try_current().is_err().then(Readers::of_this_process).flatten();
    let mut future = pin!(future);
    park(
        method,
        poll_fn(|cx| {
            let _context = readers.map(Runtime::enter);
            future.as_mut().poll(cx)
        }),
    )
}

/// Reads for all threads until the future is ready. The future itself runs outside of the runtime: it calls observers and
/// drops values of the user, which may block on runtimes of their own.
fn read_until<F: Future>(readers: &Runtime, future: F) -> F::Output {
    let _entered = futures_executor::enter().expect("async code was refused");
    let mut future = pin!(future);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        readers.block_on(woken.0.notified());
    }
}

/// Wakes the one thread that waits for a future. A wake-up that comes before the wait is kept.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

/// The runtime of all threads of the process that wait outside of tokio. One of them at a time reads for all.
struct Readers {
    process: Process,
    /// Never dropped, because threads may wait until the process ends.
    runtime: Runtime,
}

impl Readers {
    /// Returns the runtime, unless the system refuses one, or the process is a fork of one that has it: a fork shares its
    /// parent's `epoll`, so each would take the other's events.
    fn of_this_process() -> Option<&'static Runtime> {
        static READERS: OnceLock<Option<Readers>> = OnceLock::new();
        let readers = READERS.get_or_init(|| {
            let runtime = reading_runtime().ok()?;
            Some(Readers { process: Process::current(), runtime })
        });
        readers.as_ref().filter(|readers| readers.process.check().is_ok()).map(|readers| &readers.runtime)
    }
}

/// Returns true if the calling thread drives async code, as far as that can be recognized.
fn is_async_code() -> bool {
    let has_budget = || (0..MORE_THAN_A_BUDGET).any(|_| consume_budget().now_or_never().is_none());
    futures_executor::enter().is_err() || (Handle::try_current().is_ok() && has_budget())
}
