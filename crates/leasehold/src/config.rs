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
//! Each source becomes a `layer`, which has keys that the table of `fields` knows, with values of their kinds. The
//! `reader` merges the layers, serde reads the result as `raw`, and `checks` and `server` verify that the values fit
//! together.

mod checks;
mod error;
mod fields;
mod layer;
mod print;
mod raw;
mod reader;
mod secret;
mod server;
mod span;

use std::fmt;
use std::path::Path;

use futures_util::future::try_join_all;
use leasehold_store::ShardedPubsub;

use self::checks::Checked;
use self::layer::Layer;
use self::raw::{Raw, Sharding};
use self::server::Servers;
use self::span::Span;
use crate::client::{Client, ClientBuilder};
use crate::redlock::Redlock;

pub use self::error::{ConfigConnectError, ConfigError, Disagreement, Origin, Said};
pub use self::reader::{ConfigBuilder, ConfigValue};

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
    layer: Layer,
    raw: Raw,
    servers: Servers,
}

impl Config {
    /// Returns a builder, for a configuration from several sources.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").set("lock.max_hold", "5m").build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> ConfigBuilder {
        ConfigBuilder::default()
    }

    /// Reads the configuration from a file: TOML, YAML or JSON, by the extension of its name.
    ///
    /// # Errors
    /// [`ConfigError`] names the key that cannot be used, or the two values that conflict.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::from_file("/etc/orders/leasehold.toml")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::builder().file(path).build()
    }

    /// Reads the configuration from the environment of the process. See [`ConfigBuilder::environment`].
    ///
    /// # Errors
    /// As [`from_file`](Self::from_file).
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::from_env()?; // LEASEHOLD_URL and others
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::builder().environment().build()
    }

    /// Checks the merged layers of a reader.
    fn checked(layer: Layer) -> Result<Self, ConfigError> {
        let raw = Raw::of(&layer);
        let checked = Checked { raw: &raw, layer: &layer };
        let servers = checked.servers()?;
        checked.settings()?;
        Ok(Self { layer, raw, servers })
    }

    /// Returns true if the configuration is that of a quorum, for [`connect_quorum`](Self::connect_quorum).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").build()?;
    /// assert!(!config.is_quorum());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn is_quorum(&self) -> bool {
        self.raw.quorum.is_some()
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
        match &self.servers {
            Servers::One(url) => is_in_memory(url.expose()),
            Servers::Quorum(urls) => urls.iter().any(|url| is_in_memory(url.expose())),
        }
    }

    /// Connects to the server.
    ///
    /// # Errors
    /// [`ConfigConnectError::IsQuorum`] if the configuration is that of a quorum. [`ConfigConnectError::Connect`] as
    /// [`Client::connect`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt. Nothing is left behind.
    ///
    /// # Examples
    /// See [`Config`].
    pub async fn connect(&self) -> Result<Client, ConfigConnectError> {
        match &self.servers {
            Servers::One(url) => Ok(self.client().connect(url.expose()).await?),
            Servers::Quorum(_) => Err(ConfigConnectError::IsQuorum),
        }
    }

    /// Connects to the servers of a quorum. A server that is down is not an error, and its client connects when it is
    /// up.
    ///
    /// # Errors
    /// [`ConfigConnectError::IsNotQuorum`] if the configuration is that of a single server.
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
        let Some(quorum) = &self.raw.quorum else { return Err(ConfigConnectError::IsNotQuorum) };
        let urls = match &self.servers {
            Servers::Quorum(urls) => urls,
            Servers::One(_) => return Err(ConfigConnectError::IsNotQuorum),
        };
        let mut client = self.client().lazy();
        if let Some(Span(timeout)) = quorum.node_timeout {
            client = client.timeout(timeout);
        }
        let clients = try_join_all(urls.iter().map(|url| client.clone().connect(url.expose()))).await?;
        let builder = Redlock::builder();
        let builder = match quorum.longest_lease {
            Some(Span(lease)) => builder.longest_lease(lease),
            None => builder.nodes_persist_every_write(),
        };
        Ok(builder.over(clients))
    }

    /// Returns the settings of each client.
    fn client(&self) -> ClientBuilder {
        let raw = &self.raw;
        let mut builder = Client::builder().key_prefix(raw.key_prefix.as_deref().unwrap_or_default());
        if let Some(Span(timeout)) = raw.timeout {
            builder = builder.timeout(timeout);
        }
        if let Some(Span(interval)) = raw.poll_interval {
            builder = builder.poll_interval(interval);
        }
        if let Some(sharding) = raw.sharded_pubsub {
            builder = builder.sharded_pubsub(match sharding {
                Sharding::Auto => ShardedPubsub::Auto,
                Sharding::On => ShardedPubsub::On,
                Sharding::Off => ShardedPubsub::Off,
            });
        }
        if raw.lazy == Some(true) {
            builder = builder.lazy();
        }
        if let Some(name) = &raw.client_name {
            builder = builder.client_name(name);
        }
        if let Some(Span(lease)) = raw.watchdog {
            builder = builder.watchdog(lease);
        }
        if let Some((Span(first), Span(longest))) = raw.pauses() {
            builder = builder.spin_backoff(first, longest);
        }
        let holds = raw.holds().into_iter();
        holds.fold(builder, |builder, (_, primitive, hold)| builder.defaults(primitive, hold.terms()))
    }
}

/// Returns true if the URL names a server in the memory of this process.
fn is_in_memory(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("memory"))
}

impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        let mine = self.layer.iter().map(|(key, (leaf, _))| (key, leaf));
        mine.eq(other.layer.iter().map(|(key, (leaf, _))| (key, leaf))) && self.servers == other.servers
    }
}

impl Eq for Config {}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::write(&self.layer, f)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Config({:?})", self.to_string())
    }
}
