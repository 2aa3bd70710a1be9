//! Distributed locks over the Redis or Valkey that you already run, in the wire format of Redisson.
//!
//! Invariant: the public face is what this file and its public modules name.
//! Called by: users.
//!
//! ```no_run
//! # async fn example() -> Result<(), leasehold::Error> {
//! let client = leasehold::Client::connect("redis://127.0.0.1:6379").await?;
//! let guard = client.lock("order:42").lock().await?;
//! // ... the work that nobody else may do meanwhile ...
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Which primitive
//!
//! | you want | use |
//! |---|---|
//! | one holder at a time, over processes and machines | [`Client::lock`] |
//! | who came first is served first | [`Client::fair_lock`] |
//! | a number that makes writes of a paused holder impossible | [`Client::fenced_lock`] |
//! | very many very short holds, without messages | [`Client::spin_lock`] |
//! | many readers or one writer | [`Client::rw_lock`] |
//! | several locks, all or none | [`MultiLock`] |
//! | a lock that outlives the loss of a server | [`Redlock`] |
//! | at most n at a time | [`Client::expirable_semaphore`], or Redisson's plain [`Client::semaphore`] |
//! | to wait until n things are done | [`Client::count_down_latch`] |
//! | work that stops when the lock is lost | [`Lock::run`] |
//! | a function that runs under a lock | [`locked`](macro@locked) |
//! | one client for all functions that name none | [`install`], and [`installed`] to get at it |
//! | settings from files and the environment | [`config`] |
//! | to take a lock again in code that already holds it | [`owner::scope`], or [`Lock::owned_by`] |
//! | locks in code that is not async | [`blocking`] |
//! | to test code that takes locks | [`testing`], and `memory://` in place of a server's URL |
//!
//! # Features
//!
//! | feature | brings |
//! |---|---|
//! | `redis` (on unless switched off) | `redis://` and `unix://` |
//! | `macros` (on unless switched off) | the attribute [`locked`](macro@locked) |
//! | `blocking` | [`blocking`]: the same for threads that block; nothing else changes |
//! | `config` | settings from files and the environment: [`config`] |
//! | `unstable-store` | a client over a store of your own: `ClientBuilder::connect_over`; it may change with any version |
//! | `embedded` | a server in the process: `memory://` and [`testing`]; its Lua interpreter needs a C compiler |
//!
//! # What a distributed lock cannot promise
//!
//! It cannot stop a holder that was paused past its lease from writing. The holder's process may be suspended between
//! a check and the write, for longer than any lease, and another one then holds the lock. Only the resource itself can
//! refuse such a write, by a token that grows with each grant; no Redis lock can exclude a paused writer without that,
//! and neither can one in etcd, ZooKeeper or Hazelcast. What this library does promise: a [`Guard`] knows by its own
//! clock until when it may be trusted, tells you when that ends ([`Guard::lost`]), and no two guards of one lock are
//! valid at one moment as long as one server keeps its data and clocks run at the same rate within 1 %. With replicas,
//! a failover can lose a lock that was just taken; with a restart that loses data, so can a single server. A resource that
//! checks the token of a [`FencedGuard`] is safe from all of it.
//!
//! # How it works
//!
//! A lock is a hash on the server, with one field for its holder and a time to live, the *lease*. The *watchdog* renews
//! the lease every third of it. A waiter subscribes to a channel on which a release is announced, and asks again from
//! time to time in case the message is lost. All of a client's locks share two connections and one thread of their own,
//! so a busy async runtime cannot delay a renewal; futures of this crate run on any executor.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]
#![cfg_attr(
    not(any(feature = "redis", feature = "embedded", feature = "unstable-store")),
    allow(dead_code, unused_imports, reason = "without a back end no client is made")
)]

// So that the attribute can be used in this crate too: what it writes says `::leasehold`.
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
mod client;
mod connect;
mod defaults;
mod driver;
mod fenced;
mod guard;
mod installed;
#[cfg(all(test, shuttle))]
mod interleavings;
mod latch;
mod lock;
mod name;
mod operation;
mod section;
mod semaphore;
mod shared;
mod sync;
mod terms;
mod ticket;

pub use client::{Client, ClientBuilder};
pub use defaults::{HoldTerms, Primitive};
pub use error::{
    AcquireError, AcquireErrorKind, AlreadyInstalled, ConnectError, EnsureError, EnsureErrorKind, Error,
    FencedWriteError, InspectError, InspectErrorKind, NodeAnswer, NotInstalled, OperationError,
    OperationErrorKind, QuorumError, ReleaseError, ReleaseErrorKind, RunError, Subject, SubjectKind,
    UrlError, WaitError, WaitErrorKind,
};
pub use fenced::{FencedScript, FencedWrites};
pub use guard::{Guard, ReleaseOutcome};
pub use installed::{install, installed};
pub use latch::CountDownLatch;
#[cfg(feature = "macros")]
pub use leasehold_macros::locked;
pub use leasehold_proto::engine::{CloseReport, LostReason};
pub use leasehold_proto::recipe::Remaining;
pub use leasehold_proto::recipe::expirable::PERMITS_MAX;
pub use leasehold_proto::recipe::fenced::Tokens;
pub use leasehold_proto::{
    Applied, FreeWithin, LEASE_MAX, LEASE_MIN, LeaseError, MapEntry, NAME_BYTES_MAX, Name, NameError, Owner,
    PermitId, PermitIdError, RAW_NAME_BYTES_MAX, Reply, StoreError, StoreErrorKind, Verb, WireOwner,
};
pub use leasehold_store::ShardedPubsub;
pub use lock::{
    Fair, Fenced, FencedGuard, HoldGuard, Kind, Lock, Member, MultiGuard, MultiLock, Node, QuorumGuard,
    QuorumLock, Read, Redlock, RedlockBuilder, Reentrant, RwLock, Spin, Write,
};
pub use name::IntoName;
pub use section::{Acquirable, Entered, OnFinish, OnLost, OnePermit, Section};
pub use semaphore::{ExpirableSemaphore, Permits, Semaphore};
