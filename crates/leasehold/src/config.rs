//! Settings from files, the environment and the program, checked before a client connects.
//!
//! A [`Config`] is valid: every key is known, every value is within its bounds, and no two values conflict. No
//! `Debug`, `Display` or error shows a secret.
//!
//! ```toml
//! url = "redis://redis.example.org:6379"
//! key_prefix = "shop:"
//! watchdog = "10s"
//!
//! [fair_lock]
//! max_hold = "5m"
//! ```
//!
//! `docs/configuration.md` has all fields with unit, default and bounds.
//!
//! # How it works
//! Each source becomes a `layer`: values by their keys, each with its source. The `builder` merges the layers, and serde
//! reads the result by the `schema`, a tree of all settings. `checks` and `servers` verify that the values fit together.

mod builder;
mod checks;
mod error;
mod layer;
mod read;
mod schema;
mod secured;
mod servers;
mod value;

use std::fmt;
use std::path::Path;

use futures_util::future::try_join_all;
use leasehold_proto::Confirm;
pub use leasehold_store::url::Server;

use self::builder::Merged;
use self::checks::{Checked, Sources, source};
use self::layer::is_within;
use self::schema::{ENCRYPTIONS, SERVERS, Settings};
use self::servers::Servers;
use self::value::{Missing, Sharding, ShownNames, Span, with};
#[cfg(feature = "redis")]
use crate::client::connect::CredentialsFile;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use crate::client::connect::{SentinelTls, Tls};
use crate::client::{Client, ClientBuilder};
use crate::redlock::Redlock;

pub use self::builder::{ConfigBuilder, ConfigValue};
pub use self::error::{ConfigConnectError, ConfigError, Conflict, GivenValue, Source};

/// A valid configuration of a client, or of a quorum of clients.
///
/// `Display` writes it as TOML with secrets masked, each value with its source. Two configurations are equal if their
/// values are, whatever the sources.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::config::Config;
/// use std::time::Duration;
///
/// let config = Config::builder()
///     // .file("/etc/orders/leasehold.toml")
///     .variables([("LEASEHOLD_LOCK__MAX_HOLD", "1h30m")]) // or .environment()
///     .url("memory://")
///     .key_prefix("orders:")
///     .watchdog(Duration::from_secs(10))
///     .build()?;
/// let client = config.connect().await?;
/// let guard = client.lock("42").lock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Config {
    settings: Settings,
    servers: Servers,
    sources: Sources,
    ignored: Vec<String>,
}

impl Config {
    /// Returns a builder, for a configuration from several sources.
    pub fn builder() -> ConfigBuilder {
        ConfigBuilder::default()
    }

