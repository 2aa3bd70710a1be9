//! The builder, which merges all sources into one configuration.
//!
//! Invariant: later sources win, in the order defaults, files, environment, program. A source that names one of
//! several alternatives removes those that an earlier source named.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::config::ValueKind;

use super::error::{ConfigError, Source};
use super::layer::{self, Layer, is_within};
use super::read;
use super::schema::{ENCRYPTIONS, LOGINS, SERVERS, Settings};
use crate::observe::Names;

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
    code: Vec<(String, ValueKind, Source)>,
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
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        self.files.push(path.as_ref().to_owned());
        self
    }

    /// Reads the environment of the process.
    ///
    /// `LEASEHOLD_TIMEOUT` is `timeout`, `LEASEHOLD_LOCK__MAX_HOLD` is `lock.max_hold`, and commas separate the items
    /// of a list. `true`, `1`, `yes` and `on` are true, in any case. Every variable that begins with `LEASEHOLD_` must be a
    /// key, except `LEASEHOLD_NAME`, `LEASEHOLD_OWNER` and `LEASEHOLD_TOKEN`, which the command `leasehold run` sets, and
    /// the variables that Kubernetes sets for a service whose name begins with `leasehold`
    /// ([`Config::ignored_variables`](super::Config::ignored_variables)).
    pub fn environment(mut self) -> Self {
        self.variables = Some(Variables::OfProcess);
        self
    }

    /// Reads these variables instead of the process's environment.
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

    /// Sets any field by its key, such as `"standalone.address"`. A later value replaces an earlier value.
    pub fn set(mut self, key: &str, value: impl Into<ConfigValue>) -> Self {
        self.code.push((key.to_owned(), value.into().0, Source::Code));
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
        self.code.push((key.to_owned(), value.into().0, Source::Argument(argument.to_owned())));
        self
    }

    /// Sets the server's URL.
    pub fn url(self, url: &str) -> Self {
        self.set("url", url)
    }

    /// Sets the longest duration of one call to the server, connecting included: 1 ms to 365 days (default 3 s).
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set("timeout", timeout)
    }

    /// Sets the longest sleep of a waiter between two attempts when no wake-up comes: 1 ms to 365 days (default 1 s).
    pub fn poll_interval(self, interval: Duration) -> Self {
        self.set("poll_interval", interval)
    }

    /// Sets the time after a grant of the server for which a lock passes from one waiter of the client to the next without
    /// a call: 0 ms, which turns it off, to 365 days (default 2 ms).
    pub fn hand_off(self, bound: Duration) -> Self {
        self.set("hand_off", bound)
    }

    /// Connects with the first call instead of at once (default: false).
    pub fn lazy(self, lazy: bool) -> Self {
        self.set("lazy", lazy)
    }

    /// Sets the name of the client: 1 to 128 bytes of printable ASCII without spaces (default: the name of the program).
    pub fn client_name(self, name: &str) -> Self {
        self.set("client_name", name)
    }

    /// Shows the client to operators, or hides it (default: shown).
    pub fn visible(self, visible: bool) -> Self {
        self.set("visible", visible)
    }

    /// Sets the wait after which logs and observers name a lock and its holder: 1 ms to 365 days (default 5 s).
    pub fn patience(self, patience: Duration) -> Self {
        self.set("patience", patience)
    }

    /// Sets whether logs and observers get lock names (default: they do).
    pub fn names(self, names: Names) -> Self {
        self.set("names", if names == Names::Hidden { "hidden" } else { "shown" })
    }

    /// Sets a prefix for every name: no control characters, no braces, at most 512 bytes together with the name
    /// (default: none).
    pub fn key_prefix(self, prefix: &str) -> Self {
        self.set("key_prefix", prefix)
    }

    /// Sets the lease that the watchdog renews, every third of it: 3 ms to 365 days (default 30 s).
    pub fn watchdog(self, lease: Duration) -> Self {
        self.set("watchdog", lease)
    }

    /// Reads all sources and merges what can be used of them.
    pub(super) fn merged(self) -> Merged {
        let mut merged = Merged::default();
        let mut layers = Vec::new();
        for path in &self.files {
            match layer::file(path) {
                Ok(layer) => layers.push(layer),
                Err(problem) => merged.problems.push(problem),
            }
        }
        let variables = self.variables.map(|variables| match variables {
            Variables::OfProcess => layer::environment(env::vars_os()),
            Variables::These(these) => layer::environment(these.into_iter()),
        });
        if let Some((layer, ignored, problems)) = variables {
            layers.push(layer);
            merged.ignored = ignored;
            merged.problems.extend(problems);
        }
        layers.push(self.code.into_iter().map(|(key, value, set_by)| (key, (value, set_by))).collect());
        for mut layer in layers {
            // A value that a later source replaces must be valid too.
            read::all_settings(&mut layer, &mut merged.problems);
            let layer = without_empty(layer, &mut merged.layer);
            replace_alternatives(&mut merged.layer, &layer);
            merged.layer.extend(layer);
        }
        merged
    }
}

