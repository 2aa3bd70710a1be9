//! Redlock: one lock over several independent servers (antirez, "Distributed Locks with Redis").
//!
//! Invariant: a majority of the nodes must have granted, and be trusted still, for a hold to be trusted.
//! Called by: users.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use leasehold_proto::recipe::{LockRecipe, redlock};

use super::Lock;
use super::kind::{Claimed, Kind, Sealed};
use super::quorum::QuorumLock;
use crate::client::{Client, ClientBuilder};
use crate::defaults::Primitive;
use crate::error::{ConnectError, SubjectKind};
use crate::guard::Guard;
use crate::name::{IntoName, named};

/// How long a node may take for one answer, unless another time is given.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest lease in the fleet, unless another is given: the watchdog's.
const LONGEST_LEASE: Duration = Duration::from_secs(30);

/// Several servers that know nothing of each other, a majority of which makes a lock. Cheap to clone.
///
/// It goes on while a minority of them is down, and a server that loses its data takes no lock with it: a node counts
/// only when it has been up for longer than the longest lease, so that it cannot have forgotten a hold that is still
/// valid. A fleet that has just been started therefore grants nothing for that long. What it does not do: exclude a
/// holder that was paused past its lease, as no lock can; a resource that must be safe from that needs a fencing token,
/// of one server.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::Redlock;
///
/// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let redlock = Redlock::connect(nodes).await?;
/// let guard = redlock.lock("order:42").lock().await?;
/// assert!(guard.is_held());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redlock {
    nodes: Arc<[Client]>,
    uptime: Duration,
}

/// Settings of a [`Redlock`], before it connects.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct RedlockBuilder {
    client: ClientBuilder,
    uptime: Duration,
}

/// One node's part of a lock.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The longest lease in the fleet; zero when nodes forget nothing.
    fleet: Duration,
    /// That of this lock.
    lease: Duration,
}

impl Sealed for Node {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::Redlock
    }

    fn recipe(&self) -> &'static dyn LockRecipe {
        &redlock::Redlock
    }

    fn uptime(&self) -> Duration {
        if self.fleet.is_zero() { Duration::ZERO } else { self.fleet.max(self.lease) }
    }
}

impl Kind for Node {
    type Guard = Guard;

    fn guard(Claimed(guard): Claimed) -> Guard {
        guard
    }
}

impl Redlock {
    /// Connects to these servers: `redis://`, `unix://` or `memory://` each. A server that is down is no error; it is
    /// connected to as soon as it is there.
    ///
    /// # Errors
    /// [`ConnectError`] for a URL that cannot be used.
    ///
    /// # Panics
    /// When there are no URLs.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt; nothing is left behind.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let nodes = ["memory://one", "memory://two", "memory://three"];
    /// let redlock = leasehold::Redlock::connect(nodes).await?;
    /// // A fleet that has just been started grants nothing for 30 s.
    /// assert!(redlock.lock("order:42").try_lock().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect<'a>(urls: impl IntoIterator<Item = &'a str>) -> Result<Self, ConnectError> {
        Self::builder().connect(urls).await
    }

    /// Settings other than the defaults.
    pub fn builder() -> RedlockBuilder {
        let client = Client::builder().timeout(NODE_TIMEOUT).lazy();
        RedlockBuilder { client, uptime: LONGEST_LEASE }
    }

    /// The lock of this name.
    ///
    /// # Examples
    /// See [`Redlock`].
    #[must_use]
    pub fn lock(&self, name: impl IntoName) -> QuorumLock {
        let name = named(name);
        let node = |client: &Client| {
            let handle = client.handle();
            // A bound would end one node's part, which the others' would then take again.
            let terms = handle.defaults().terms(Primitive::Lock).unbounded();
            let name = name.clone().and_then(|name| handle.on_server(name));
            Lock::new(handle, name, terms, Node { fleet: self.uptime, lease: terms.lease() })
        };
        QuorumLock::new(self.nodes.iter().map(node).collect())
    }

    /// Closes all clients: [`Client::close`] of each, at the same time.
    ///
    /// # Cancel safety
    /// The clients are closed from the first poll on.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let guard = redlock.lock("order:42").lock().await?;
    /// redlock.close().await;
    /// assert!(!guard.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) {
        join_all(self.nodes.iter().map(Client::close)).await;
    }
}

impl Node {
    /// The same for locks with this lease.
    pub(super) const fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }
}

impl RedlockBuilder {
    /// How long a node may take for one answer, connecting included (default 500 ms): what a node that is down or stuck
    /// can cost an acquire.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.client = self.client.timeout(timeout);
        self
    }

    /// How long a waiter sleeps at most before it asks again (default 1 s).
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.client = self.client.poll_interval(interval);
        self
    }

    /// The longest lease that anybody in the fleet uses (default 30 s): a server that has been up for less does not
    /// count. Everybody must be given the same.
    pub const fn longest_lease(mut self, lease: Duration) -> Self {
        self.uptime = lease;
        self
    }

    /// The servers lose nothing when they restart, since each writes every change to disk before it answers
    /// (`appendfsync always`): they count at once.
    pub const fn nodes_persist_every_write(mut self) -> Self {
        self.uptime = Duration::ZERO;
        self
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// As [`Redlock::connect`].
    ///
    /// # Panics
    /// As [`Redlock::connect`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt; nothing is left behind.
    pub async fn connect<'a>(self, urls: impl IntoIterator<Item = &'a str>) -> Result<Redlock, ConnectError> {
        let clients = try_join_all(urls.into_iter().map(|url| self.client.clone().connect(url))).await?;
        Ok(self.over(clients))
    }

    /// Over clients that were made otherwise; their own settings hold, a short timeout among them.
    ///
    /// # Panics
    /// When there are none.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let names = ["memory://one", "memory://two", "memory://three"];
    /// let clients = futures_util::future::try_join_all(names.map(leasehold::Client::connect)).await?;
    /// let redlock = leasehold::Redlock::builder().nodes_persist_every_write().over(clients);
    /// let guard = redlock.lock("order:42").lock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn over(&self, clients: impl IntoIterator<Item = Client>) -> Redlock {
        let nodes: Arc<[Client]> = clients.into_iter().collect();
        assert!(!nodes.is_empty(), "a majority needs nodes");
        Redlock { nodes, uptime: self.uptime }
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes.iter()).finish()
    }
}
