//! The URL of a server.
//!
//! Invariant: the password is in no `Debug`, no `Display` and no error; an error carries none of the URL's text but
//! its scheme.
//! Called by: the client, with what the user wrote.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

const DEFAULT_PORT: u16 = 6379;

/// Schemes that the family of URLs has and this build does not serve.
const NOT_BUILT_IN: [&str; 4] = ["rediss", "redis+sentinel", "redis+cluster", "memory"];

/// Where a server is and how to log in: `redis://[[user]:password@]host[:port][/db]` or
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
    pub(super) address: Address,
    pub(super) credentials: Option<Credentials>,
    pub(super) db: u32,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Unix { path: PathBuf },
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: Option<String>,
    pub(super) password: String,
}

/// Why a URL was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// There is no `scheme://` in front.
    #[error("the URL does not begin with a scheme such as `redis://`")]
    NoScheme,
    /// A scheme of the family that needs another feature or a later version.
    #[error("`{scheme}://` is not available in this build")]
    NotBuiltIn {
        /// The scheme.
        scheme: &'static str,
    },
    /// A scheme that is none of the family.
    #[error("`{scheme}://` is not a scheme of a lock server; `redis://` and `unix://` are")]
    UnknownScheme {
        /// The scheme, in lower case.
        scheme: String,
    },
    /// No host between `redis://` and the port or the end.
    #[error("the URL has no host")]
    NoHost,
    /// The host has characters that no host has, or brackets around something that is no IPv6 address.
    #[error("the URL's host is not a host name or address")]
    BadHost,
    /// The port is not a number from 1 to 65535.
    #[error("the URL's port is not a number from 1 to 65535")]
    BadPort,
    /// The database is not a number.
    #[error("the URL's database is not a number")]
    BadDatabase,
    /// A user name without a password.
    #[error("the URL has a user but no password")]
    NoPassword,
    /// A `/`, `?` or `#` in the user or password that is not percent-encoded.
    #[error("the URL's user or password has a `/`, `?` or `#` that must be percent-encoded")]
    UnescapedCredentials,
    /// A `%` that is not followed by two hex digits, or bytes that are not UTF-8 when decoded.
    #[error("the URL has a percent escape that is not UTF-8 text")]
    BadEscape,
    /// `unix://` without an absolute path.
    #[error("the URL has no absolute path to a socket")]
    NoPath,
    /// A parameter that is not known for this scheme, or a fragment.
    #[error("the URL has a parameter that is not known for its scheme")]
    UnknownParameter,
}

impl ServerUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`UrlError`] says which part is wrong, without repeating it: it might be the password.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::NoScheme)?;
        let scheme = scheme.to_ascii_lowercase();
        match scheme.as_str() {
            "redis" => parse_tcp(rest),
            "unix" => parse_unix(rest),
            other => Err(refuse(other)),
        }
    }
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

fn refuse(scheme: &str) -> UrlError {
    if let Some(scheme) = NOT_BUILT_IN.into_iter().find(|known| *known == scheme) {
        return UrlError::NotBuiltIn { scheme };
    }
    // What stands before `://` may also be a password that was pasted in the wrong place.
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(allowed) {
        UrlError::UnknownScheme {
            scheme: scheme.into(),
        }
    } else {
        UrlError::NoScheme
    }
}

fn parse_tcp(rest: &str) -> Result<ServerUrl, UrlError> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        return Err(UrlError::UnescapedCredentials);
    }
    let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let credentials = parse_login(login)?;
    let (host, port) = parse_place(place)?;
    let db = match tail.strip_prefix('/') {
        _ if tail.contains(['?', '#']) => return Err(UrlError::UnknownParameter),
        None | Some("") => 0,
        Some(db) => parse_db(db)?,
    };
    Ok(ServerUrl {
        address: Address::Tcp { host, port },
        credentials,
        db,
    })
}

fn parse_login(login: &str) -> Result<Option<Credentials>, UrlError> {
    if login.is_empty() {
        return Ok(None);
    }
    let (user, password) = login.split_once(':').ok_or(UrlError::NoPassword)?;
    credentials(decode(user)?, decode(password)?)
}

fn credentials(user: String, password: String) -> Result<Option<Credentials>, UrlError> {
    let user = (!user.is_empty()).then_some(user);
    match (&user, password.is_empty()) {
        (None, true) => Ok(None),
        (Some(_), true) => Err(UrlError::NoPassword),
        (_, false) => Ok(Some(Credentials { user, password })),
    }
}

fn parse_place(place: &str) -> Result<(String, u16), UrlError> {
    let (host, port) = if let Some(inner) = place.strip_prefix('[') {
        let (host, port) = inner.split_once(']').ok_or(UrlError::BadHost)?;
        host.parse::<Ipv6Addr>().map_err(|_| UrlError::BadHost)?;
        (host, port)
    } else {
        place.split_at(place.find(':').unwrap_or(place.len()))
    };
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if !host.chars().all(allowed) {
        return Err(UrlError::BadHost);
    }
    Ok((host.into(), parse_port(port)?))
}

fn parse_port(port: &str) -> Result<u16, UrlError> {
    if port.is_empty() {
        return Ok(DEFAULT_PORT);
    }
    let digits = port.strip_prefix(':').ok_or(UrlError::BadPort)?;
    match parse_number(digits).and_then(|port| u16::try_from(port).ok()) {
        Some(port) if port > 0 => Ok(port),
        _ => Err(UrlError::BadPort),
    }
}

fn parse_db(db: &str) -> Result<u32, UrlError> {
    parse_number(db).ok_or(UrlError::BadDatabase)
}

/// A number of digits only: `u32::from_str` would take a sign too.
fn parse_number(digits: &str) -> Option<u32> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

fn parse_unix(rest: &str) -> Result<ServerUrl, UrlError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') || path.len() == 1 {
        return Err(UrlError::NoPath);
    }
    let (mut user, mut password, mut db) = (String::new(), String::new(), 0);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("db", value)) => db = parse_db(value)?,
            Some(("user", value)) => user = decode(value)?,
            Some(("pass", value)) => password = decode(value)?,
            _ => return Err(UrlError::UnknownParameter),
        }
    }
    let address = Address::Unix {
        path: decode(path)?.into(),
    };
    Ok(ServerUrl {
        address,
        credentials: credentials(user, password)?,
        db,
    })
}

fn decode(text: &str) -> Result<String, UrlError> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let byte = if byte == b'%' {
            let (high, low) = bytes.next().zip(bytes.next()).ok_or(UrlError::BadEscape)?;
            hex(high)? * 16 + hex(low)?
        } else {
            byte
        };
        decoded.push(byte);
    }
    String::from_utf8(decoded).map_err(|_| UrlError::BadEscape)
}

fn hex(digit: u8) -> Result<u8, UrlError> {
    let value = char::from(digit).to_digit(16).ok_or(UrlError::BadEscape)?;
    u8::try_from(value).map_err(|_| UrlError::BadEscape)
}

/// Text with everything percent-encoded that has a meaning in a URL or in a terminal.
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
        let user = self
            .credentials
            .as_ref()
            .map(|login| Encoded(login.user.as_deref().unwrap_or_default()));
        match &self.address {
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
                if self.db == 0 {
                    Ok(())
                } else {
                    write!(f, "/{}", self.db)
                }
            }
            Address::Unix { path } => {
                write!(f, "unix://{}?db={}", Encoded(&path.to_string_lossy()), self.db)?;
                user.map_or(Ok(()), |user| write!(f, "&user={user}&pass=***"))
            }
        }
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}
