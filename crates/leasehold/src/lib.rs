//! Distributed locks over the Redis or Valkey server that you already run, in the wire format of Redisson.
//!
//! A process connects one [`Client`] and makes locks by name. A lock has one holder at a time. It excludes all other
//! tasks and threads of the process, all other processes that use the same server and, through Redisson, Java services.
//! A watchdog renews the lease of the lock while its guard lives. When the guard is released or dropped, the next
//! waiter is woken.
//!
//! ```no_run
//! # async fn example() -> Result<(), leasehold::Error> {
//! let client = leasehold::Client::connect("redis://127.0.0.1:6379").await?;
//! let guard = client.lock("order:42").lock().await?; // waits as long as it takes
//! // ... charge the order; no other holder of this lock does so now ...
//! guard.release().await?; // reports the outcome; dropping the guard releases too
//! # Ok(())
//! # }
//! ```
//!
//! The URL `memory://` needs no server (feature `embedded`). The next examples use it.
//!
//! # Wait for a limited time
//!
//! [`Lock::try_lock_for`] waits for at most a given time and [`Lock::try_lock`] tries once. Both return `None` if
//! another owner holds the lock, which is an answer and not an error.
//!
//! ```
//! # use std::time::Duration;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::Error> {
//! # let client = leasehold::Client::connect("memory://").await?;
//! let lock = client.lock("order:42");
//! if let Some(guard) = lock.try_lock_for(Duration::from_secs(2)).await? {
//!     // ... charge the order ...
//!     guard.release().await?;
//! } else {
//!     println!("another process charges this order");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Run a body under a lock
//!
//! [`Lock::run`] acquires the lock, runs the body and releases the lock. If the lock is lost meanwhile, it cancels the
//! body at its next await point and returns [`RunError::Lost`]. [`Lock::section`] does the same with a limited wait,
//! or leaves the lock to its lease at the end.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::Error> {
//! # let client = leasehold::Client::connect("memory://").await?;
//! let lock = client.lock("order:42");
//! let cents = lock.run(async |_guard| 1999).await?;
//! assert_eq!(cents, 1999);
//! assert!(!lock.is_locked().await?);
//! # Ok(())
//! # }
//! ```
//!
//! The attribute [`locked`](macro@locked) does the same for a whole function:
//!
//! ```
//! use leasehold::{Client, RunError, locked};
//!
//! #[locked(name = "order:{order_id}", wait = "5s", client = client)]
//! async fn charge(client: &Client, order_id: u64) -> Result<u64, RunError> {
//!     // ... no other call charges this order now ...
//!     Ok(order_id)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::Error> {
//! let client = Client::connect("memory://").await?;
//! assert_eq!(charge(&client, 42).await?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! # Choose a primitive
//!
//! | you need | use |
//! |---|---|
//! | one holder at a time, over processes and machines | [`Client::lock`] |
//! | waiters served in order of arrival | [`Client::fair_lock`] |
//! | a token by which a resource refuses the writes of a paused holder | [`Client::fenced_lock`] |
//! | many very short holds, without wake-up messages | [`Client::spin_lock`] |
//! | many readers or one writer | [`Client::rw_lock`] |
//! | several locks, all or none | [`MultiLock`] |
//! | a lock that survives the loss of a server | [`Redlock`] |
//! | at most n holders at a time | [`Client::expirable_semaphore`], or Redisson's plain [`Client::semaphore`] |
//! | one leader among many processes, told when it has to stop | [`Client::election`] |
//! | to wait until n tasks are done | [`Client::count_down_latch`] |
//! | a body that stops when the lock is lost | [`Lock::run`] |
//! | a function that runs under a lock | [`locked`](macro@locked) |
//! | one client for all functions that name no client | [`install`] (sets it) and [`installed`] (returns it) |
//! | settings from files and the environment | [`config`] |
//! | to acquire a lock again in code that already holds it | [`owner::scope`], or [`Lock::owned_by`] |
//! | locks in code that is not async | [`blocking`] |
//! | to test code that uses locks | [`testing`] |
//!
//! # Handle errors
//!
//! Each operation has its own small error type, such as [`AcquireError`], [`ReleaseError`] and [`RunError`]. [`Error`]
//! holds any of them, for `?`. An error says which is true: the lock was not acquired; the outcome is unknown, and the
//! lock is free again by a stated time; or the lock was held and is lost, with the [reason](LostReason). [`Error`] and
//! each of its variants have the methods `is_busy`, `is_unavailable`, `is_lost` and `is_retryable`. The module
//! [`error`] maps them to HTTP status codes.
//!
//! # Shut down
//!
//! [`Client::close`] releases everything that the client holds, ends its waits with an error, and waits until the
//! server confirms, for at most the client's timeout (3 s unless changed). Call it before the program ends. Otherwise
//! locks that the program still holds stay closed until their leases end. A client whose last clone, lock, guard and
//! future is dropped releases its holds too, but the program cannot wait for it.
//!
//! # Read on
//!
//! The [`guide`] has a page for each of these: [getting started](guide::getting_started), [choosing a
//! primitive](guide::choosing_a_primitive), [errors and HTTP](guide::errors_and_http), [threads without
//! async](guide::blocking), [one worker](guide::singleton_worker), [leaders](guide::leaders), [testing](guide::testing),
//! [deploying](guide::deploying), [metrics and logs](guide::observing), [coming from Redisson](guide::from_redisson), [coming from other
//! libraries](guide::from_other_libraries), [the attribute](guide::attribute) and [the
//! configuration](guide::configuration).
//!
//! # Features
//!
//! | feature | brings |
//! |---|---|
//! | `redis`, on by default | `redis://`, `redis+sentinel://`, `redis+cluster://` and `unix://` |
//! | `macros`, on by default | the attribute [`locked`](macro@locked) |
//! | `blocking` | [`blocking`]: the same API for threads, without async |
//! | `config` | [`config`]: settings from files and the environment |
//! | `embedded` | an in-process server: `memory://` and [`testing`] (needs a C compiler, for Lua) |
//! | `tls-ring`, `tls-aws-lc` | `rediss://`: encrypted connections (need a C compiler) |
//! | `metrics` | [metrics](guide::observing): counters, histograms and gauges, for the recorder that the program installs |
//! | `tracing` | log lines and spans: [warnings](guide::observing#get-logs) of losses, long waits, unknown outcomes and missing replicas |
//! | `unstable-store` | `ClientBuilder::connect_over`, a client over a custom store, which may change with any version |
//!
//! # What a distributed lock cannot promise
//!
//! A lock cannot stop a holder that was paused past its lease from writing. The holder's process may be suspended
//! between a check and the write, for longer than any lease, and another owner then holds the lock. Only the resource
//! itself can refuse such a write, by a token that grows with each grant. Without such a check no lock in Redis
//! excludes a paused writer, and neither does a lock in etcd, ZooKeeper or Hazelcast.
//!
//! This library promises:
//!
//! - A [`Guard`] knows by its own clock until when it may be trusted, and reports when that ends ([`Guard::lost`]).
//! - At most one owner has a valid guard of a lock at any instant, as long as one server keeps its data and clocks
//!   run at the same rate within 1 %.
//!
//! A failover to a replica can lose a lock that was just acquired. A restart that loses data does the same on a single
//! server. A resource that checks the token of a [`FencedGuard`] is safe from all of these cases.
//!
//! # How it works
//!
//! A lock is a hash on the server, with one field for its holder and a time to live, the *lease* (30 s unless
//! changed). The *watchdog* renews the lease every third of it. A waiter subscribes to a channel on which each release
//! is announced. It also tries again by itself, at the latest after the poll interval of 1 s, in case a message is
//! lost. All locks of a client share two connections and one thread of their own, so a busy async runtime cannot delay
//! a renewal. The futures of this crate run on any executor.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]
#![cfg_attr(
    not(any(feature = "redis", feature = "embedded", feature = "unstable-store")),
    allow(dead_code, unused_imports, reason = "without a store no client is made")
)]

