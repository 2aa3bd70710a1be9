//! One lock over several independent servers, for threads that block.
//!
//! Invariant: a blocking Redlock wraps the async Redlock and adds no state.

use std::time::Duration;

use leasehold_proto::engine::LostReason;

use super::client::Client;
use super::forward::{convert, forward};
use super::park::{park, park_connecting};
use super::section::{Acquirable, Sealed, Section, Wraps};
use crate::error::{ConnectError, EnsureError, QuorumError, ReleaseError, RunError};
use crate::lock::guard::{Asker, ReleaseOutcome};
use crate::name::IntoName;
use crate::terms::{HoldTerms, lease_options};

/// A set of independent servers, a majority of which grants a lock: [`leasehold::Redlock`](crate::Redlock). Cheap to
/// clone.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::blocking::Redlock;
///
/// let nodes = ["memory://one", "memory://two", "memory://three"];
/// let redlock = Redlock::builder().nodes_persist_every_write().connect(nodes)?;
/// let guard = redlock.lock("order:42").lock()?;
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Redlock(crate::Redlock);

/// The settings of a [`Redlock`], before it connects: [`leasehold::redlock::RedlockBuilder`](crate::redlock::RedlockBuilder).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct RedlockBuilder(crate::redlock::RedlockBuilder);

/// A lock over the nodes of a [`Redlock`]: [`leasehold::QuorumLock`](crate::QuorumLock). Cheap to clone.
///
/// A thread that holds the lock can acquire it again.
#[derive(Clone, Debug)]
pub struct QuorumLock(crate::QuorumLock);

/// A hold of a majority of the nodes, released when dropped: [`leasehold::QuorumGuard`](crate::QuorumGuard).
///
/// # Losing the lease
/// The hold may be trusted as long as the holds on a majority of the nodes. A minority may fail, restart or lose its
/// data.
#[must_use = "dropping a guard releases the lock at once"]
#[derive(Debug)]
pub struct QuorumGuard(crate::QuorumGuard);

impl Redlock {
    forward! { Redlock as crate::Redlock;
        /// Returns the lock of this name.
        get fn lock(&self, name: impl IntoName) -> QuorumLock;
        /// Returns the lock of this name as a plain lock on every node, as libraries of other languages write it.
        get fn plain_lock(&self, name: impl IntoName) -> QuorumLock;
    }

    /// Connects to these servers. A server that is down is not an error.
    ///
    /// # Errors
    /// As [`Redlock::connect`](crate::Redlock::connect).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if there are no URLs.
    #[track_caller]
    pub fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        park_connecting("Redlock::connect", crate::Redlock::connect(urls)).map(Self)
    }

    /// Connects as a configuration describes. See [`Config::connect_quorum`](crate::config::Config::connect_quorum).
    ///
    /// # Errors
    /// As [`Config::connect_quorum`](crate::config::Config::connect_quorum).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[cfg(feature = "config")]
    #[track_caller]
    pub fn from_config(config: &crate::config::Config) -> Result<Self, crate::config::ConfigConnectError> {
        park_connecting("Config::connect_quorum", config.connect_quorum()).map(Self)
    }

    /// Returns a builder, for settings other than the defaults.
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder(crate::Redlock::builder())
    }

    /// Closes all clients. See [`Redlock::close`](crate::Redlock::close).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn close(&self) {
        park("Redlock::close", self.0.close());
    }
}

