//! The entry point of blocking code.
//!
//! Invariant: a blocking client is the async one and nothing more; what goes through either goes through one engine.
//! Called by: users.

use std::time::Duration;

use leasehold_proto::Owner;
#[cfg(feature = "unstable-store")]
use leasehold_proto::StoreError;
use leasehold_proto::engine::CloseReport;
use leasehold_store::ShardedPubsub;
#[cfg(feature = "unstable-store")]
use leasehold_store::{Runtime, Store};

use super::park::park;
use super::{CountDownLatch, ExpirableSemaphore, FencedWrites, Lock, RwLock, Semaphore};
use crate::defaults::{HoldTerms, Primitive};
use crate::error::ConnectError;
use crate::lock::{Fair, Fenced, Spin};
use crate::name::IntoName;

/// A client of one server, for threads that block: [`leasehold::Client`](crate::Client). Cheap to clone.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), leasehold::Error> {
/// let client = leasehold::blocking::Client::connect("memory://")?;
/// let guard = client.lock("order:42").lock()?;
/// guard.release()?;
/// client.close();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client(pub(super) crate::Client);

/// Settings of a client, before it connects: [`leasehold::ClientBuilder`](crate::ClientBuilder).
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # fn main() -> Result<(), leasehold::Error> {
/// let builder = leasehold::blocking::Client::builder().timeout(Duration::from_secs(1));
/// let client = builder.connect("memory://")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder(crate::ClientBuilder);

impl Client {
    /// Connects to a server, or to one in this process.
    ///
    /// # Errors
    /// As [`Client::connect`](crate::Client::connect).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        park("Client::connect", crate::Client::connect(url)).map(Self)
    }

    /// Settings other than the defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The client whose methods are async: the same connections, the same holds.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::blocking::Client::connect("memory://")?;
    /// let for_async_code: leasehold::Client = client.as_async().clone();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn as_async(&self) -> &crate::Client {
        &self.0
    }

    /// The reentrant lock of this name. See [`Client::lock`](crate::Client::lock).
    #[must_use]
    pub fn lock(&self, name: impl IntoName) -> Lock {
        Lock(self.0.lock(name))
    }

    /// The fair lock of this name: who came first is served first. See [`Client::fair_lock`](crate::Client::fair_lock).
    #[must_use]
    pub fn fair_lock(&self, name: impl IntoName) -> Lock<Fair> {
        Lock(self.0.fair_lock(name))
    }

    /// The fenced lock of this name: each grant has a token, higher than all before it. See [`Client::fenced_lock`](crate::Client::fenced_lock).
    #[must_use]
    pub fn fenced_lock(&self, name: impl IntoName) -> Lock<Fenced> {
        Lock(self.0.fenced_lock(name))
    }

    /// The spin lock of this name: no messages, waiters ask again after pauses that grow. See [`Client::spin_lock`](crate::Client::spin_lock).
    #[must_use]
    pub fn spin_lock(&self, name: impl IntoName) -> Lock<Spin> {
        Lock(self.0.spin_lock(name))
    }

    /// The read-write lock of this name: many read together, or one writes alone. See [`Client::rw_lock`](crate::Client::rw_lock).
    #[must_use]
    pub fn rw_lock(&self, name: impl IntoName) -> RwLock {
        RwLock(self.0.rw_lock(name))
    }

    /// The semaphore of this name, whose permits stay taken when a process dies. See [`Client::semaphore`](crate::Client::semaphore).
    #[must_use]
    pub fn semaphore(&self, name: impl IntoName) -> Semaphore {
        Semaphore(self.0.semaphore(name))
    }

    /// The semaphore of this name whose permits have a lease. See [`Client::expirable_semaphore`](crate::Client::expirable_semaphore).
    #[must_use]
    pub fn expirable_semaphore(&self, name: impl IntoName) -> ExpirableSemaphore {
        ExpirableSemaphore(self.0.expirable_semaphore(name))
    }

    /// The count-down latch of this name. See [`Client::count_down_latch`](crate::Client::count_down_latch).
    #[must_use]
    pub fn count_down_latch(&self, name: impl IntoName) -> CountDownLatch {
        CountDownLatch(self.0.count_down_latch(name))
    }

    /// Writes on behalf of the holder of this fencing token: [`Client::fenced`](crate::Client::fenced).
    #[must_use]
    pub fn fenced(&self, token: u64) -> FencedWrites {
        FencedWrites(self.0.fenced(token))
    }

    /// An owner that nobody else has, for [`Lock::owned_by`]; not that of the calling thread, which is
    /// [`blocking::owner`](super::owner).
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.0.owner()
    }

    /// Connects as a configuration says: [`Config::connect`](crate::config::Config::connect).
    ///
    /// # Errors
    /// As [`Config::connect`](crate::config::Config::connect).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[cfg(feature = "config")]
    #[track_caller]
    pub fn from_config(config: &crate::config::Config) -> Result<Self, crate::config::ConfigConnectError> {
        park("Config::connect", config.connect()).map(Self)
    }

    /// Releases everything that this client holds, and waits until the server has confirmed: [`Client::close`](crate::Client::close).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// Guards of this client, and those of its async face, are lost at once.
    #[track_caller]
    pub fn close(&self) -> CloseReport {
        park("Client::close", self.0.close())
    }
}

