//! The entry point of blocking code.
//!
//! Invariant: a blocking client wraps the async client and adds no state. Both use one engine.

use std::time::Duration;

use leasehold_proto::Owner;
#[cfg(feature = "unstable-store")]
use leasehold_proto::StoreError;
use leasehold_proto::engine::CloseReport;
use leasehold_store::{Confirm, OnMissing, ShardedPubsub};
#[cfg(feature = "unstable-store")]
use leasehold_store::{Runtime, Store};

use super::election::Election;
use super::expirable::ExpirableSemaphore;
use super::fenced::FencedWrites;
use super::forward::{convert, forward};
use super::guard::Guard;
use super::latch::CountDownLatch;
use super::lock::Lock;
use super::park::park_connecting;
use super::read_write::RwLock;
use super::semaphore::Semaphore;
use crate::client::{Health, Holds, Waits};
use crate::defaults::Primitive;
use crate::error::{ConnectError, TicketError};
use crate::lock::{Fair, Fenced, Plain, Spin, Ticket};
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
    forward! { Client as crate::Client;
        /// Returns the reentrant lock of this name.
        get fn lock(&self, name: impl IntoName) -> Lock;
        /// Returns the fair lock of this name, whose waiters are served in order of arrival.
        get fn fair_lock(&self, name: impl IntoName) -> Lock<Fair>;
        /// Returns the fenced lock of this name. Each grant has a token, higher than all tokens before it.
        get fn fenced_lock(&self, name: impl IntoName) -> Lock<Fenced>;
        /// Returns the spin lock of this name. It sends no wake-up messages, and waiters try again after growing
        /// pauses.
        get fn spin_lock(&self, name: impl IntoName) -> Lock<Spin>;
        /// Returns the plain lock of this name, which libraries of every language share: `SET name value NX PX lease`.
        get fn plain_lock(&self, name: impl IntoName) -> Lock<Plain>;
        /// Returns the read-write lock of this name: many readers at a time, or one writer.
        get fn rw_lock(&self, name: impl IntoName) -> RwLock;
        /// Returns the semaphore of this name, whose permits have no lease.
        get fn semaphore(&self, name: impl IntoName) -> Semaphore;
        /// Returns the semaphore of this name whose permits have a lease.
        get fn expirable_semaphore(&self, name: impl IntoName) -> ExpirableSemaphore;
        /// Returns the count-down latch of this name.
        get fn count_down_latch(&self, name: impl IntoName) -> CountDownLatch;
        /// Returns writes on behalf of the holder of this fencing token.
        get fn fenced(&self, token: u64) -> FencedWrites;
        /// Returns a new owner, different from all others, for [`Lock::owned_by`]. The owner of the calling thread is
        /// [`blocking::owner`](super::owner).
        get fn owner(&self) -> Owner;
        /// Returns the id of the client, the first part of the owners of its holds.
        get fn id(&self) -> String;
        /// Returns the health of the client.
        get fn health(&self) -> Health;
        /// Returns the election of this name, of one leader among all processes.
        get fn election(&self, name: impl IntoName) -> Election;
        /// Returns what the client holds.
        get fn holds(&self) -> Holds;
        /// Returns what the client waits for.
        get fn waits(&self) -> Waits;
        /// Adopts the hold of a ticket, with the default terms of its kind.
        wait fn adopt(&self, ticket: &Ticket) -> Result<Guard, TicketError>;
        /// Releases everything that this client holds, and waits until the server confirms, for at most the timeout.
        until fn close(&self) -> CloseReport;
    }

    /// Connects to a server, which may be in this process.
    ///
    /// # Errors
    /// As [`Client::connect`](crate::Client::connect).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        park_connecting("Client::connect", crate::Client::connect(url)).map(Self)
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
        park_connecting("Config::connect", config.connect()).map(Self)
    }
}

