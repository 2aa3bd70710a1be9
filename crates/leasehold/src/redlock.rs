//! Redlock: one lock over several independent servers (antirez, "Distributed Locks with Redis").

// Invariant: a hold is valid only while the grants of a majority of the nodes are valid.

mod guard;
mod lock;
mod node;
mod run;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};

use crate::client::{Client, ClientBuilder};
use crate::defaults::Primitive;
use crate::error::ConnectError;
use crate::lock::handle::Lock;
use crate::name::{IntoName, named};

pub use guard::QuorumGuard;
pub use lock::QuorumLock;
pub use node::Node;

/// The default of the longest wait for one answer of a node. It is short, because a round waits for its slowest node,
/// and the other nodes' leases run meanwhile.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// The default of the longest lease in the fleet, which is the watchdog's lease. A restarted node stays out for this
/// long.
const LONGEST_LEASE: Duration = Duration::from_secs(30);

/// A set of independent servers, a majority of which grants a lock. Cheap to clone.
///
/// A lock works while a minority of the servers is down, and survives a server that loses its data. A node counts only
/// after it has been up for longer than the longest lease, so it cannot have forgotten a valid hold. A fleet that was
/// just started therefore grants nothing for that time.
///
/// A quorum does not exclude a holder that was paused past its lease. No lock can. A resource that must be safe from
/// such a holder needs a fencing token, which a lock of one server gives.
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

/// The settings of a [`Redlock`], before it connects.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct RedlockBuilder {
    client: ClientBuilder,
    uptime: Duration,
}

impl Redlock {
    /// Connects to these servers, each by a URL as [`Client::connect`] takes it: `redis://`, `redis+sentinel://`,
    /// `redis+cluster://`, the same with `rediss` for TLS, `unix://` or `memory://`. A server that is down is not an
    /// error, because its client connects as soon as the server is up.
    ///
    /// A node should have no replicas. A replica that is promoted can lack grants of the node, and the check of the
    /// uptime does not notice this, because the replica can have been up for long. So a node behind sentinels or in a
    /// cluster needs [`Confirm::all`](crate::Confirm::all) with the number of its replicas, which
    /// [`QuorumLock::replicas`] sets.
    ///
    /// # Errors
    /// [`ConnectError`] if a URL cannot be used.
    ///
    /// # Panics
    /// Panics if `urls` is empty.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt and leaves nothing behind.
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
    pub async fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::builder().connect(urls).await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> RedlockBuilder {
        let client = Client::builder().timeout(NODE_TIMEOUT).lazy();
        RedlockBuilder { client, uptime: LONGEST_LEASE }
    }

    /// Returns the lock of this name.
    ///
    /// # Examples
    /// See [`Redlock`].
    #[must_use]
    pub fn lock(&self, name: impl IntoName) -> QuorumLock {
        self.quorum_lock(name, false)
    }

    /// Returns the lock of this name as a plain lock on every node, which excludes the holders of go-redsync, node-redlock,
    /// RedLock.net, pottery, rslock and other libraries over the same servers.
    ///
    /// The name is the key, so it has the prefix that the other library adds, such as `redlock:`.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let guard = redlock.plain_lock("order:42").lock().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn plain_lock(&self, name: impl IntoName) -> QuorumLock {
        self.quorum_lock(name, true)
    }

    fn quorum_lock(&self, name: impl IntoName, is_plain: bool) -> QuorumLock {
        let name = named(name);
        let primitive = if is_plain { Primitive::PlainLock } else { Primitive::Lock };
        let node = |client: &Client| {
            let handle = client.handle();
            // A bound would end the node hold of one node, which its renewal task would then acquire again.
            let terms = handle.defaults().terms(primitive).unbounded();
            let name = name.clone().and_then(|name| handle.on_server(name));
            Lock::new(handle, name, terms, Node::new(is_plain, self.uptime, terms.first_lease()))
        };
        QuorumLock::new(self.nodes.iter().map(node).collect())
    }

    /// Closes the clients of all nodes at the same time, as [`Client::close`] does.
    ///
    /// # Cancel safety
    /// The clients close from the first poll on, even if the future is dropped later.
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

impl RedlockBuilder {
    /// Sets the longest wait for one answer of a node, including the connect (default 500 ms). A node that is down or
    /// stuck delays an acquire by at most this time.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.client = self.client.timeout(timeout);
        self
    }

    /// Sets the longest sleep of a waiter before it polls again (default 1 s).
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.client = self.client.poll_interval(interval);
        self
    }

    /// Sets the longest lease that any client of the fleet uses (default 30 s). All clients must use the same value. A
    /// server that has been up for less time does not count.
    pub const fn longest_lease(mut self, lease: Duration) -> Self {
        self.uptime = lease;
        self
    }

    /// Declares that the servers lose nothing in a restart, since each writes every change to disk before it answers
    /// (`appendfsync always`). A server then counts immediately after its start.
    pub const fn nodes_persist_every_write(mut self) -> Self {
        self.uptime = Duration::ZERO;
        self
    }

    /// Connects to these servers with these settings.
    ///
    /// # Errors
    /// As [`Redlock::connect`].
    ///
    /// # Panics
    /// As [`Redlock::connect`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt and leaves nothing behind.
    ///
    /// # Examples
    /// See [`Redlock`].
    pub async fn connect<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Redlock, ConnectError> {
        let connect = async |url: U| self.client.clone().connect(url.as_ref()).await;
        let clients = try_join_all(urls.into_iter().map(connect)).await?;
        Ok(self.over(clients))
    }

    /// Creates a [`Redlock`] from existing clients.
    ///
    /// The clients keep their own settings, and the settings of this builder do not apply. Give them a short timeout.
    ///
    /// # Panics
    /// Panics if `clients` is empty.
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