    /// Reads the configuration from a file: TOML, YAML or JSON, by the extension of its name.
    ///
    /// # Errors
    /// [`ConfigError`] names the key that cannot be used, or the two values that conflict.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::builder().file(path).build()
    }

    /// Returns the names of the variables that begin with `LEASEHOLD_` and configure nothing, because Kubernetes sets them in
    /// every pod beside a service whose name begins with `leasehold`, such as `LEASEHOLD_PORT=tcp://10.96.0.7:6379`.
    #[must_use]
    pub fn ignored_variables(&self) -> &[String] {
        &self.ignored
    }

    /// Returns true if the configuration describes a quorum, for [`connect_quorum`](Self::connect_quorum).
    #[must_use]
    pub const fn is_quorum(&self) -> bool {
        matches!(self.servers, Servers::Quorum(_))
    }

    /// Returns true if a server of the configuration is `memory://`, in the memory of this process. Its locks exclude
    /// no other process.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").build()?;
    /// assert!(config.is_in_process());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_in_process(&self) -> bool {
        self.servers().iter().any(Server::is_in_memory)
    }

    /// Returns the servers, with their logins, for tools that examine them. A quorum has several.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("redis://:secret@h").build()?;
    /// assert_eq!(config.servers()[0].to_string(), "redis://:***@h:6379");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        match &self.servers {
            Servers::One(server) => std::slice::from_ref(server),
            Servers::Quorum(servers) => servers,
        }
    }

    /// Returns the source of the login at the servers if the configuration names a `password_file`, for tools that examine
    /// the servers. Each connection reads the file again.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("redis://:secret@h").build()?;
    /// assert!(config.credentials_file().is_none(), "the URL has the password");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn credentials_file(&self) -> Option<CredentialsFile> {
        self.settings.credentials_file()
    }

    /// Returns the certificates and rules of encrypted connections, for tools that examine the servers.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder()
    ///     .set("standalone.address", "redis.example.org")
    ///     .set("standalone.tls.ca_file", "/etc/redis/ca.pem")
    ///     .build()?;
    /// assert!(format!("{:?}", config.tls()).contains("/etc/redis/ca.pem"));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    #[must_use]
    pub fn tls(&self) -> Tls {
        self.settings.tls()
    }

    /// Returns the section with the servers' certificates, for tools that set `ca_file`: `tls` for a `url`, or one such as
    /// `cluster.tls`.
    #[must_use]
    pub fn tls_section(&self) -> &'static str {
        let is_set = |way: &str| self.sources.keys().any(|key| is_within(key, way));
        SERVERS
            .into_iter()
            .zip(ENCRYPTIONS)
            .find(|(way, _)| is_set(way))
            .map_or("tls", |(_, section)| section)
    }

    /// Returns the source of the login at the sentinels if the configuration names a `sentinel_password_file`, for tools that
    /// examine the servers.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn sentinel_credentials_file(&self) -> Option<CredentialsFile> {
        self.settings.sentinel_credentials_file()
    }

    /// Returns the encryption of the connections to sentinels, for tools that examine the servers.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    #[must_use]
    pub fn sentinel_tls(&self) -> SentinelTls {
        self.settings.sentinel_tls()
    }

    /// Returns the prefix of every name on the server, for tools that examine the servers.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").key_prefix("shop:").build()?;
    /// assert_eq!(config.key_prefix(), "shop:");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key_prefix(&self) -> &str {
        self.settings.key_prefix.as_deref().unwrap_or_default()
    }

    /// Returns true if replicas confirm the calls of the client or of one of its primitives, for tools that examine the
    /// servers.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").set("rw_lock.replicas", 1).build()?;
    /// assert!(config.is_confirmed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        let Settings { replicas, replicas_total, .. } = self.settings;
        let of_holds = self.settings.holds().into_iter().map(|(_, _, hold)| hold.replicas);
        let policies = of_holds.chain([replicas]).flatten();
        policies.filter_map(|policy| policy.policy(replicas_total)).any(|policy| policy != Confirm::None)
    }

    /// Returns true if the calls of the client wait for the disks of the servers, for tools that examine the servers.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").set("fsync", true).build()?;
    /// assert!(config.fsync());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fsync(&self) -> bool {
        self.settings.fsync.unwrap_or_default()
    }

    /// Connects to the server.
    ///
    /// # Errors
    /// [`ConfigConnectError::IsQuorum`] if the configuration describes a quorum. [`ConfigConnectError::Connect`] as
    /// [`Client::connect`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt. Nothing is left behind.
    ///
    /// # Examples
    /// See [`Config`].
    pub async fn connect(&self) -> Result<Client, ConfigConnectError> {
        match &self.servers {
            Servers::One(server) => Ok(self.client(server).connect_to(server).await?),
            Servers::Quorum(_) => Err(ConfigConnectError::IsQuorum),
        }
    }

    /// Connects to the servers of a quorum. A server that is down is not an error, and its client connects when it is
    /// up.
    ///
    /// # Errors
    /// [`ConfigConnectError::IsNotQuorum`] if the configuration describes a single server.
    /// [`ConfigConnectError::Connect`] as [`Redlock::connect`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt. Nothing is left behind.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = leasehold::config::Config::builder()
    ///     .set("quorum.urls", ["memory://one", "memory://two", "memory://three"])
    ///     .set("quorum.persist_every_write", true)
    ///     .build()?;
    /// let guard = config.connect_quorum().await?.lock("order:42").lock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_quorum(&self) -> Result<Redlock, ConfigConnectError> {
        let Servers::Quorum(servers) = &self.servers else { return Err(ConfigConnectError::IsNotQuorum) };
        let quorum = &self.settings.quorum;
        let clients = servers.iter().map(|server| async {
            let client = self.client(server).lazy();
            let client = with(client, quorum.node_timeout, |client, Span(timeout)| client.timeout(timeout));
            client.connect_to(server).await
        });
        let clients = try_join_all(clients).await?;
        let builder = Redlock::builder();
        let builder = match quorum.longest_lease {
            Some(Span(lease)) => builder.longest_lease(lease),
            None => builder.nodes_persist_every_write(),
        };
        Ok(builder.over(clients))
    }

    /// Returns the settings of the client of this server.
    fn client(&self, server: &Server) -> ClientBuilder {
        let settings = &self.settings;
        let backoff = settings.spin_lock.backoff_first.zip(settings.spin_lock.backoff_longest);
        let builder = Client::builder().key_prefix(self.key_prefix());
        let builder = with(builder, settings.timeout, |builder, Span(timeout)| builder.timeout(timeout));
        let builder =
            with(builder, settings.poll_interval, |builder, Span(time)| builder.poll_interval(time));
        let builder = with(builder, settings.hand_off, |builder, Span(bound)| builder.hand_off(bound));
        let builder =
            with(builder, settings.sharded_pubsub, |builder, Sharding(of)| builder.sharded_pubsub(of));
        let builder = with(builder, settings.lazy.filter(|lazy| *lazy), |builder, _| builder.lazy());
        let builder = with(builder, settings.client_name.as_ref(), |builder, name| builder.client_name(name));
        let builder = with(builder, settings.patience, |builder, Span(wait)| builder.patience(wait));
        let builder = with(builder, settings.names, |builder, ShownNames(names)| builder.names(names));
        let builder = with(builder, settings.visible, ClientBuilder::visible);
        let builder = with(builder, settings.watchdog, |builder, Span(lease)| builder.watchdog(lease));
        let builder =
            with(builder, backoff, |builder, (first, longest)| builder.spin_backoff(first.0, longest.0));
        let replicas = settings.replicas.and_then(|replicas| replicas.policy(settings.replicas_total));
        let builder = with(builder, replicas, ClientBuilder::replicas);
        let builder =
            with(builder, settings.replicas_within, |builder, Span(within)| builder.replicas_within(within));
        let builder =
            with(builder, settings.on_missing, |builder, Missing(choice)| builder.on_missing(choice));
        let builder = with(builder, settings.fsync, ClientBuilder::fsync);
        let builder = settings.secured(builder, server);
        let (holds, total) = (settings.holds().into_iter(), settings.replicas_total);
        holds.fold(builder, |builder, (_, primitive, hold)| builder.defaults(primitive, hold.terms(total)))
    }
}