impl ClientBuilder {
    forward! { ClientBuilder as crate::ClientBuilder;
        /// Sets the longest duration of one call to the server (default 3 s).
        set fn timeout(self, timeout: Duration) -> Self;
        /// Sets the longest sleep of a waiter between two attempts when no wake-up comes (default 1 s).
        set fn poll_interval(self, interval: Duration) -> Self;
        /// Sets the time for which a lock passes from waiter to waiter of this client without a call (default 2 ms).
        set fn hand_off(self, bound: Duration) -> Self;
        /// Sets how wake-ups travel on a node of a cluster.
        set fn sharded_pubsub(self, sharded_pubsub: ShardedPubsub) -> Self;
        /// Sets the replicas that must acknowledge each acquire, each renewal and each fenced write (default: none).
        set fn replicas(self, policy: Confirm) -> Self;
        /// Sets the longest time for the acknowledgments of replicas (default: a third of the timeout of a call).
        set fn replicas_within(self, within: Duration) -> Self;
        /// Chooses what a call does while fewer replicas are connected than it needs.
        set fn on_missing(self, on_missing: OnMissing) -> Self;
        /// Requires that the servers have written a call to their disks before it counts (default: false).
        set fn fsync(self, fsync: bool) -> Self;
        /// Connects with the first call instead of at once.
        set fn lazy(self) -> Self;
        /// Sets the lease that the watchdog of all locks and permits renews (default 30 s).
        set fn watchdog(self, lease: Duration) -> Self;
        /// Sets the terms of everything that one primitive makes.
        set fn defaults(self, of: Primitive, terms: HoldTerms) -> Self;
        /// Sets the pauses of all spin locks (default 1 ms to 128 ms).
        set fn spin_backoff(self, first: Duration, longest: Duration) -> Self;
        /// Sets a prefix for every name.
        set fn key_prefix(self, prefix: &str) -> Self;
        /// Shows the client to operators, or hides it.
        set fn visible(self, visible: bool) -> Self;
        /// Adds a label to what operators see of the client.
        set fn label(self, name: &str, value: &str) -> Self;
        /// Sets the name of the client.
        set fn client_name(self, name: &str) -> Self;
    }

    /// Adds an observer, which is told what the client decides. See
    /// [`ClientBuilder::observer`](crate::ClientBuilder::observer).
    pub fn observer(self, observer: impl crate::observe::Observer) -> Self {
        Self(self.0.observer(observer))
    }

    /// Sets the wait after which observers are told that a lock is waited for (default 5 s). See
    /// [`ClientBuilder::patience`](crate::ClientBuilder::patience).
    pub fn patience(self, patience: Duration) -> Self {
        Self(self.0.patience(patience))
    }

    /// Sets the function that puts names into groups. See [`ClientBuilder::group_by`](crate::ClientBuilder::group_by).
    pub fn group_by(self, group: fn(&str) -> std::borrow::Cow<'_, str>) -> Self {
        Self(self.0.group_by(group))
    }

    /// Sets whether observers, log lines and spans get lock names. See
    /// [`ClientBuilder::names`](crate::ClientBuilder::names).
    pub fn names(self, names: crate::observe::Names) -> Self {
        Self(self.0.names(names))
    }

    /// Makes each of these names a group of its own. See [`ClientBuilder::per_name`](crate::ClientBuilder::per_name).
    pub fn per_name<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        Self(self.0.per_name(names))
    }

    /// Sets the source of the login, which replaces the user and password of the URL. Its methods are async, since they run
    /// on the client's own thread. See [`ClientBuilder::credentials`](crate::ClientBuilder::credentials).
    #[cfg(feature = "redis")]
    pub fn credentials(self, provider: impl crate::CredentialsProvider) -> Self {
        Self(self.0.credentials(provider))
    }

    /// Sets the source of the login at the sentinels, which replaces the URL's. See
    /// [`ClientBuilder::sentinel_credentials`](crate::ClientBuilder::sentinel_credentials).
    #[cfg(feature = "redis")]
    pub fn sentinel_credentials(self, provider: impl crate::CredentialsProvider) -> Self {
        Self(self.0.sentinel_credentials(provider))
    }

    /// Sets the certificates and rules of encrypted connections (default: trust what the operating system trusts).
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub fn tls(self, tls: crate::Tls) -> Self {
        Self(self.0.tls(tls))
    }

    /// Sets the encryption of connections to sentinels (default: the same as of connections to servers).
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub fn sentinel_tls(self, tls: crate::SentinelTls) -> Self {
        Self(self.0.sentinel_tls(tls))
    }

    /// Sets the transport. Its methods are async, since they run on the client's own thread. See
    /// [`ClientBuilder::dialer`](crate::ClientBuilder::dialer).
    #[cfg(feature = "redis")]
    pub fn dialer(self, dialer: impl crate::Dial) -> Self {
        Self(self.0.dialer(dialer))
    }

    /// Translates the addresses that sentinels and clusters announce. See
    /// [`ClientBuilder::address_map`](crate::ClientBuilder::address_map).
    #[cfg(feature = "redis")]
    pub fn address_map(self, map: impl Fn(crate::Address) -> crate::Address + Send + Sync + 'static) -> Self {
        Self(self.0.address_map(map))
    }

    /// Connects with these settings.
    ///
    /// Blocks until [`ClientBuilder::connect`](crate::ClientBuilder::connect) is done.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`](crate::ClientBuilder::connect).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn connect(self, url: &str) -> Result<Client, ConnectError> {
        park_connecting("ClientBuilder::connect", self.0.connect(url)).map(Client)
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
        park_connecting("ClientBuilder::connect_over", self.0.connect_over(runtime, server, open)).map(Client)
    }
}

convert!(Client = crate::Client);

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
