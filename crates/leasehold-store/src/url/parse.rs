//! The parser of server URLs.
//!
//! Invariant: the parser never panics, and no error repeats the text.

use std::net::Ipv6Addr;
use std::str::FromStr;

use super::address::{Address, Servers};
use super::credentials::Credentials;
use super::error::UrlError;
use super::scheme::Scheme;
use super::server_url::ServerUrl;

/// The port of a server that keeps data.
const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl ServerUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// Returns [`UrlError`], which names the wrong part without repeating it, because it might be the password.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        url(text)
    }
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl Address {
    /// Reads `host` or `host:port` of a server that keeps locks, or the absolute path of a socket.
    ///
    /// # Errors
    /// Returns [`UrlError`] if the host or the port is none.
    pub fn server(text: &str) -> Result<Self, UrlError> {
        match text.starts_with('/') {
            true if is_socket(text) => Ok(Self::Unix { path: text.into() }),
            true => Err(UrlError::NoPath),
            false => place(text, SERVER_PORT),
        }
    }

    /// Reads `host` or `host:port` of a sentinel.
    ///
    /// # Errors
    /// As [`server`](Self::server).
    pub fn sentinel(text: &str) -> Result<Self, UrlError> {
        place(text, SENTINEL_PORT)
    }
}

fn url(text: &str) -> Result<ServerUrl, UrlError> {
    match Scheme::split(text)? {
        (Scheme::Redis { tls }, rest) => one(tls, rest),
        (Scheme::Sentinel { tls }, rest) => sentinel(tls, rest),
        (Scheme::Cluster { tls }, rest) => cluster(tls, rest),
        (Scheme::Unix, rest) => unix(rest),
        (scheme @ Scheme::Memory, _) => Err(scheme.not_built_in()),
    }
}

/// The parts of a URL of the network, none of them decoded.
struct Parts<'a> {
    login: &'a str,
    hosts: &'a str,
    path: &'a str,
    /// The text behind the `?`, empty if there is none.
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn split(rest: &'a str) -> Result<Self, UrlError> {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if tail.contains('@') {
            return Err(UrlError::UnescapedCredentials);
        }
        if tail.contains('#') {
            return Err(UrlError::UnknownParameter);
        }
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
        Ok(Self { login, hosts, path: path.strip_prefix('/').unwrap_or(path), query })
    }

    /// Returns the addresses of the hosts, which commas separate.
    fn addresses(&self, default_port: u16) -> Result<Vec<Address>, UrlError> {
        self.hosts.split(',').map(|host| place(host, default_port)).collect()
    }

    fn no_query(&self) -> Result<(), UrlError> {
        if self.query.is_empty() { Ok(()) } else { Err(UrlError::UnknownParameter) }
    }
}

fn one(tls: bool, rest: &str) -> Result<ServerUrl, UrlError> {
    let parts = Parts::split(rest)?;
    let credentials = read_login(parts.login)?;
    let servers = Servers::One(place(parts.hosts, SERVER_PORT)?);
    parts.no_query()?;
    Ok(ServerUrl { servers, tls, credentials, db: read_db(parts.path)? })
}

fn sentinel(tls: bool, rest: &str) -> Result<ServerUrl, UrlError> {
    let parts = Parts::split(rest)?;
    let credentials = read_login(parts.login)?;
    let sentinels = parts.addresses(SENTINEL_PORT)?;
    let (service, db) = parts.path.split_once('/').unwrap_or((parts.path, ""));
    let service = decode(service)?;
    if service.is_empty() {
        return Err(UrlError::NoService);
    }
    let login = read_query(parts.query, ["sentinel_username", "sentinel_password"])?;
    let [user, password] = login.map(|value| decode(value.unwrap_or_default()));
    let servers = Servers::Sentinel { sentinels, service, credentials: self::credentials(user?, password?)? };
    Ok(ServerUrl { servers, tls, credentials, db: read_db(db)? })
}

fn cluster(tls: bool, rest: &str) -> Result<ServerUrl, UrlError> {
    let parts = Parts::split(rest)?;
    let credentials = read_login(parts.login)?;
    let servers = Servers::Cluster { seeds: parts.addresses(SERVER_PORT)? };
    parts.no_query()?;
    // A cluster of Valkey 9 has numbered databases. Other clusters refuse one when the client connects.
    Ok(ServerUrl { servers, tls, credentials, db: read_db(parts.path)? })
}

fn unix(rest: &str) -> Result<ServerUrl, UrlError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !is_socket(path) {
        return Err(UrlError::NoPath);
    }
    let [db, user, password] = read_query(query, ["db", "user", "pass"])?;
    let [user, password] = [user, password].map(|value| decode(value.unwrap_or_default()));
    let credentials = credentials(user?, password?)?;
    let db = db.map_or(Ok(0), |db| read_number(db).ok_or(UrlError::BadDatabase))?;
    let servers = Servers::One(Address::Unix { path: decode(path)?.into() });
    Ok(ServerUrl { servers, tls: false, credentials, db })
}

/// Returns true if the text may be the absolute path of a socket.
fn is_socket(path: &str) -> bool {
    path.starts_with('/') && path.len() > 1
}

/// Returns the values of these parameters. The last of several values counts.
fn read_query<'a, const N: usize>(
    query: &'a str,
    names: [&str; N],
) -> Result<[Option<&'a str>; N], UrlError> {
    let mut values = [None; N];
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(UrlError::UnknownParameter)?;
        let index = names.iter().position(|known| *known == name).ok_or(UrlError::UnknownParameter)?;
        values[index] = Some(value);
    }
    Ok(values)
}

fn read_login(login: &str) -> Result<Option<Credentials>, UrlError> {
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
        (_, false) => Ok(Some(Credentials { user, ..Credentials::password(password) })),
    }
}

fn place(text: &str, default_port: u16) -> Result<Address, UrlError> {
    let (host, port) = if let Some(inner) = text.strip_prefix('[') {
        let (host, port) = inner.split_once(']').ok_or(UrlError::BadHost)?;
        host.parse::<Ipv6Addr>().map_err(|_| UrlError::BadHost)?;
        (host, port)
    } else {
        text.split_at(text.find(':').unwrap_or(text.len()))
    };
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if !host.chars().all(allowed) {
        return Err(UrlError::BadHost);
    }
    Ok(Address::Tcp { host: host.into(), port: read_port(port, default_port)? })
}

fn read_port(port: &str, default_port: u16) -> Result<u16, UrlError> {
    if port.is_empty() {
        return Ok(default_port);
    }
    let digits = port.strip_prefix(':').ok_or(UrlError::BadPort)?;
    match read_number(digits).and_then(|port| u16::try_from(port).ok()) {
        Some(port) if port > 0 => Ok(port),
        _ => Err(UrlError::BadPort),
    }
}

/// Reads the database of a path, which is 0 if the path has none.
fn read_db(db: &str) -> Result<u32, UrlError> {
    if db.is_empty() { Ok(0) } else { read_number(db).ok_or(UrlError::BadDatabase) }
}

/// Reads a number that consists of digits only, because `u32::from_str` would take a sign too.
fn read_number(digits: &str) -> Option<u32> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
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