impl ClientBuilder {
    /// How long one call to the server may take: [`ClientBuilder::timeout`](crate::ClientBuilder::timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0 = self.0.timeout(timeout);
        self
    }

    /// How long a waiter sleeps at most before it asks again: [`ClientBuilder::poll_interval`](crate::ClientBuilder::poll_interval).
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.0 = self.0.poll_interval(interval);
        self
    }

    /// How wake-ups travel on a node of a cluster: [`ClientBuilder::sharded_pubsub`](crate::ClientBuilder::sharded_pubsub).
    pub fn sharded_pubsub(mut self, sharded_pubsub: ShardedPubsub) -> Self {
        self.0 = self.0.sharded_pubsub(sharded_pubsub);
        self
    }

    /// Connects with the first call instead of at once: [`ClientBuilder::lazy`](crate::ClientBuilder::lazy).
    pub fn lazy(mut self) -> Self {
        self.0 = self.0.lazy();
        self
    }

    /// The lease that the watchdog of all locks and permits renews: [`ClientBuilder::watchdog`](crate::ClientBuilder::watchdog).
    pub fn watchdog(mut self, lease: Duration) -> Self {
        self.0 = self.0.watchdog(lease);
        self
    }

    /// Terms for all that one primitive makes: [`ClientBuilder::defaults`](crate::ClientBuilder::defaults).
    pub fn defaults(mut self, of: Primitive, terms: HoldTerms) -> Self {
        self.0 = self.0.defaults(of, terms);
        self
    }

    /// The pauses of all spin locks: [`ClientBuilder::spin_backoff`](crate::ClientBuilder::spin_backoff).
    pub fn spin_backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.0 = self.0.spin_backoff(first, longest);
        self
    }

    /// A prefix for every name: [`ClientBuilder::key_prefix`](crate::ClientBuilder::key_prefix).
    pub fn key_prefix(mut self, prefix: &str) -> Self {
        self.0 = self.0.key_prefix(prefix);
        self
    }

    /// What the server calls the connections: [`ClientBuilder::client_name`](crate::ClientBuilder::client_name).
    pub fn client_name(mut self, name: &str) -> Self {
        self.0 = self.0.client_name(name);
        self
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`](crate::ClientBuilder::connect).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn connect(self, url: &str) -> Result<Client, ConnectError> {
        park("ClientBuilder::connect", self.0.connect(url)).map(Client)
    }

    /// Connects to a store of one's own; `open` is async, since it runs on the client's own thread. Needs the feature
    /// `unstable-store`.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect_over`](crate::ClientBuilder::connect_over).
    ///
    /// # Panics
    /// In [async code](crate::blocking#in-async-code).
    #[cfg(feature = "unstable-store")]
    #[track_caller]
    pub fn connect_over<R, S, O>(self, runtime: &R, server: &str, open: O) -> Result<Client, ConnectError>
    where
        R: Runtime + Clone,
        S: Store,
        O: AsyncFnOnce() -> Result<S, StoreError> + Send + 'static,
    {
        park("ClientBuilder::connect_over", self.0.connect_over(runtime, server, open)).map(Client)
    }
}

impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Self {
        Self(client)
    }
}

impl From<Client> for crate::Client {
    fn from(client: Client) -> Self {
        client.0
    }
}

impl AsRef<crate::Client> for Client {
    fn as_ref(&self) -> &crate::Client {
        &self.0
    }
}

impl From<crate::ClientBuilder> for ClientBuilder {
    fn from(builder: crate::ClientBuilder) -> Self {
        Self(builder)
    }
}
