//! The merge of all sources into one configuration.
//!
//! Invariant: later sources win, in the order defaults, files, environment, program. A source that names one of
//! several alternatives removes those that an earlier source named.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::config::ValueKind;

use super::Config;
use super::error::{ConfigError, Origin};
use super::fields::{FIELDS, PRIMITIVES, SERVERS, is_within, section};
use super::layer::{self, Layer, Leaf};
use super::span::shown;
use crate::defaults::Primitive;

/// The sources of a configuration: files, the environment, the program. Made by
/// [`Config::builder`](super::Config::builder).
///
/// Later sources win, in this order: defaults, files as they are named, the environment, the program. The order of the
/// calls matters only between files.
#[derive(Clone, Default)]
#[must_use = "a builder reads nothing until `build`"]
pub struct ConfigBuilder {
    files: Vec<PathBuf>,
    variables: Option<Variables>,
    code: Vec<(String, ValueKind, Origin)>,
}

/// The variables to read.
#[derive(Clone)]
enum Variables {
    OfProcess,
    These(Vec<(OsString, OsString)>),
}

/// A value that a program sets by its key.
#[derive(Clone)]
pub struct ConfigValue(ValueKind);

impl ConfigBuilder {
    /// Reads this file: TOML, YAML or JSON, by the extension of its name.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::config::Config::builder();
    /// let config = builder.file("/etc/leasehold.toml").file("/etc/orders/leasehold.yaml").build()?; // the latter wins
    /// # Ok(())
    /// # }
    /// ```
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        self.files.push(path.as_ref().to_owned());
        self
    }

    /// Reads the environment of the process.
    ///
    /// `LEASEHOLD_TIMEOUT` is `timeout`, `LEASEHOLD_LOCK__MAX_HOLD` is `lock.max_hold`, and commas separate the items
    /// of a list. Every variable that begins with `LEASEHOLD_` must be a key, except `LEASEHOLD_NAME`,
    /// `LEASEHOLD_OWNER` and `LEASEHOLD_TOKEN`, which the command `leasehold run` sets.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().environment().url("memory://").build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn environment(mut self) -> Self {
        self.variables = Some(Variables::OfProcess);
        self
    }

    /// Reads these variables instead of those of the process.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let variables = [("LEASEHOLD_URL", "memory://"), ("LEASEHOLD_LOCK__MAX_HOLD", "1h30m")];
    /// let config = leasehold::config::Config::builder().variables(variables).build()?;
    /// assert!(config.to_string().contains("max_hold = \"1h30m\""));
    /// # Ok(())
    /// # }
    /// ```
    pub fn variables<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.variables = Some(Variables::These(variables.collect()));
        self
    }

    /// Sets any field by its key, such as `"standalone.tls.ca_file"`. A later value replaces an earlier value.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let config = leasehold::config::Config::builder()
    ///     .set("standalone.address", "redis.example.org:6379")
    ///     .set("fair_lock.watchdog", Duration::from_secs(10))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(mut self, key: &str, value: impl Into<ConfigValue>) -> Self {
        self.code.push((key.to_owned(), value.into().0, Origin::Code));
        self
    }

    /// Sets a field as [`set`](Self::set) does, for an argument of the command line. Errors and the printed
    /// configuration name the argument.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::config::Config::builder().argument("--server", "url", "memory://");
    /// assert!(builder.build()?.to_string().starts_with("url = \"memory://\" # --server\n"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn argument(mut self, argument: &str, key: &str, value: impl Into<ConfigValue>) -> Self {
        self.code.push((key.to_owned(), value.into().0, Origin::Argument(argument.to_owned())));
        self
    }

    /// Sets the server's URL.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn url(self, url: &str) -> Self {
        self.set("url", url)
    }

    /// Sets the longest duration of one call to the server, connecting included: 1 ms to 365 days (default 3 s).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let builder = leasehold::config::Config::builder().url("memory://");
    /// let config = builder.timeout(Duration::from_secs(2)).build()?;
    /// assert!(config.to_string().contains("timeout = \"2s\""));
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set("timeout", timeout)
    }

    /// Sets the longest sleep of a waiter between two attempts when no wake-up comes: 1 ms to 365 days (default 1 s).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let builder = leasehold::config::Config::builder().url("memory://");
    /// let config = builder.poll_interval(Duration::from_millis(500)).build()?;
    /// assert!(config.to_string().contains("poll_interval = \"500ms\""));
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_interval(self, interval: Duration) -> Self {
        self.set("poll_interval", interval)
    }

    /// Connects with the first call instead of at once (default: false).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").lazy(true).build()?;
    /// assert!(config.to_string().contains("lazy = true"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lazy(self, lazy: bool) -> Self {
        self.set("lazy", lazy)
    }

    /// Sets the name of the connections in `CLIENT LIST`: 1 to 128 bytes of printable ASCII without spaces (default:
    /// no name).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::config::Config::builder().url("memory://");
    /// let config = builder.client_name("orders-7").build()?;
    /// assert!(config.to_string().contains("client_name = \"orders-7\""));
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_name(self, name: &str) -> Self {
        self.set("client_name", name)
    }

    /// Sets a prefix for every name: no control characters, no braces, at most 512 bytes together with the name
    /// (default: none).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").key_prefix("shop:").build()?;
    /// assert!(config.to_string().contains("key_prefix = \"shop:\""));
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_prefix(self, prefix: &str) -> Self {
        self.set("key_prefix", prefix)
    }

    /// Sets the lease that the watchdog renews, every third of it: 3 ms to 365 days (default 30 s).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let builder = leasehold::config::Config::builder().url("memory://");
    /// let config = builder.watchdog(Duration::from_secs(10)).build()?;
    /// assert!(config.to_string().contains("watchdog = \"10s\""));
    /// # Ok(())
    /// # }
    /// ```
    pub fn watchdog(self, lease: Duration) -> Self {
        self.set("watchdog", lease)
    }

    /// Sets the lease that the watchdog renews for one primitive: 3 ms to 365 days (default: that of
    /// [`watchdog`](Self::watchdog)).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::Primitive;
    /// use std::time::Duration;
    ///
    /// let builder = leasehold::config::Config::builder().url("memory://");
    /// let config = builder.watchdog_of(Primitive::FairLock, Duration::from_secs(10)).build()?;
    /// assert!(config.to_string().contains("[fair_lock]\nwatchdog = \"10s\""));
    /// # Ok(())
    /// # }
    /// ```
    pub fn watchdog_of(self, primitive: Primitive, lease: Duration) -> Self {
        self.set(&format!("{}.watchdog", section(primitive)), lease)
    }

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
        let mut layers = self.files.iter().map(|path| layer::file(path)).collect::<Result<Vec<_>, _>>()?;
        match self.variables {
            None => {}
            Some(Variables::OfProcess) => layers.push(layer::environment(env::vars_os())?),
            Some(Variables::These(these)) => layers.push(layer::environment(these.into_iter())?),
        }
        let code = self.code.into_iter().map(|(key, value, origin)| layer::code(&key, value, origin));
        layers.push(code.collect::<Result<_, _>>()?);
        let mut merged = Layer::new();
        for layer in layers {
            set_aside(&mut merged, &layer);
            merged.extend(layer);
        }
        add_defaults(&mut merged);
        Config::checked(merged)
    }
}