/// The values of all sources, and the problems that they have.
#[derive(Default)]
pub(super) struct Merged {
    pub(super) layer: Layer,
    /// The variables that Kubernetes has set for a service, which are no settings.
    pub(super) ignored: Vec<String>,
    pub(super) problems: Vec<ConfigError>,
}

/// Removes empty sections from a layer. A section of TLS that is switched off is removed, from earlier layers too.
fn without_empty(mut layer: Layer, merged: &mut Layer) -> Layer {
    let is_off = |layer: &Layer, section: &str| match layer.get(&format!("{section}.enabled")) {
        Some((ValueKind::Boolean(flag), _)) => !flag,
        Some((ValueKind::String(text), _)) => read::truth(text) == Some(false),
        _ => false,
    };
    for section in ENCRYPTIONS {
        if is_off(&layer, section) {
            layer.retain(|key, _| !is_within(key, section));
            merged.retain(|key, _| !is_within(key, section));
        }
    }
    // A section of the sentinels that is switched off says that they are not encrypted, so it stays, alone. A later layer
    // that sets anything else in it switches it on again.
    let (own, switch) = ("sentinel.sentinel_tls", "sentinel.sentinel_tls.enabled");
    if is_off(&layer, own) {
        layer.retain(|key, _| key == switch || !is_within(key, own));
        merged.retain(|key, _| !is_within(key, own));
    } else if layer.keys().any(|key| is_within(key, own) && key != own) {
        merged.remove(switch);
    }
    layer.retain(|_, (value, _)| !matches!(value, ValueKind::Table(_)));
    layer
}

/// Removes values that a later layer sets by an alternative, which is another key or section for the same thing.
fn replace_alternatives(merged: &mut Layer, later: &Layer) {
    let pair = |section: &str, keys: [&str; 2]| keys.map(|key| format!("{section}.{key}")).to_vec();
    let mut groups = vec![SERVERS.map(str::to_owned).to_vec(), pair("quorum", ["addresses", "urls"])];
    groups.extend(LOGINS.map(|section| pair(section, ["password", "password_file"])));
    groups.push(pair("sentinel", ["sentinel_password", "sentinel_password_file"]));
    groups.extend(Settings::default().holds().map(|(section, ..)| pair(section, ["watchdog", "lease"])));
    for group in groups {
        let (named, others): (Vec<_>, Vec<_>) =
            group.iter().partition(|way| later.keys().any(|key| is_within(key, way)));
        if !named.is_empty() {
            merged.retain(|key, _| !others.iter().any(|way| is_within(key, way)));
        }
    }
    // The section `tls` belongs to `url`.
    if SERVERS.into_iter().any(|way| way != "url" && later.keys().any(|key| is_within(key, way))) {
        merged.retain(|key, _| !is_within(key, "tls"));
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

/// Creates values from the types of settings.
macro_rules! values {
    ($($kind:ty: |$value:ident| $into:expr;)*) => {
        $(impl From<$kind> for ConfigValue {
            fn from($value: $kind) -> Self {
                Self($into.into())
            }
        })*
    };
}

values! {
    &str: |text| text;
    String: |text| text;
    Vec<String>: |texts| texts;
    Duration: |span| span.as_nanos();
    bool: |flag| flag;
    u32: |number| i64::from(number);
}

impl<T: Into<String>, const N: usize> From<[T; N]> for ConfigValue {
    fn from(texts: [T; N]) -> Self {
        texts.map(Into::into).to_vec().into()
    }
}
