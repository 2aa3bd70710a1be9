//! The contract of a contender, for Rust: a peer implements [`Peer`], and its `main` calls [`serve`].
//!
//! `bench/peers/README.md` describes the lines that a contender reads and writes.

mod contract;
mod exclusion;
mod sample;
mod serve;
mod tasks;
mod usage;
mod workloads;

pub use contract::{Kind, What, Workload};
pub use serve::serve;

use std::time::Duration;

/// The side of a read-write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Shared with other readers.
    Read,
    /// Exclusive. All other kinds use this side too.
    Write,
}

/// One section that a task wants to run.
#[derive(Clone, Debug)]
pub struct Request {
    /// The name of the lock.
    pub name: String,
    /// The kind of the lock.
    pub kind: Kind,
    /// The side of a read-write lock.
    pub side: Side,
    /// The permits of a semaphore.
    pub permits: u32,
    /// The lease of the hold.
    pub lease: Duration,
    /// True if the hold outlives its lease, so that the peer must renew it.
    pub renewed: bool,
}

/// A peer: a library that runs a body under a lock.
pub trait Peer: Sized + Send + Sync + 'static {
    /// True if the sections block their thread. Each task then has a thread of its own.
    const BLOCKS: bool = false;

    /// Returns the reason why the peer cannot run a workload.
    fn refusal(workload: &Workload) -> Option<String>;

    /// Connects to the server. Each workload has a client of its own.
    fn connect(url: &str, workload: &Workload) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// Waits for the lock without a limit, polls the body to its end, and releases the lock.
    fn section<T: Send>(
        &self,
        request: &Request,
        body: impl Future<Output = T> + Send,
    ) -> impl Future<Output = anyhow::Result<T>> + Send;
}