impl ConfigBuilder {
    /// Reads all sources, merges them and checks the result.
    ///
    /// # Errors
    /// [`ConfigError`] names the key that cannot be used and its source, or the two values that conflict.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::config::{Config, ConfigError};
    ///
    /// let refused = Config::builder().url("memory://").set("timout", "3s").build();
    /// assert!(matches!(refused, Err(ConfigError::UnknownKey { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn build(self) -> Result<Config, ConfigError> {
        self.build_or_all_errors()
            .map_err(|errors| errors.into_iter().next().expect("a refusal has a reason"))
    }

    /// Reads and checks the configuration as [`build`](Self::build) does, and returns every error instead of the first, for a
    /// tool that checks configurations.
    ///
    /// # Errors
    /// Returns at least one [`ConfigError`], in the order of the sources. Values that contradict each other are found only
    /// once each value is valid by itself.
    ///
    /// # Examples
    /// ```
    /// let variables = [("LEASEHOLD_TIMOUT", "3s"), ("LEASEHOLD_LAZY", "maybe")];
    /// let errors = leasehold::config::Config::builder().variables(variables).build_or_all_errors().unwrap_err();
    /// assert_eq!(errors.len(), 2);
    /// ```
    pub fn build_or_all_errors(self) -> Result<Config, Vec<ConfigError>> {
        let Merged { mut layer, ignored, mut problems } = self.merged();
        let mut settings = read::all_settings(&mut layer, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        settings.add_defaults();
        let sources = layer.into_iter().map(|(key, (_, set_by))| (key, set_by)).collect();
        let checked = Checked { settings: &settings, sources: &sources };
        let servers = checked.servers();
        let is_quorum = settings.quorum != schema::Quorum::default();
        let problems = checked.settings(is_quorum);
        match servers {
            Ok(servers) if problems.is_empty() => Ok(Config { settings, servers, sources, ignored }),
            servers => Err(servers.err().into_iter().chain(problems).collect()),
        }
    }
}

impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings && self.servers == other.servers
    }
}

impl Eq for Config {}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.settings.rows();
        let mut current = "";
        for (key, value) in rows.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
            if section != current {
                write!(f, "\n[{section}]\n")?;
                current = section;
            }
            writeln!(f, "{name} = {value} # {}", source(&self.sources, key))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Config({:?})", self.to_string())
    }
}
