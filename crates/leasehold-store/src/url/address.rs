//! The servers that a URL names, and how a client finds the server of a lock through them.
//!
//! Invariant: a list of a parsed URL has at least one address.

use std::fmt;
use std::path::PathBuf;

use super::credentials::Credentials;

/// The servers that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Servers {
    /// A single server.
    One(Address),
    /// The master of a service, whose address the Sentinels know.
    Sentinel {
        /// The Sentinels, at least one, all on ports.
        sentinels: Vec<Address>,
        /// The name of the service in the configuration of the Sentinels, not empty.
        service: String,
        /// The login at the Sentinels. The login of the URL is for the master.
        credentials: Option<Credentials>,
    },
    /// The masters of a cluster, whose addresses each node of the cluster knows.
    Cluster {
        /// Some nodes of the cluster, at least one, all on ports.
        seeds: Vec<Address>,
    },
}

/// The address of a server, as a transport receives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a transport connects to each of them")]
pub enum Address {
    /// A port of a host.
    Tcp {
        /// A name or an address, an IPv6 address without its brackets.
        host: String,
        /// The port, at least 1.
        port: u16,
    },
    /// A socket in the file system.
    Unix {
        /// The absolute path of the socket.
        path: PathBuf,
    },
}

impl Servers {
    /// Returns true if both are at the same addresses. A cluster may be named like a single server.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        let ((these, service), (others, of_others)) = (self.addresses(), other.addresses());
        let are_same =
            these.len() == others.len() && these.iter().zip(others).all(|(one, other)| one.is(other));
        service == of_others && are_same
    }

    /// Returns the addresses, and the service that sentinels watch.
    pub(super) fn addresses(&self) -> (&[Address], Option<&str>) {
        match self {
            Self::One(address) => (std::slice::from_ref(address), None),
            Self::Sentinel { sentinels, service, .. } => (sentinels, Some(service)),
            Self::Cluster { seeds } => (seeds, None),
        }
    }
}

impl Address {
    /// Returns true if both name one server. The case of a host does not matter.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp { host, port }, Self::Tcp { host: of_other, port: other }) => {
                port == other && host.eq_ignore_ascii_case(of_other)
            }
            _ => self == other,
        }
    }
}

/// Writes `host:port`, with brackets around an IPv6 address, or the path of the socket.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { path } => write!(f, "{}", path.display()),
        }
    }
}
