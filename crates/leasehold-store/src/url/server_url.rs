//! The parts of a server's URL, and its text without the passwords.
//!
//! Invariant: no password is in a `Debug` or `Display`.

use std::fmt;

use super::address::{Address, Servers};
use super::credentials::Credentials;
use super::error::UrlError;
use super::scheme::Scheme;

/// The servers and the login, in one of these forms:
///
/// ```text
/// redis://[[user]:password@]host[:6379][/db]
/// redis+sentinel://[[user]:password@]host[:26379][,host..]/service[/db][?sentinel_username=name&sentinel_password=word]
/// redis+cluster://[[user]:password@]host[:6379][,host..][/db]
/// unix:///path/to.sock[?db=n&user=name&pass=word]
/// ```
///
/// `rediss` in place of `redis` encrypts the connections, those to Sentinels too. `valkey` may stand for `redis`, and `-`
/// for `+`. The user and password are those of the servers that keep the locks, and Sentinels have their own.
///
/// Users, passwords, paths and service names are percent-decoded. `Display` and `Debug` write `***` for each password.
///
/// ```
/// use leasehold_store::url::ServerUrl;
///
/// let url: ServerUrl = "redis://app:p%40ss@cache.example:6380/2".parse()?;
/// assert_eq!(url.to_string(), "redis://app:***@cache.example:6380/2");
/// let url: ServerUrl = "valkeys-sentinel://:p%40ss@s1,s2:5000/orders".parse()?;
/// assert_eq!(url.to_string(), "rediss+sentinel://:***@s1:26379,s2:5000/orders");
/// # Ok::<(), leasehold_store::url::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    pub(crate) servers: Servers,
    pub(crate) tls: bool,
    /// The login at the servers that keep the locks.
    pub(crate) credentials: Option<Credentials>,
    pub(crate) db: u32,
}

impl ServerUrl {
    /// Returns servers without encryption, with the login of the default user without a password, and database 0.
    #[must_use]
    pub const fn new(servers: Servers) -> Self {
        Self { servers, tls: false, credentials: None, db: 0 }
    }

    /// Sets whether the connections are encrypted.
    #[must_use]
    pub fn encrypted(self, tls: bool) -> Self {
        Self { tls, ..self }
    }

    /// Sets the login at the servers that keep the locks.
    #[must_use]
    pub fn credentials(self, credentials: Option<Credentials>) -> Self {
        Self { credentials, ..self }
    }

    /// Sets the index of the database.
    #[must_use]
    pub fn in_database(self, db: u32) -> Self {
        Self { db, ..self }
    }

    /// Returns the servers.
    #[must_use]
    pub const fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Returns true if both are at the same addresses, whatever the login, the encryption and the database.
    #[must_use]
    pub fn is_at(&self, other: &Self) -> bool {
        self.servers.is_at(&other.servers)
    }

    /// Returns true if the connections are encrypted.
    #[must_use]
    pub const fn tls(&self) -> bool {
        self.tls
    }

    /// Returns the index of the database.
    #[must_use]
    pub const fn database(&self) -> u32 {
        self.db
    }

    /// Returns true if sentinels name the server.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub(crate) const fn is_sentinel(&self) -> bool {
        matches!(self.servers, Servers::Sentinel { .. })
    }

    /// Checks that this build serves the URL.
    ///
    /// # Errors
    /// Returns [`UrlError::NotBuiltIn`] in a build without the feature `redis`, and for TLS in one without the features
    /// `tls-ring` and `tls-aws-lc`.
    pub const fn served(&self) -> Result<(), UrlError> {
        let has_tls = cfg!(any(feature = "tls-ring", feature = "tls-aws-lc"));
        if cfg!(not(feature = "redis")) {
            Err(self.scheme().not_built_in())
        } else if self.tls && !has_tls {
            Err(self.scheme().without_tls())
        } else {
            Ok(())
        }
    }

    const fn scheme(&self) -> Scheme {
        let tls = self.tls;
        match &self.servers {
            Servers::One(Address::Unix { .. }) => Scheme::Unix,
            Servers::One(Address::Tcp { .. }) => Scheme::Redis { tls },
            Servers::Sentinel { .. } => Scheme::Sentinel { tls },
            Servers::Cluster { .. } => Scheme::Cluster { tls },
        }
    }
}

/// A text that percent-encodes every character with a meaning in a URL or in a terminal, but for the `/` of a path.
struct Encoded<'a> {
    text: &'a str,
    is_path: bool,
}

/// Encodes a part of a URL, such as a user.
const fn part(text: &str) -> Encoded<'_> {
    Encoded { text, is_path: false }
}

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.text.bytes() {
            match byte {
                b'-' | b'.' | b'_' | b'~' => write!(f, "{}", char::from(byte))?,
                b'/' if self.is_path => f.write_str("/")?,
                _ if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

/// The addresses of a URL, joined by commas.
struct List<'a>(&'a [Address]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(index, address)| {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{address}")
        })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme().name())?;
        let user = self.credentials.as_ref().map(user_of);
        let addresses = match &self.servers {
            Servers::One(Address::Unix { path }) => {
                write!(f, "{}", Encoded { text: &path.to_string_lossy(), is_path: true })?;
                if self.db != 0 {
                    write!(f, "?db={}", self.db)?;
                }
                let joint = if self.db == 0 { '?' } else { '&' };
                return user.map_or(Ok(()), |user| write!(f, "{joint}user={user}&pass=***"));
            }
            servers => servers.addresses().0,
        };
        if let Some(user) = user {
            write!(f, "{user}:***@")?;
        }
        write!(f, "{}", List(addresses))?;
        if let Servers::Sentinel { service, .. } = &self.servers {
            write!(f, "/{}", part(service))?;
        }
        if self.db != 0 {
            write!(f, "/{}", self.db)?;
        }
        match &self.servers {
            Servers::Sentinel { credentials: Some(login), .. } => {
                write!(f, "?sentinel_username={}&sentinel_password=***", user_of(login))
            }
            _ => Ok(()),
        }
    }
}

fn user_of(login: &Credentials) -> Encoded<'_> {
    part(login.user.as_deref().unwrap_or_default())
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}
