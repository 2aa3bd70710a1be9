//! The errors of a configuration, and of connecting with a configuration.
//!
//! Invariant: every error names the key and its source. No error repeats a secret, or a value that might be a secret.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_proto::NameError;

use super::value::exact;
use crate::error::{ConnectError, UrlError};

/// The reason why a configuration cannot be used. No connection was attempted.
///
/// Its message has the cause in it, so [`source`](std::error::Error::source) is `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A configuration file cannot be read.
    #[error("{} cannot be read: {cause}", escaped(.path))]
    #[non_exhaustive]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A file has no extension for TOML, YAML or JSON.
    #[error("{} does not end in .toml, .yaml, .yml or .json", escaped(.path))]
    #[non_exhaustive]
    Format {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file is not in the format that its extension names.
    #[error("{} is not valid {format}{}", escaped(.path), position(*.line, *.column))]
    #[non_exhaustive]
    Syntax {
        /// The path of the file.
        path: PathBuf,
        /// `TOML`, `YAML` or `JSON`.
        format: &'static str,
        /// The line, counted from 1, if it is known.
        line: Option<u64>,
        /// The column in the line.
        column: Option<u64>,
    },
    /// A key does not exist.
    #[error("{set_by}: unknown key `{}`{}", .key.escape_debug(), did_you_mean(.suggestion.as_deref()))]
    #[non_exhaustive]
    UnknownKey {
        /// The source of the key.
        set_by: Source,
        /// The key with its sections.
        key: String,
        /// The key or variable that may have been intended.
        suggestion: Option<String>,
    },
    /// A value, or the name of a variable, is not Unicode text.
    #[error("{set_by}: the variable is not valid Unicode")]
    #[non_exhaustive]
    NotUnicode {
        /// The variable.
        set_by: Source,
    },
    /// A value has the wrong type for its key.
    #[error("{set_by}: `{}` must be {expected}", .key.escape_debug())]
    #[non_exhaustive]
    Value {
        /// The source of the value.
        set_by: Source,
        /// The key with its sections.
        key: String,
        /// The expected value.
        expected: String,
    },
    /// A value is outside its bounds.
    #[error("{}: `{}` is {}; it must be from {bounds}", .given.set_by, .given.key, .given.value)]
    #[non_exhaustive]
    Bounds {
        /// The value as given.
        given: Box<GivenValue>,
        /// The lower and the upper bound, such as `1ms to 365d`.
        bounds: String,
    },
    /// A URL or an address cannot be used.
    #[error("{set_by}: `{key}` cannot be used: {cause}")]
    #[non_exhaustive]
    Url {
        /// The source of the value.
        set_by: Source,
        /// The key with its sections.
        key: String,
        /// The reason why the URL cannot be used.
        cause: UrlError,
    },
    /// This build of the library cannot connect to such servers.
    #[error(
        "{set_by}: `{}` needs {what}, which this build lacks; enable a feature of `leasehold` that adds it",
        .key.escape_debug()
    )]
    #[non_exhaustive]
    NotSupported {
        /// The source of the value.
        set_by: Source,
        /// The key with its sections.
        key: String,
        /// The missing part: `TLS`.
        what: &'static str,
    },
    /// The key prefix cannot begin a name.
    #[error("{set_by}: `key_prefix` cannot begin a name: {cause}")]
    #[non_exhaustive]
    KeyPrefix {
        /// The source of the value.
        set_by: Source,
        /// The rule that the prefix breaks.
        cause: NameError,
    },
    /// The file with the password cannot be read.
    #[error("{set_by}: the file of `{key}` cannot be read: {cause}")]
    #[non_exhaustive]
    NamedFile {
        /// The source of the path.
        set_by: Source,
        /// The key with its sections.
        key: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A required value is missing.
    #[error("`{key}` is missing: {why}")]
    #[non_exhaustive]
    Missing {
        /// The key to set.
        key: String,
        /// The purpose of the value.
        why: &'static str,
    },
    /// Two values conflict.
    #[error("{one} and {other} conflict: {}", reason(one, other, why))]
    #[non_exhaustive]
    Conflict {
        /// The first value.
        one: Box<GivenValue>,
        /// The second value.
        other: Box<GivenValue>,
        /// The reason, and the change to make.
        why: Conflict,
    },
}

