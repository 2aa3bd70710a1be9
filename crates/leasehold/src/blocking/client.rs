//! The entry point of blocking code.
//!
//! Invariant: a blocking client wraps the async client and adds no state. Both use one engine.

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
use crate::defaults::Primitive;
use crate::error::ConnectError;
use crate::lock::{Fair, Fenced, Spin};
use crate::name::IntoName;
use crate::terms::HoldTerms;

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

/// The settings of a client, before it connects: [`leasehold::ClientBuilder`](crate::ClientBuilder).
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
    /// Connects to a server, which may be in this process.
    ///
    /// # Errors
    /// As [`Client::connect`](crate::Client::connect).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        park("Client::connect", crate::Client::connect(url)).map(Self)
    }

    /// Returns a builder, for settings other than the defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns the async client, which has the same connections and the same holds.
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

    /// Returns the reentrant lock of this name. See [`Client::lock`](crate::Client::lock).
    #[must_use]
    pub fn lock(&self, name: impl IntoName) -> Lock {
        Lock(self.0.lock(name))
    }

    /// Returns the fair lock of this name, whose waiters are served in order of arrival. See
    /// [`Client::fair_lock`](crate::Client::fair_lock).
    #[must_use]
    pub fn fair_lock(&self, name: impl IntoName) -> Lock<Fair> {
        Lock(self.0.fair_lock(name))
    }

    /// Returns the fenced lock of this name. Each grant has a token, higher than all tokens before it. See
    /// [`Client::fenced_lock`](crate::Client::fenced_lock).
    #[must_use]
    pub fn fenced_lock(&self, name: impl IntoName) -> Lock<Fenced> {
        Lock(self.0.fenced_lock(name))
    }

    /// Returns the spin lock of this name. It sends no wake-up messages, and waiters try again after growing pauses.
    /// See [`Client::spin_lock`](crate::Client::spin_lock).
    #[must_use]
    pub fn spin_lock(&self, name: impl IntoName) -> Lock<Spin> {
        Lock(self.0.spin_lock(name))
    }

    /// Returns the read-write lock of this name: many readers at a time, or one writer. See
    /// [`Client::rw_lock`](crate::Client::rw_lock).
    #[must_use]
    pub fn rw_lock(&self, name: impl IntoName) -> RwLock {
        RwLock(self.0.rw_lock(name))
    }

    /// Returns the semaphore of this name, whose permits have no lease. See
    /// [`Client::semaphore`](crate::Client::semaphore).
    #[must_use]
    pub fn semaphore(&self, name: impl IntoName) -> Semaphore {
        Semaphore(self.0.semaphore(name))
    }

    /// Returns the semaphore of this name whose permits have a lease. See
    /// [`Client::expirable_semaphore`](crate::Client::expirable_semaphore).
    #[must_use]
    pub fn expirable_semaphore(&self, name: impl IntoName) -> ExpirableSemaphore {
        ExpirableSemaphore(self.0.expirable_semaphore(name))
    }

    /// Returns the count-down latch of this name. See [`Client::count_down_latch`](crate::Client::count_down_latch).
    #[must_use]
    pub fn count_down_latch(&self, name: impl IntoName) -> CountDownLatch {
        CountDownLatch(self.0.count_down_latch(name))
    }

    /// Returns writes on behalf of the holder of this fencing token. See [`Client::fenced`](crate::Client::fenced).
    #[must_use]
    pub fn fenced(&self, token: u64) -> FencedWrites {
        FencedWrites(self.0.fenced(token))
    }

    /// Returns a new owner, different from all others, for [`Lock::owned_by`]. The owner of the calling thread is
    /// [`blocking::owner`](super::owner).
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.0.owner()
    }

    /// Connects as a configuration describes. See [`Config::connect`](crate::config::Config::connect).
    ///
    /// # Errors
    /// As [`Config::connect`](crate::config::Config::connect).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[cfg(feature = "config")]
    #[track_caller]
    pub fn from_config(config: &crate::config::Config) -> Result<Self, crate::config::ConfigConnectError> {
        park("Config::connect", config.connect()).map(Self)
    }

    /// Releases everything that this client holds, and waits until the server confirms, for at most the timeout. See
    /// [`Client::close`](crate::Client::close).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    ///
    /// # Losing the lease
    /// Guards of this client, async guards too, are lost at once.
    #[track_caller]
    pub fn close(&self) -> CloseReport {
        park("Client::close", self.0.close())
    }
}

impl ClientBuilder {
    /// Sets the longest duration of one call to the server (default 3 s). See
    /// [`ClientBuilder::timeout`](crate::ClientBuilder::timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0 = self.0.timeout(timeout);
        self
    }

    /// Sets the longest sleep of a waiter between two attempts when no wake-up comes (default 1 s). See
    /// [`ClientBuilder::poll_interval`](crate::ClientBuilder::poll_interval).
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.0 = self.0.poll_interval(interval);
        self
    }

    /// Sets how wake-ups travel on a node of a cluster. See
    /// [`ClientBuilder::sharded_pubsub`](crate::ClientBuilder::sharded_pubsub).
    pub fn sharded_pubsub(mut self, sharded_pubsub: ShardedPubsub) -> Self {
        self.0 = self.0.sharded_pubsub(sharded_pubsub);
        self
    }

    /// Connects with the first call instead of at once. See [`ClientBuilder::lazy`](crate::ClientBuilder::lazy).
    pub fn lazy(mut self) -> Self {
        self.0 = self.0.lazy();
        self
    }

    /// Sets the lease that the watchdog of all locks and permits renews (default 30 s). See
    /// [`ClientBuilder::watchdog`](crate::ClientBuilder::watchdog).
    pub fn watchdog(mut self, lease: Duration) -> Self {
        self.0 = self.0.watchdog(lease);
        self
    }

    /// Sets the terms of everything that one primitive makes. See
    /// [`ClientBuilder::defaults`](crate::ClientBuilder::defaults).
    pub fn defaults(mut self, of: Primitive, terms: HoldTerms) -> Self {
        self.0 = self.0.defaults(of, terms);
        self
    }

    /// Sets the pauses of all spin locks (default 1 ms to 128 ms). See
    /// [`ClientBuilder::spin_backoff`](crate::ClientBuilder::spin_backoff).
    pub fn spin_backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.0 = self.0.spin_backoff(first, longest);
        self
    }

    /// Sets a prefix for every name. See [`ClientBuilder::key_prefix`](crate::ClientBuilder::key_prefix).
    pub fn key_prefix(mut self, prefix: &str) -> Self {
        self.0 = self.0.key_prefix(prefix);
        self
    }

    /// Sets the name of the connections in `CLIENT LIST`. See
    /// [`ClientBuilder::client_name`](crate::ClientBuilder::client_name).
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
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn connect(self, url: &str) -> Result<Client, ConnectError> {
        park("ClientBuilder::connect", self.0.connect(url)).map(Client)
    }

    /// Connects to a custom store. `open` is async, since it runs on the client's own thread. Needs the feature
    /// `unstable-store`.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect_over`](crate::ClientBuilder::connect_over).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
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
