//! The one way in which a blocking call waits.
//!
//! Invariant: no thread that drives async code is parked: whoever would end the wait may be a task of that thread.
//! Called by: every blocking method that waits.
//!
//! # How it works
//! Async code is told by what it alone has. A task of tokio's, and what its `block_on` polls, may only go on for as long
//! as its *budget* lasts; other threads of tokio's, those of `spawn_blocking` and `block_in_place` among them, have none.
//! A task that was made `unconstrained` has none either: tokio itself finds that out when it is asked to park. Of other
//! executors only those of `futures` can be told.

use std::cell::Cell;
use std::future::Future;

use futures_util::FutureExt;
use leasehold_proto::Owner;
use tokio::runtime::Handle;
use tokio::task::{self, coop::consume_budget};

use crate::owner::{ambient, scope_of};

/// More often than any budget allows, which tokio counts in one byte.
const MORE_THAN_A_BUDGET: usize = 256;

/// Whose the calling thread is: nobody's, or that of a job which it has been given.
type Job = Option<task::Id>;

thread_local! {
    static OWNER: Cell<Option<(Job, Owner)>> = const { Cell::new(None) };
}

/// The owner of what the calling thread acquires.
///
/// It is the thread's for as long as that lives; in `tokio::task::spawn_blocking` it is the job's, since the next job of
/// that thread has nothing to do with it. Within an [`owner::scope`](crate::owner::scope), which `block_in_place` may be
/// called in, it is the scope's.
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

/// Parks the calling thread until the future of this async method is ready; what it acquires is the thread's.
#[track_caller]
pub(super) fn park<F: Future>(method: &str, future: F) -> F::Output {
    assert!(
        !is_async_code(),
        "`leasehold::blocking::{method}` was called in async code, and would keep its thread from everything else: \
         await `leasehold::{method}` instead, or call this one in `tokio::task::spawn_blocking`"
    );
    let owned = scope_of(owner(), future);
    match Handle::try_current() {
        Ok(runtime) => runtime.block_on(owned),
        Err(_) => futures_executor::block_on(owned),
    }
}

/// Whether the calling thread drives async code, as far as that can be told.
fn is_async_code() -> bool {
    let has_budget = || (0..MORE_THAN_A_BUDGET).any(|_| consume_budget().now_or_never().is_none());
    futures_executor::enter().is_err() || (Handle::try_current().is_ok() && has_budget())
}
