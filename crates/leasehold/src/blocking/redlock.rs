//! One lock over several independent servers, for threads that block.
//!
//! Invariant: a blocking Redlock wraps the async Redlock and adds no state.

use std::time::Duration;

use leasehold_proto::engine::LostReason;

use super::Client;
use super::park::park;
use crate::error::{ConnectError, EnsureError, QuorumError, ReleaseError};
use crate::lock::guard::ReleaseOutcome;
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
    /// Connects to these servers. A server that is down is not an error.
    ///
    /// # Errors
    /// As [`Redlock::connect`](crate::Redlock::connect).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if there are no URLs.
    #[track_caller]
    pub fn connect<'a>(urls: impl IntoIterator<Item = &'a str>) -> Result<Self, ConnectError> {
        park("Redlock::connect", crate::Redlock::connect(urls)).map(Self)
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
        park("Config::connect_quorum", config.connect_quorum()).map(Self)
    }

    /// Returns a builder, for settings other than the defaults.
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder(crate::Redlock::builder())
    }

    /// Returns the lock of this name. See [`Redlock::lock`](crate::Redlock::lock).
    #[must_use]
    pub fn lock(&self, name: impl IntoName) -> QuorumLock {
        QuorumLock(self.0.lock(name))
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
    /// Sets the longest wait for one answer of a node (default 500 ms). See
    /// [`RedlockBuilder::node_timeout`](crate::redlock::RedlockBuilder::node_timeout).
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.0 = self.0.node_timeout(timeout);
        self
    }

    /// Sets the longest sleep of a waiter before it polls again (default 1 s). See
    /// [`RedlockBuilder::poll_interval`](crate::redlock::RedlockBuilder::poll_interval).
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.0 = self.0.poll_interval(interval);
        self
    }

    /// Sets the longest lease that any client of the fleet uses (default 30 s). See
    /// [`RedlockBuilder::longest_lease`](crate::redlock::RedlockBuilder::longest_lease).
    pub fn longest_lease(mut self, lease: Duration) -> Self {
        self.0 = self.0.longest_lease(lease);
        self
    }

    /// Declares that the servers lose nothing in a restart, so they count at once. See
    /// [`RedlockBuilder::nodes_persist_every_write`](crate::redlock::RedlockBuilder::nodes_persist_every_write).
    pub fn nodes_persist_every_write(mut self) -> Self {
        self.0 = self.0.nodes_persist_every_write();
        self
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// As [`RedlockBuilder::connect`](crate::redlock::RedlockBuilder::connect).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if there are no URLs.
    #[track_caller]
    pub fn connect<'a>(self, urls: impl IntoIterator<Item = &'a str>) -> Result<Redlock, ConnectError> {
        park("RedlockBuilder::connect", self.0.connect(urls)).map(Redlock)
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
    pub(super) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        Self(self.0.map_terms(change))
    }

    /// Acquires the lock, waiting as long as it takes.
    ///
    /// # Errors
    /// As [`QuorumLock::lock`](crate::QuorumLock::lock).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    #[track_caller]
    pub fn lock(&self) -> Result<QuorumGuard, QuorumError> {
        park("QuorumLock::lock", self.0.lock()).map(QuorumGuard)
    }

    /// Tries to acquire the lock with exactly one call to each node. Returns `None` if another owner holds the lock.
    ///
    /// # Errors
    /// As [`QuorumLock::try_lock`](crate::QuorumLock::try_lock).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    #[track_caller]
    pub fn try_lock(&self) -> Result<Option<QuorumGuard>, QuorumError> {
        park("QuorumLock::try_lock", self.0.try_lock()).map(|held| held.map(QuorumGuard))
    }

    /// Acquires the lock, waiting for at most `wait`. Returns `None` if another owner held the lock until then.
    ///
    /// # Errors
    /// As [`QuorumLock::try_lock_for`](crate::QuorumLock::try_lock_for).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    #[track_caller]
    pub fn try_lock_for(&self, wait: Duration) -> Result<Option<QuorumGuard>, QuorumError> {
        park("QuorumLock::try_lock_for", self.0.try_lock_for(wait)).map(|held| held.map(QuorumGuard))
    }
}

lease_options!(QuorumLock);

impl QuorumGuard {
    /// Returns true if a majority of the holds may be trusted now, by the client's clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Returns the time for which the holds of a majority may be trusted unless they are renewed, or zero if the
    /// majority is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Returns the number of nodes on which the lock is held now.
    #[must_use]
    pub fn votes(&self) -> usize {
        self.0.votes()
    }

    /// Waits until there is no majority any more, and returns the reason.
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn lost(&self) -> LostReason {
        park("QuorumGuard::lost", self.0.lost())
    }

    /// Ensures that the holds of a majority may be trusted for at least this long. Renews them if necessary.
    ///
    /// # Errors
    /// As [`QuorumGuard::ensure`](crate::QuorumGuard::ensure).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn ensure(&self, least: Duration) -> Result<(), EnsureError> {
        park("QuorumGuard::ensure", self.0.ensure(least))
    }

    /// Releases the lock on every node, and reports the outcome.
    ///
    /// # Errors
    /// As [`QuorumGuard::release`](crate::QuorumGuard::release).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        park("QuorumGuard::release", self.0.release())
    }

    /// Leaves the holds to their leases. See [`QuorumGuard::detach`](crate::QuorumGuard::detach).
    pub fn detach(self) {
        self.0.detach();
    }
}

impl From<crate::Redlock> for Redlock {
    fn from(redlock: crate::Redlock) -> Self {
        Self(redlock)
    }
}

impl From<Redlock> for crate::Redlock {
    fn from(redlock: Redlock) -> Self {
        redlock.0
    }
}

impl From<crate::QuorumLock> for QuorumLock {
    fn from(lock: crate::QuorumLock) -> Self {
        Self(lock)
    }
}

impl From<QuorumLock> for crate::QuorumLock {
    fn from(lock: QuorumLock) -> Self {
        lock.0
    }
}

impl From<crate::QuorumGuard> for QuorumGuard {
    fn from(guard: crate::QuorumGuard) -> Self {
        Self(guard)
    }
}

impl From<QuorumGuard> for crate::QuorumGuard {
    fn from(guard: QuorumGuard) -> Self {
        guard.0
    }
}