/// Returns the groups of alternatives, which are keys or sections that set the same thing in several ways.
fn alternatives() -> Vec<Vec<String>> {
    let mut groups = vec![SERVERS.map(str::to_owned).to_vec()];
    let mut group = |section: &str, keys: &[&str]| {
        groups.push(keys.iter().map(|key| format!("{section}.{key}")).collect());
    };
    for server in &SERVERS[1..] {
        group(server, &["password", "password_file"]);
    }
    group("sentinel", &["sentinel_password", "sentinel_password_file"]);
    group("quorum", &["addresses", "urls"]);
    for primitive in PRIMITIVES {
        group(section(primitive), &["watchdog", "lease"]);
    }
    groups
}

/// Removes values that a later layer sets by an alternative.
fn set_aside(merged: &mut Layer, later: &Layer) {
    for group in alternatives() {
        let (named, others): (Vec<_>, Vec<_>) =
            group.iter().partition(|way| later.keys().any(|key| is_within(key, way)));
        if !named.is_empty() {
            merged.retain(|key, _| !others.iter().any(|way| is_within(key, way)));
        }
    }
}

/// Adds the defaults of fields that are used and not set.
fn add_defaults(merged: &mut Layer) {
    let has = |merged: &Layer, section: &str| merged.keys().any(|key| is_within(key, section));
    let is_quorum = has(merged, "quorum");
    for field in FIELDS.iter() {
        let Some(leaf) = layer::default(field) else { continue };
        let is_used = match field.key.split_once('.').map(|(section, _)| section) {
            None => !(is_quorum && ["timeout", "lazy"].contains(&&*field.key)),
            Some("spin_lock") => !is_quorum,
            Some("quorum") if field.key == "quorum.database" => has(merged, "quorum.addresses"),
            Some("quorum") if field.key == "quorum.longest_lease" => {
                is_quorum && !matches!(merged.get("quorum.persist_every_write"), Some((Leaf::Flag(true), _)))
            }
            Some(server) => has(merged, server),
        };
        if is_used && !merged.contains_key(&field.key) {
            merged.insert(field.key.clone(), (leaf, Origin::Default));
        }
    }
    let watchdog = merged["watchdog"].clone();
    for primitive in PRIMITIVES.into_iter().filter(|one| !is_quorum || *one == Primitive::Lock) {
        let own = section(primitive);
        let key = format!("{own}.watchdog");
        if !merged.contains_key(&key) && !merged.contains_key(&format!("{own}.lease")) {
            merged.insert(key, watchdog.clone());
        }
    }
}

impl fmt::Debug for ConfigBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set: Vec<&str> = self.code.iter().map(|(key, ..)| key.as_str()).collect();
        f.debug_struct("ConfigBuilder")
            .field("files", &self.files)
            .field("environment", &self.variables.is_some())
            .field("set", &set)
            .finish()
    }
}

/// The value may be a secret, so the output masks it.
impl fmt::Debug for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigValue(***)")
    }
}

impl From<&str> for ConfigValue {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for ConfigValue {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Duration> for ConfigValue {
    fn from(span: Duration) -> Self {
        Self(shown(span).into())
    }
}

impl From<bool> for ConfigValue {
    fn from(flag: bool) -> Self {
        Self(flag.into())
    }
}

impl From<u32> for ConfigValue {
    fn from(number: u32) -> Self {
        Self(i64::from(number).into())
    }
}

impl<T: Into<String>, const N: usize> From<[T; N]> for ConfigValue {
    fn from(texts: [T; N]) -> Self {
        texts.map(Into::into).to_vec().into()
    }
}

impl From<Vec<String>> for ConfigValue {
    fn from(texts: Vec<String>) -> Self {
        Self(texts.into())
    }
}