impl RedlockBuilder {
    forward! { RedlockBuilder as crate::redlock::RedlockBuilder;
        /// Sets the longest wait for one answer of a node (default 500 ms).
        set fn node_timeout(self, timeout: Duration) -> Self;
        /// Sets the longest sleep of a waiter before it polls again (default 1 s).
        set fn poll_interval(self, interval: Duration) -> Self;
        /// Sets the longest lease that any client of the fleet uses (default 30 s).
        set fn longest_lease(self, lease: Duration) -> Self;
        /// Declares that the servers lose nothing in a restart, so they count at once.
        set fn nodes_persist_every_write(self) -> Self;
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// As [`RedlockBuilder::connect`](crate::redlock::RedlockBuilder::connect).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if there are no URLs.
    #[track_caller]
    pub fn connect<U: AsRef<str>>(self, urls: impl IntoIterator<Item = U>) -> Result<Redlock, ConnectError> {
        park_connecting("RedlockBuilder::connect", self.0.connect(urls)).map(Redlock)
    }

    /// Makes a [`Redlock`] over existing clients. See [`RedlockBuilder::over`](crate::redlock::RedlockBuilder::over).
    ///
    /// # Panics
    /// Panics if `clients` is empty.
    #[must_use]
    #[track_caller]
    pub fn over(&self, clients: impl IntoIterator<Item = Client>) -> Redlock {
        Redlock(self.0.over(clients.into_iter().map(|client| client.0)))
    }
}

impl QuorumLock {
    forward! { QuorumLock as crate::QuorumLock;
        /// Acquires the lock, waiting as long as it takes.
        wait fn lock(&self) -> Result<QuorumGuard, QuorumError>;
        /// Tries to acquire the lock with exactly one call to each node. Returns `None` if another owner holds the
        /// lock.
        attempt fn try_lock(&self) -> Result<Option<QuorumGuard>, QuorumError>;
        /// Acquires the lock, waiting for at most `wait`. Returns `None` if another owner held the lock until then.
        attempt fn try_lock_for(&self, wait: Duration) -> Result<Option<QuorumGuard>, QuorumError>;
    }

    /// Runs a body on this thread under the lock. See [`QuorumLock::run`](crate::QuorumLock::run), except that a body that has
    /// begun runs to its end.
    ///
    /// # Errors
    /// As [`QuorumLock::run`](crate::QuorumLock::run).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if the body panics, which releases the lock.
    #[track_caller]
    pub fn run<T>(&self, body: impl FnOnce(&QuorumGuard) -> T) -> Result<T, RunError> {
        self.section().run_as("QuorumLock::run", body)
    }

    /// Creates a section, which runs a body under the lock. See [`QuorumLock::section`](crate::QuorumLock::section).
    pub fn section(&self) -> Section<Self> {
        Section::of(self.0.section())
    }

    pub(super) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        Self(self.0.map_terms(change))
    }
}

impl Sealed for QuorumLock {}

impl Acquirable for QuorumLock {
    type Async = crate::QuorumLock;
    type Guard = QuorumGuard;
}

impl Wraps for QuorumGuard {
    type Inner = crate::QuorumGuard;

    fn inner(&self) -> &crate::QuorumGuard {
        &self.0
    }

    fn into_inner(self) -> crate::QuorumGuard {
        self.0
    }
}

lease_options!(QuorumLock);

impl QuorumGuard {
    forward! { QuorumGuard as crate::QuorumGuard;
        /// Returns true if a majority of the holds may be trusted now, by the client's clock.
        get fn is_held(&self) -> bool;
        /// Returns the time for which the holds of a majority may be trusted unless they are renewed, or zero if the
        /// majority is lost.
        get fn remaining(&self) -> Duration;
        /// Returns the number of nodes on which the lock is held now.
        get fn votes(&self) -> usize;
        /// Waits until there is no majority any more, and returns the reason.
        until fn lost(&self) -> LostReason;
        /// Waits until somebody asks for the lock at any of the nodes.
        until fn asked(&self) -> Asker;
        /// Ensures that the holds of a majority may be trusted for at least this long. Renews them if necessary.
        wait fn ensure(&self, least: Duration) -> Result<(), EnsureError>;
        /// Extends the hold: gives it a lease of this length, counted from now.
        wait fn extend(&self, lease: Duration) -> Result<(), EnsureError>;
        /// Releases the lock on every node, and reports the outcome.
        wait fn release(self) -> Result<ReleaseOutcome, ReleaseError>;
    }

    /// Leaves the holds to their leases. See [`QuorumGuard::detach`](crate::QuorumGuard::detach).
    pub fn detach(self) {
        self.0.detach();
    }
}

convert!(Redlock = crate::Redlock);

convert!(QuorumLock = crate::QuorumLock);

convert!(QuorumGuard = crate::QuorumGuard);
