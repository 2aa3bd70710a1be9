//! The settings of a client that concern its servers.

#[cfg(feature = "redis")]
use std::sync::Arc;
use std::time::Duration;

use leasehold_store::{Confirm, OnMissing};

use super::ClientBuilder;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use super::connect::SentinelTls;
#[cfg(feature = "redis")]
use super::connect::{Address, AddressMap, CredentialsProvider, CredentialsSource, Dial};

impl ClientBuilder {
    /// Sets the replicas that must acknowledge each acquire, each renewal and each fenced write (default: none).
    ///
    /// A replica that takes over after a failover then has every hold that a client trusts, if it acknowledged it. So
    /// use [`Confirm::all`] with the number of replicas of each master, and `min-replicas-to-write` on the servers. With
    /// fewer, a replica without the hold can take over, and grant it twice. `Confirm::all(1)` does not exclude that: a
    /// replica that has lost its connection to the master does not count, and can still become the master.
    ///
    /// A call that too few replicas acknowledge fails. Its lock is not held, and a renewal does not prolong the trust in a
    /// hold. Each call takes a round trip to the replicas longer. Calls that run at the same time share that round trip.
    /// Releases need no replica.
    ///
    /// A lock can have a policy of its own ([`Lock::replicas`](crate::Lock::replicas)). Calls that replicas confirm have two
    /// connections of their own, so they do not keep other calls waiting. An in-memory server has no replicas, so it
    /// confirms each call at once.
    ///
    /// The server's user needs the right to `WAIT`, and `INFO` for [`Confirm::all`]. [The
    /// guarantees](https://github.com/leasehold-rs/leasehold/blob/main/docs/guarantees.md#tiers) say what remains
    /// possible.
    pub const fn replicas(mut self, policy: Confirm) -> Self {
        self.options.replicas.policy = policy;
        self
    }

    /// Sets the longest time for the acknowledgments of replicas (default: a third of the timeout of a call, at least
    /// 1 ms).
    pub const fn replicas_within(mut self, within: Duration) -> Self {
        self.options.replicas.within = Some(within);
        self
    }

    /// Chooses what a call does while fewer replicas are connected than the [policy](Self::replicas) needs (default:
    /// [`OnMissing::Fail`]).
    ///
    /// With [`OnMissing::Warn`], a fleet whose replicas are down still grants locks, which a failover can then lose. The
    /// server's user needs the right to `INFO`.
    pub const fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.options.replicas.on_missing = on_missing;
        self
    }

    /// Requires that the server, and each replica of the [policy](Self::replicas), has written a call to its disk before it
    /// counts (default: false).
    ///
    /// A loss of power of all servers at once then loses no confirmed hold. It needs `WAITAOF`, of Redis 7.2 and later,
    /// `appendonly yes`, and the right to `WAITAOF`. Without the first two, the connect fails and says which one is
    /// missing. A call takes until the next write to the disk: up to a second with `appendfsync everysec`, so
    /// [`replicas_within`](Self::replicas_within) must be longer, and about one write with `always`.
    pub const fn fsync(mut self, fsync: bool) -> Self {
        self.options.replicas.fsync = fsync;
        self
    }

    /// Sets the source of the login, which replaces the URL's user and password (default: the URL's).
    ///
    /// It is a [`Credentials`](crate::Credentials) that does not change, a [`CredentialsFile`](crate::CredentialsFile)
    /// that each connection reads again, or a [`CredentialsProvider`] of your own, such as the tokens of a cloud. A
    /// source that fails is a failure to connect, of the kind
    /// [`Credentials`](crate::error::StoreErrorKind::Credentials). Sentinels have a
    /// [login of their own](Self::sentinel_credentials).
    ///
    /// Credentials that expire are replaced on open connections before that time, and locks stay held. With a server that
    /// speaks RESP2 alone, the connection for wake-ups is made anew for that.
    ///
    /// # Examples
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, CredentialsFile};
    ///
    /// let login = CredentialsFile::new("/run/secrets/redis").user("orders");
    /// let client = Client::builder().credentials(login).connect("redis://redis.example.org").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.options.credentials = Some(CredentialsSource::new(provider));
        self
    }

    /// Sets the source of the login at the sentinels, which replaces the `sentinel_username` and `sentinel_password` of the
    /// URL (default: those of the URL).
    ///
    /// Each new connection to a sentinel asks the source again. An open connection keeps its login, also when the
    /// credentials expire.
    ///
    /// # Examples
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, CredentialsFile};
    ///
    /// let client = Client::builder()
    ///     .credentials(CredentialsFile::new("/run/secrets/redis").user("orders"))
    ///     .sentinel_credentials(CredentialsFile::new("/run/secrets/sentinel"))
    ///     .connect("redis+sentinel://s1,s2,s3/orders")
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn sentinel_credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.options.sentinel_credentials = Some(CredentialsSource::new(provider));
        self
    }

    /// Sets the encryption of connections to sentinels (default: the same as of connections to servers).
    ///
    /// # Examples
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, SentinelTls, Tls};
    ///
    /// let client = Client::builder()
    ///     .tls(Tls::new().ca_file("/etc/redis/ca.pem"))
    ///     .sentinel_tls(SentinelTls::PlainText)
    ///     .connect("rediss+sentinel://s1,s2,s3/orders")
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub fn sentinel_tls(mut self, tls: SentinelTls) -> Self {
        self.options.sentinel_tls = tls;
        self
    }

    /// Sets the transport (default: the sockets of the operating system). A URL that begins with `rediss` is encrypted
    /// above it, and so are sentinels with certificates of their own.
    ///
    /// A client does not share a connection with the application. A call that runs out of time closes its connection, so
    /// that it does not run late, and replies and messages never travel together. This costs two connections for each
    /// server, and needs no pool. [`Dial`] says what a transport owes to locks.
    ///
    /// # Examples
    /// See [`Dial`].
    #[cfg(feature = "redis")]
    pub fn dialer(mut self, dialer: impl Dial) -> Self {
        self.options.dialer = Some(Arc::new(dialer));
        self
    }

    /// Translates the addresses that sentinels and clusters announce into those under which this client reaches the
    /// servers, for example through a port mapping (default: no translation). The addresses of the URL are used as they
    /// are.
    ///
    /// The function is called under a lock of the client, so it must neither block nor use the client.
    ///
    /// # Examples
    /// ```
    /// use leasehold::{Address, Client};
    ///
    /// let builder = Client::builder().address_map(|announced| match announced {
    ///     Address::Tcp { port, .. } => Address::Tcp { host: "127.0.0.1".to_owned(), port },
    ///     other => other,
    /// });
    /// ```
    #[cfg(feature = "redis")]
    pub fn address_map(mut self, map: impl Fn(Address) -> Address + Send + Sync + 'static) -> Self {
        self.options.address_map = Some(AddressMap::new(map));
        self
    }
}
