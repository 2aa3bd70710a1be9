//! The same locks for threads that block, without an executor and without `await`.
//!
//! Each type wraps the async type of the same name. Each method parks the calling thread until the async method of the
//! same name is done.
//!
//! ```
//! use leasehold::blocking::Client;
//! use std::time::Duration;
//!
//! fn charge(client: &Client, order: u64) -> Result<bool, leasehold::Error> {
//!     let lock = client.lock(format!("order:{order}"));
//!     let Some(guard) = lock.try_lock_for(Duration::from_secs(2))? else {
//!         return Ok(false); // another process charges this order
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
//! # Choose an API
//!
//! Use the blocking API in programs without an executor and in code that blocks anyway: a thread pool, a
//! `spawn_blocking` job, a library that calls back. Any thread may call it, and many threads may call it at once. Use
//! the async API for everything else. In the blocking API a thousand waiters are a thousand threads, and a body that
//! lost its lock cannot be canceled.
//!
//! Both APIs use one client ([`Client::as_async`], `Client::from`). They share its connections and its engine, so
//! their locks exclude, wake and hand over to each other. `into` converts locks and guards from one API to the other.
//!
//! | async | blocking |
//! |---|---|
//! | `Client::connect(url).await` | [`Client::connect`]`(url)` |
//! | `lock.lock().await` | [`lock.lock()`](Lock::lock) |
//! | `lock.try_lock().await` | [`lock.try_lock()`](Lock::try_lock) |
//! | `lock.try_lock_for(wait).await` | [`lock.try_lock_for(wait)`](Lock::try_lock_for) |
//! | `lock.run(async \|guard\| ..).await` | [`lock.run(\|guard\| ..)`](Lock::run), whose body runs to its end |
//! | `guard.release().await`, or dropped | [`guard.release()`](Guard::release), or dropped, which never blocks |
//! | `guard.lost().await` | [`guard.lost()`](Guard::lost), on a thread of its own |
//! | `owner::scope(async { .. })` | nothing, since the thread is the owner |
//! | `owner::ambient()` | [`owner`]`()` |
//!
//! All other methods have the same names and arguments. Methods that wait return the same errors.
//!
//! # Owners and re-entry
//!
//! The calling thread is the owner, as in Redisson. A second acquire of a lock that the thread holds is granted at
//! once, in any function, and another thread waits. If a thread is not the right owner, set an owner with
//! [`Lock::owned_by`]:
//! - A guard may be moved to another thread and dropped there. Until then its hold belongs to the first thread, which
//!   still re-enters. This matters on threads that are used again, because the next job of such a thread would re-enter
//!   a hold that the last job has passed on. In `spawn_blocking` each job is an owner of its own. Jobs of other pools
//!   cannot be told apart.
//! - In `block_in_place` the owner is the task on its present thread. Branches of one task (`join!`, `select!`)
//!   therefore do not exclude each other with guards that they hold across an `await`, and the task may or may not
//!   re-enter such a hold later. Await the async method there, give each branch an owner, or drop the guard within the
//!   call. Inside an [`owner::scope`](crate::owner::scope) the owner is the scope's.
//!
//! # In async code
//!
//! A method that waits panics, at its caller, when it is called where tokio polls futures, which is in a task or in a
//! future that `block_on` runs. The method would keep that thread from all other work, at worst from the release that
//! it waits for. Await the async method there, or call the blocking method in `tokio::task::spawn_blocking`. Threads of
//! `spawn_blocking`, `block_in_place`, and a thread that has only entered a runtime ([`Handle::enter`]) may call it.
//! The library cannot distinguish threads of executors other than tokio's and those of `futures` from plain threads.
//!
//! [`Handle::enter`]: tokio::runtime::Handle::enter

mod client;
mod election;
mod expirable;
mod fenced;
mod forward;
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
pub use election::{Election, Observer, Stopper, Term};
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
pub use section::{Acquirable, Section, SectionGuard};
pub use semaphore::Semaphore;
