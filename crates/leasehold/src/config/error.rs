//! The errors of a configuration, and of connecting with a configuration.
//!
//! Invariant: every error names the key and its source. No error repeats a secret, or a value that might be a secret.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_proto::NameError;

use super::span::shown;
use crate::error::{ConnectError, UrlError};

/// The reason why a configuration cannot be used. No connection was attempted.
///
/// Its message has the cause in it, so [`source`](std::error::Error::source) is `None`.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// A configuration file cannot be read.
    #[non_exhaustive]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The extension of a file is not that of TOML, YAML or JSON.
    #[non_exhaustive]
    Format {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file is not in the format that its extension names.
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
    #[non_exhaustive]
    UnknownKey {
        /// The source of the key.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// The key or variable that may have been intended.
        meant: Option<String>,
    },
    /// A value, or the name of a variable, is not Unicode text.
    #[non_exhaustive]
    NotUnicode {
        /// The variable.
        origin: Origin,
    },
    /// A value has the wrong type for its key.
    #[non_exhaustive]
    Value {
        /// The source of the value.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// The expected value.
        expected: String,
    },
    /// A value is outside its bounds.
    #[non_exhaustive]
    Bounds {
        /// The value as given.
        given: Box<Said>,
        /// The lower bound.
        least: String,
        /// The upper bound.
        most: String,
    },
    /// A URL or an address cannot be used.
    #[non_exhaustive]
    Url {
        /// The source of the value.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// The reason why the URL cannot be used.
        source: UrlError,
    },
    /// The library cannot connect to such servers.
    #[non_exhaustive]
    NotSupported {
        /// The source of the value.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// The missing feature: `TLS`, `Sentinel` or `Redis Cluster`.
        what: &'static str,
    },
    /// The key prefix cannot begin a name.
    #[non_exhaustive]
    KeyPrefix {
        /// The source of the value.
        origin: Origin,
        /// The rule that the prefix breaks.
        source: NameError,
    },
    /// A file that the configuration names, for a password or for TLS, cannot be read.
    #[non_exhaustive]
    NamedFile {
        /// The source of the path.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A required value is missing.
    #[non_exhaustive]
    Missing {
        /// The key to set.
        key: String,
        /// The purpose of the value.
        why: &'static str,
    },
    /// Two values conflict.
    #[non_exhaustive]
    Disagree {
        /// The first value.
        one: Box<Said>,
        /// The second value.
        other: Box<Said>,
        /// The conflict, and the change to make.
        why: Disagreement,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, source } => write!(f, "{} cannot be read: {source}", Shown(path)),
            Self::Format { path } => {
                write!(f, "{} does not end in .toml, .yaml, .yml or .json", Shown(path))
            }
            Self::Syntax { path, format, line, column } => {
                write!(f, "{} is not valid {format}{}", Shown(path), At(*line, *column))
            }
            Self::UnknownKey { origin, key, meant } => {
                let meant = Meant(meant.as_deref());
                write!(f, "{origin}: there is no key `{}`{meant}", key.escape_debug())
            }
            Self::NotUnicode { origin } => write!(f, "{origin}: it is not valid Unicode"),
            Self::Value { origin, key, expected } => {
                write!(f, "{origin}: `{}` must be {expected}", key.escape_debug())
            }
            Self::Bounds { given, least, most } => {
                let Said { key, value, origin } = &**given;
                write!(f, "{origin}: `{key}` is {value}, it must be from {least} to {most}")
            }
            Self::Url { origin, key, source } => {
                write!(f, "{origin}: `{key}` cannot be used: {source}")
            }
            Self::NotSupported { origin, key, what } => {
                write!(f, "{origin}: `{key}` asks for {what}, which is not supported yet")
            }
            Self::KeyPrefix { origin, source } => {
                write!(f, "{origin}: `key_prefix` cannot begin a name: {source}")
            }
            Self::NamedFile { origin, key, source } => {
                write!(f, "{origin}: the file of `{key}` cannot be read: {source}")
            }
            Self::Missing { key, why } => write!(f, "`{key}` is missing: {why}"),
            Self::Disagree { one, other, why } => write!(f, "{one} and {other} disagree: {why}"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// A path, in a message.
struct Shown<'a>(&'a Path);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.display().to_string().escape_debug())
    }
}

/// The reason why a valid configuration did not connect. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigConnectError {
    /// `Config::connect` was called for the configuration of a quorum.
    #[error("the configuration is that of a quorum: connect with `connect_quorum`")]
    IsQuorum,
    /// `Config::connect_quorum` was called for the configuration of a single server.
    #[error("the configuration is not that of a quorum: connect with `connect`")]
    IsNotQuorum,
    /// Connecting failed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
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

/// A value, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Said {
    /// The key with its sections.
    pub key: String,
    /// The value in the syntax of a file, masked if it is a secret.
    pub value: String,
    /// The source of the value.
    pub origin: Origin,
}

/// The reason why two values conflict, and the change to make.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disagreement {
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
    /// A node may restart without its data, and count again, before a lease is over.
    NodeTooYoung,
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

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Either => f.write_str("set one of them"),
            Self::RenewalTooLate { least_lease, most_timeout } => {
                f.write_str("a renewal that takes all its time is answered after the hold is over; ")?;
                write!(f, "raise the lease to {}", shown(*least_lease))?;
                most_timeout.map_or(Ok(()), |most| write!(f, " or lower the timeout to {}", shown(most)))
            }
            Self::NothingLeft => f.write_str(
                "nothing is left of the lease when a node takes all its time; raise the lease or lower the timeout",
            ),
            Self::NodeTooYoung => f.write_str(
                "a server that forgot a hold would count again before its lease is over; raise the longest lease, \
                 for everybody in the fleet",
            ),
            Self::Order => f.write_str("the first must not be more than the second"),
            Self::NeverRenewed => f.write_str(
                "a fixed lease is never renewed and bounds the hold by itself; set `watchdog` instead of `lease`, or leave \
                 out the other",
            ),
            Self::NotUsed { instead } => f.write_str(instead),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` = {} ({})", self.key, self.value, self.origin)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => Shown(path).fmt(f),
            Self::Variable(name) => write!(f, "{}", name.escape_debug()),
            Self::Code => f.write_str("set by the program"),
            Self::Argument(name) => write!(f, "{}", name.escape_debug()),
        }
    }
}

/// The line and column in a file, in a message.
struct At(Option<u64>, Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ": line {line}"))?;
        self.1.filter(|_| self.0.is_some()).map_or(Ok(()), |column| write!(f, ", column {column}"))
    }
}

/// A suggestion, in a message.
struct Meant<'a>(Option<&'a str>);

impl fmt::Display for Meant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |key| write!(f, "; is `{key}` meant?"))
    }
}
