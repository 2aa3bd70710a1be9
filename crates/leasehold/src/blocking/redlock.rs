//! One lock over several independent servers, for threads that block.
//!
//! Invariant: a blocking Redlock is the async one and nothing more.
//! Called by: users.

use std::time::Duration;

use leasehold_proto::engine::LostReason;

use super::Client;
use super::park::park;
use crate::error::{ConnectError, EnsureError, QuorumError, ReleaseError};
use crate::guard::ReleaseOutcome;
use crate::name::IntoName;

/// Several servers, a majority of which makes a lock: [`leasehold::Redlock`](crate::Redlock). Cheap to clone.
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

/// Settings of a [`Redlock`], before it connects: [`leasehold::RedlockBuilder`](crate::RedlockBuilder).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct RedlockBuilder(crate::RedlockBuilder);

/// A lock over the nodes of a [`Redlock`]: [`leasehold::QuorumLock`](crate::QuorumLock). Cheap to clone.
///
/// A thread that holds it may take it again.
#[derive(Clone, Debug)]
pub struct QuorumLock(crate::QuorumLock);

/// A hold of a majority of the nodes, released when dropped: [`leasehold::QuorumGuard`](crate::QuorumGuard).
///
/// # Losing the lease
/// It may be trusted for as long as a majority of the nodes may: a minority may fail, restart or lose its data.
#[must_use = "dropping a guard releases the lock at once"]
#[derive(Debug)]
pub struct QuorumGuard(crate::QuorumGuard);

impl Redlock {
    /// Connects to these servers; one that is down is no error.
    ///
    /// # Errors
    /// As [`Redlock::connect`](crate::Redlock::connect).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code). When there are no URLs.
    #[track_caller]
    pub fn connect<'a>(urls: impl IntoIterator<Item = &'a str>) -> Result<Self, ConnectError> {
        park("Redlock::connect", crate::Redlock::connect(urls)).map(Self)
    }

    /// Connects as a configuration says: [`Config::connect_quorum`](crate::config::Config::connect_quorum).
    ///
    /// # Errors
    /// As [`Config::connect_quorum`](crate::config::Config::connect_quorum).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[cfg(feature = "config")]
    #[track_caller]
    pub fn from_config(config: &crate::config::Config) -> Result<Self, crate::config::ConfigConnectError> {
        park("Config::connect_quorum", config.connect_quorum()).map(Self)
    }

    /// Settings other than the defaults.
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder(crate::Redlock::builder())
    }

    /// The lock of this name: [`Redlock::lock`](crate::Redlock::lock).
    #[must_use]
    pub fn lock(&self, name: impl IntoName) -> QuorumLock {
        QuorumLock(self.0.lock(name))
    }

    /// Closes all clients: [`Redlock::close`](crate::Redlock::close).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn close(&self) {
        park("Redlock::close", self.0.close());
    }
}

impl RedlockBuilder {
    /// How long a node may take for one answer: [`RedlockBuilder::node_timeout`](crate::RedlockBuilder::node_timeout).
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.0 = self.0.node_timeout(timeout);
        self
    }

    /// How long a waiter sleeps at most before it asks again: [`RedlockBuilder::poll_interval`](crate::RedlockBuilder::poll_interval).
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.0 = self.0.poll_interval(interval);
        self
    }

    /// The longest lease that anybody in the fleet uses: [`RedlockBuilder::longest_lease`](crate::RedlockBuilder::longest_lease).
    pub fn longest_lease(mut self, lease: Duration) -> Self {
        self.0 = self.0.longest_lease(lease);
        self
    }

    /// The servers lose nothing when they restart, and count at once: [`RedlockBuilder::nodes_persist_every_write`](crate::RedlockBuilder::nodes_persist_every_write).
    pub fn nodes_persist_every_write(mut self) -> Self {
        self.0 = self.0.nodes_persist_every_write();
        self
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// As [`RedlockBuilder::connect`](crate::RedlockBuilder::connect).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code). When there are no URLs.
    #[track_caller]
    pub fn connect<'a>(self, urls: impl IntoIterator<Item = &'a str>) -> Result<Redlock, ConnectError> {
        park("RedlockBuilder::connect", self.0.connect(urls)).map(Redlock)
    }

    /// Over clients that were made otherwise: [`RedlockBuilder::over`](crate::RedlockBuilder::over).
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    #[track_caller]
    pub fn over(&self, clients: impl IntoIterator<Item = Client>) -> Redlock {
        Redlock(self.0.over(clients.into_iter().map(|client| client.0)))
    }
}

impl QuorumLock {
    /// The same lock with a fixed lease and no watchdog: [`QuorumLock::lease`](crate::QuorumLock::lease).
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// The same lock with another lease for the watchdog: [`QuorumLock::watchdog`](crate::QuorumLock::watchdog).
    #[must_use]
    pub fn watchdog(self, lease: Duration) -> Self {
        Self(self.0.watchdog(lease))
    }

    /// Waits for the lock, for ever if need be.
    ///
    /// # Errors
    /// As [`QuorumLock::lock`](crate::QuorumLock::lock).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    #[track_caller]
    pub fn lock(&self) -> Result<QuorumGuard, QuorumError> {
        park("QuorumLock::lock", self.0.lock()).map(QuorumGuard)
    }

    /// Asks each node exactly once. `None` when somebody else holds the lock.
    ///
    /// # Errors
    /// As [`QuorumLock::try_lock`](crate::QuorumLock::try_lock).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    #[track_caller]
    pub fn try_lock(&self) -> Result<Option<QuorumGuard>, QuorumError> {
        park("QuorumLock::try_lock", self.0.try_lock()).map(|held| held.map(QuorumGuard))
    }

    /// Waits for the lock for at most this long. `None` when it was somebody else's until then.
    ///
    /// # Errors
    /// As [`QuorumLock::try_lock_for`](crate::QuorumLock::try_lock_for).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    #[track_caller]
    pub fn try_lock_for(&self, wait: Duration) -> Result<Option<QuorumGuard>, QuorumError> {
        park("QuorumLock::try_lock_for", self.0.try_lock_for(wait)).map(|held| held.map(QuorumGuard))
    }
}

impl QuorumGuard {
    /// Whether a majority may be trusted now, by the clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// For how long a majority may be trusted unless it is renewed; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// On how many nodes it is held now.
    #[must_use]
    pub fn votes(&self) -> usize {
        self.0.votes()
    }

    /// Waits until there is no majority any more, and says why.
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn lost(&self) -> LostReason {
        park("QuorumGuard::lost", self.0.lost())
    }

    /// Makes sure that a majority may be trusted for at least this long.
    ///
    /// # Errors
    /// As [`QuorumGuard::ensure`](crate::QuorumGuard::ensure).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn ensure(&self, least: Duration) -> Result<(), EnsureError> {
        park("QuorumGuard::ensure", self.0.ensure(least))
    }

    /// Releases on every node, and reports how it went.
    ///
    /// # Errors
    /// As [`QuorumGuard::release`](crate::QuorumGuard::release).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        park("QuorumGuard::release", self.0.release())
    }

    /// Gives the guard up without a release: [`QuorumGuard::keep`](crate::QuorumGuard::keep).
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
