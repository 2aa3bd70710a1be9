//! The same locks for threads that block: no executor, no `await`.
//!
//! Invariant: nothing is decided here. Each type is the async one, each method parks the calling thread until the async
//! method of the same name is done.
//! Called by: users whose code is not async.
//!
//! ```
//! use leasehold::blocking::Client;
//! use std::time::Duration;
//!
//! fn charge(client: &Client, order: u64) -> Result<bool, leasehold::Error> {
//!     let lock = client.lock(format!("order:{order}"));
//!     let Some(guard) = lock.try_lock_for(Duration::from_secs(2))? else {
//!         return Ok(false); // somebody else is at it
//!     };
//!     // ... ask the bank; the watchdog renews ...
//!     guard.ensure(Duration::from_secs(5))?; // enough for the last step
//!     // ... write it down ...
//!     guard.release()?;
//!     Ok(true)
//! }
//!
//! let client = Client::connect("memory://")?; // or "redis://127.0.0.1:6379"
//! assert!(charge(&client, 42)?);
//! # Ok::<(), leasehold::Error>(())
//! ```
//!
//! # Which face
//!
//! This one for programs without an executor, and for code that blocks anyway: a thread pool, a `spawn_blocking` job, a
//! library that calls back. It may be called from any thread, and from many at once. The async one for all else: a
//! thousand waiters are a thousand threads here, and a body that lost its lock cannot be stopped from outside.
//!
//! Both are faces of one client ([`Client::as_async`], `Client::from`): they share its connections and its engine, so
//! they exclude, wake and hand over to each other. Locks and guards convert from one face to the other by `into`.
//!
//! | async | blocking |
//! |---|---|
//! | `Client::connect(url).await` | [`Client::connect`]`(url)` |
//! | `lock.lock().await`, `try_lock`, `try_lock_for` | [`lock.lock()`](Lock::lock), [`try_lock`](Lock::try_lock), [`try_lock_for`](Lock::try_lock_for) |
//! | `lock.run(async \|guard\| ..).await` | [`lock.run(\|guard\| ..)`](Lock::run), whose body runs to its end |
//! | `guard.release().await`, or dropped | [`guard.release()`](Guard::release), or dropped, which never blocks |
//! | `guard.lost().await` | [`guard.lost()`](Guard::lost), on a thread of its own |
//! | `owner::scope(async { .. })` | nothing: the thread is the owner |
//! | `owner::ambient()` | [`owner`]`()` |
//!
//! All other methods have the same name and arguments, and waiting ones the same errors. No method is missing.
//!
//! # Who re-enters
//!
//! The calling thread is the owner, as in Redisson: a second acquire of a lock that it holds is granted at once, in
//! whatever function, and another thread waits. Where a thread is not the right owner give the lock one with
//! [`Lock::owned_by`]:
//! - A guard may be moved to another thread and dropped there, but until then its hold stays the first thread's, which
//!   still re-enters. This matters on threads that are used again: the next job of such a thread would re-enter a hold
//!   that the last one has passed on. Of `spawn_blocking` that is known, and each job is an owner of its own; of other
//!   pools it is not.
//! - In `block_in_place` the owner is the task on its present thread. Branches of one task (`join!`, `select!`) therefore
//!   do not exclude each other with guards that they hold across an `await`, and what a task so holds it may or may not
//!   re-enter later: await the async method there, give each branch an owner, or let the guard go within the call.
//!   Inside an [`owner::scope`](crate::owner::scope) the owner is the scope's.
//!
//! # In async code
//!
//! A method that waits panics, at its caller, when it is called where tokio polls futures: in a task, or in what
//! `block_on` runs. It would keep that thread from everything else, at worst from the release that it waits for. Await the
//! async method there, or call this one in `tokio::task::spawn_blocking`. It may be called on threads of
//! `spawn_blocking`, in `block_in_place`, and on a thread that has only entered a runtime ([`Handle::enter`]). Executors
//! other than those of tokio and `futures` cannot be told from plain threads.
//!
//! [`Handle::enter`]: tokio::runtime::Handle::enter

mod client;
mod expirable;
mod fenced;
mod guard;
mod installed;
mod latch;
mod lock;
mod multi;
mod park;
mod read_write;
mod redlock;
mod section;
mod semaphore;

pub use client::{Client, ClientBuilder};
pub use expirable::{ExpirableSemaphore, Permits};
pub use fenced::{FencedGuard, FencedWrites};
pub use guard::Guard;
pub use installed::{install, installed};
pub use latch::CountDownLatch;
pub use lock::{Kind, Lock};
pub use multi::{Member, MultiGuard, MultiLock};
pub use park::owner;
pub use read_write::RwLock;
pub use redlock::{QuorumGuard, QuorumLock, Redlock, RedlockBuilder};
pub use section::{Acquirable, Entered, Section};
pub use semaphore::Semaphore;