impl ConfigError {
    /// Returns the key of a single value that cannot be used.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::UnknownKey { key, .. } | Self::Value { key, .. } => Some(key),
            Self::Bounds { given, .. } => Some(&given.key),
            _ => None,
        }
    }
}

/// The reason why a valid configuration did not connect. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigConnectError {
    /// `Config::connect` was called for the configuration of a quorum.
    #[error("the configuration describes a quorum; connect with `connect_quorum`")]
    IsQuorum,
    /// `Config::connect_quorum` was called for the configuration of a single server.
    #[error("the configuration describes no quorum; connect with `connect`")]
    IsNotQuorum,
    /// Connecting failed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The default, if no source sets the value.
    Default,
    /// A file.
    File(PathBuf),
    /// A variable of the environment.
    Variable(String),
    /// The program.
    Code,
    /// An argument of the program's command line, by the name that the program passed to
    /// [`ConfigBuilder::argument`](super::ConfigBuilder::argument).
    Argument(String),
}

/// A value as given, and its source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` = {value} ({set_by})")]
#[non_exhaustive]
pub struct GivenValue {
    /// The key with its sections.
    pub key: String,
    /// The value in the syntax of a file, masked if it is a secret.
    pub value: String,
    /// The source of the value.
    pub set_by: Source,
}

/// The reason why two values conflict, and the change to make.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// The two values set the same thing in two ways.
    Either,
    /// The answer of a renewal, which is sent after a third of the lease, may come after the end of the hold.
    #[non_exhaustive]
    RenewalTooLate {
        /// The shortest lease for the timeout.
        least_lease: Duration,
        /// The longest timeout for the lease, or `None` if no timeout works.
        most_timeout: Option<Duration>,
    },
    /// A node that needs its whole timeout for a grant leaves nothing of the lease.
    NothingLeft,
    /// The margin takes all that the lease leaves to its holder.
    Margin,
    /// A node that recently restarted without its data would count before a lost hold's lease is over.
    RecentlyRestarted,
    /// The lower value exceeds the higher value.
    Order,
    /// A fixed lease is never renewed, so it is a bound by itself.
    NeverRenewed,
    /// One value applies only if the other is absent.
    #[non_exhaustive]
    NotUsed {
        /// The value to set instead.
        instead: &'static str,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Either => "set one of them",
            Self::RenewalTooLate { least_lease, most_timeout } => {
                f.write_str("a slow renewal could end after the lease; ")?;
                write!(f, "raise the lease to {}", exact(*least_lease))?;
                return most_timeout.map_or(Ok(()), |most| write!(f, " or lower the timeout to {}", exact(most)));
            }
            Self::NothingLeft => {
                "a node that uses its whole timeout leaves nothing of the lease; raise the lease or lower the timeout"
            }
            Self::Margin => {
                "the lease ends for its holder 1 % and 2 ms earlier than for the server, and the margin leaves nothing of \
                 that; lower the margin"
            }
            Self::RecentlyRestarted => {
                "a server that restarted without its data could grant a lock that is still held; raise \
                 `quorum.longest_lease` in every client"
            }
            Self::Order => "the first value must not exceed the second",
            Self::NeverRenewed => {
                "a fixed lease is never renewed and bounds the hold by itself; set `watchdog` instead of `lease`, or leave \
                 out the other"
            }
            Self::NotUsed { instead } => instead,
        })
    }
}

/// Returns the reason of a conflict in the words of its keys.
fn reason(one: &GivenValue, other: &GivenValue, why: &Conflict) -> String {
    match why {
        Conflict::Order => format!("`{}` must not exceed `{}`", one.key, other.key),
        why => why.to_string(),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => f.write_str(&escaped(path)),
            Self::Variable(name) | Self::Argument(name) => write!(f, "{}", name.escape_debug()),
            Self::Code => f.write_str("set by the program"),
        }
    }
}

fn escaped(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}

fn position(line: Option<u64>, column: Option<u64>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!(": line {line}, column {column}"),
        (Some(line), None) => format!(": line {line}"),
        (None, _) => String::new(),
    }
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|known| format!("; did you mean `{known}`?")).unwrap_or_default()
}
