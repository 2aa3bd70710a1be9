//! Why there is no configuration, and why one made no client.
//!
//! Invariant: every error names the key and where it was set; none repeats a secret, nor a value that might be one.
//! Called by: everything that reads and checks a configuration.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_proto::NameError;

use super::span::shown;
use crate::error::{ConnectError, UrlError};

/// Why there is no configuration. Nothing was connected to.
///
/// Its message has its cause in it, so [`source`](std::error::Error::source) is `None`.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// A configuration file cannot be read.
    #[non_exhaustive]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The name of a file does not say what it is written in.
    #[non_exhaustive]
    Format {
        /// Its path.
        path: PathBuf,
    },
    /// A file is not what its name says.
    #[non_exhaustive]
    Syntax {
        /// Its path.
        path: PathBuf,
        /// `TOML`, `YAML` or `JSON`.
        format: &'static str,
        /// In which line, from 1 on, if that is known.
        line: Option<u64>,
        /// In which column of it.
        column: Option<u64>,
    },
    /// There is no such key.
    #[non_exhaustive]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// What may have been meant: a key, or the name of a variable.
        meant: Option<String>,
    },
    /// A value, or the name of a variable, is not text.
    #[non_exhaustive]
    NotUnicode {
        /// The variable.
        origin: Origin,
    },
    /// A value is not of the kind that its key has.
    #[non_exhaustive]
    Value {
        /// Where it stands.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// What to write instead.
        expected: String,
    },
    /// A value is outside its bounds.
    #[non_exhaustive]
    Bounds {
        /// What was set.
        given: Box<Said>,
        /// The least that is allowed.
        least: String,
        /// The most that is allowed.
        most: String,
    },
    /// A URL, or an address, cannot be used.
    #[non_exhaustive]
    Url {
        /// Where it stands.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// Which part is wrong.
        source: UrlError,
    },
    /// No version can connect to such servers.
    #[non_exhaustive]
    NotSupported {
        /// Where it stands.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// What the version lacks: `TLS`, `Sentinel` or `Redis Cluster`.
        what: &'static str,
    },
    /// The key prefix cannot begin a name.
    #[non_exhaustive]
    KeyPrefix {
        /// Where it stands.
        origin: Origin,
        /// Which rule it breaks.
        source: NameError,
    },
    /// A file that is named, of a password or for TLS, cannot be read.
    #[non_exhaustive]
    NamedFile {
        /// Where it is named.
        origin: Origin,
        /// The key with its sections.
        key: String,
        /// What the system says.
        source: io::Error,
    },
    /// Something that is needed is not there.
    #[non_exhaustive]
    Missing {
        /// What to set.
        key: String,
        /// What for.
        why: &'static str,
    },
    /// Two values cannot stand together.
    #[non_exhaustive]
    Disagree {
        /// One of them.
        one: Box<Said>,
        /// The other.
        other: Box<Said>,
        /// Why, and what to change.
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

/// Why a configuration, which is right, made no client. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigConnectError {
    /// `Config::connect` of a quorum's configuration.
    #[error("the configuration is that of a quorum: connect with `connect_quorum`")]
    IsQuorum,
    /// `Config::connect_quorum` of a single server's configuration.
    #[error("the configuration is not that of a quorum: connect with `connect`")]
    IsNotQuorum,
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nowhere: it is what it is when nobody says.
    Default,
    /// In this file.
    File(PathBuf),
    /// In this variable of the environment.
    Variable(String),
    /// In the program.
    Code,
    /// In this argument of the program's command line, which the program handed on by its name.
    Argument(String),
}

/// A value, and where it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Said {
    /// The key with its sections.
    pub key: String,
    /// As in a file; masked when it is a secret.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

/// Why two values cannot stand together, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disagreement {
    /// Both say the same thing in two ways.
    Either,
    /// A renewal, which is sent after a third of the lease, may be answered when the hold is over.
    #[non_exhaustive]
    RenewalTooLate {
        /// The least lease for the timeout.
        least_lease: Duration,
        /// The longest timeout for the lease; none when no timeout would do.
        most_timeout: Option<Duration>,
    },
    /// Nothing is left of a lease when a node has taken all its time to grant it.
    NothingLeft,
    /// A node may be back, and have forgotten, before a lease is over.
    NodeTooYoung,
    /// The least is more than the most.
    Order,
    /// A fixed lease is never renewed, and so is a bound by itself.
    NeverRenewed,
    /// One is only for what the other says is not there.
    #[non_exhaustive]
    NotUsed {
        /// What to write instead.
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

/// A place in a file, in a message.
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
