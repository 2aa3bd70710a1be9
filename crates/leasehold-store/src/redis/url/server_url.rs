//! The parts of a server's URL, and its text without the password.
//!
//! Invariant: the password is in no `Debug` and no `Display`.

use std::fmt;
use std::path::PathBuf;

/// The address of a server and the login: `redis://[[user]:password@]host[:port][/db]` or
/// `unix:///path/to.sock[?db=n&user=name&pass=word]`.
///
/// User, password and path are percent-decoded. `Display` and `Debug` write `***` for the password.
///
/// ```
/// use leasehold_store::redis::ServerUrl;
///
/// let url: ServerUrl = "redis://app:p%40ss@cache.example:6380/2".parse()?;
/// assert_eq!(url.to_string(), "redis://app:***@cache.example:6380/2");
/// # Ok::<(), leasehold_store::redis::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    pub(crate) servers: Servers,
    pub(crate) tls: bool,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) db: u32,
}

/// The address of a server, which a [`Dial`](crate::redis::Dial) receives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, dead_code)]
pub(crate) enum Servers {
    One(Address),
    Sentinel { sentinels: Vec<Address>, service: String, credentials: Option<Credentials> },
    Cluster { seeds: Vec<Address> },
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

/// A text that percent-encodes every character with a meaning in a URL or in a terminal.
struct Encoded<'a>(&'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                b'-' | b'.' | b'_' | b'~' | b'/' => write!(f, "{}", char::from(byte))?,
                _ if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.credentials.as_ref().map(|login| Encoded(login.user.as_deref().unwrap_or_default()));
        let Servers::One(address) = &self.servers else { return Ok(()) };
        match address {
            Address::Tcp { host, port } => {
                f.write_str("redis://")?;
                if let Some(user) = user {
                    write!(f, "{user}:***@")?;
                }
                if host.contains(':') {
                    write!(f, "[{host}]:{port}")?;
                } else {
                    write!(f, "{host}:{port}")?;
                }
                if self.db == 0 { Ok(()) } else { write!(f, "/{}", self.db) }
            }
            Address::Unix { path } => {
                write!(f, "unix://{}", Encoded(&path.to_string_lossy()))?;
                if self.db != 0 {
                    write!(f, "?db={}", self.db)?;
                }
                let joint = if self.db == 0 { '?' } else { '&' };
                user.map_or(Ok(()), |user| write!(f, "{joint}user={user}&pass=***"))
            }
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ***", self.user)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}