// Lets this crate use the attribute too, since the generated code names `::leasehold`.
#[cfg(feature = "macros")]
extern crate self as leasehold;

#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "config")]
pub mod config;
pub mod error;
#[cfg(doc)]
pub mod guide;
pub mod owner;
#[cfg(feature = "embedded")]
pub mod testing;

#[cfg(feature = "macros")]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod any_error;
pub mod client;
mod defaults;
pub mod election;
pub mod fenced_writes;
#[cfg(all(test, shuttle))]
mod interleavings;
mod latch;
pub mod lock;
pub mod multi;
pub mod name;
pub mod observe;
pub mod redlock;
mod runtime;
pub mod semaphore;
pub mod terms;

#[doc(inline)]
pub use any_error::Error;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use client::connect::{
    Address, ByteStream, Credentials, CredentialsFile, CredentialsProvider, Dial, ProviderError, Socket,
};
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub use client::connect::{SentinelTls, Tls, TlsProvider};
#[doc(inline)]
pub use client::installed::{install, installed};
#[doc(inline)]
pub use client::{Client, ClientBuilder};
#[doc(inline)]
pub use defaults::Primitive;
#[doc(inline)]
pub use election::{Election, Term};
#[doc(inline)]
pub use error::{
    AcquireError, ConnectError, EnsureError, FencedWriteError, InspectError, OperationError, PermitsError,
    QuorumError, ReleaseError, RunError, TicketError, TransferError, UpgradeError, WaitError,
};
#[doc(inline)]
pub use latch::CountDownLatch;
#[cfg(feature = "macros")]
pub use leasehold_macros::locked;
#[doc(inline)]
pub use leasehold_proto::engine::LostReason;
#[doc(inline)]
pub use leasehold_proto::{Name, Owner};
#[doc(inline)]
pub use leasehold_store::{Confirm, OnMissing};
#[doc(inline)]
pub use lock::{
    Endless, FencedGuard, Guard, Lock, OnFinish, OnLost, PlainFormat, ReleaseOutcome, RwLock, Ticket,
};
#[doc(inline)]
pub use multi::{MultiGuard, MultiLock};
#[doc(inline)]
pub use redlock::{QuorumGuard, QuorumLock, Redlock};
#[doc(inline)]
pub use semaphore::{ExpirableSemaphore, Permits, Semaphore};
#[doc(inline)]
pub use terms::HoldTerms;
