//! The parser of server URLs.
//!
//! Invariant: the parser never panics, and no error repeats the text.

use std::net::Ipv6Addr;

use super::server_url::{Address, Credentials, ServerUrl, Servers};
use crate::url::{Scheme, UrlError};

const DEFAULT_PORT: u16 = 6379;

pub(super) fn url(text: &str) -> Result<ServerUrl, UrlError> {
    match Scheme::split(text)? {
        (Scheme::Redis, rest) => tcp(rest),
        (Scheme::Unix, rest) => unix(rest),
        (scheme @ Scheme::Memory, _) => Err(scheme.not_built_in()),
    }
}

fn tcp(rest: &str) -> Result<ServerUrl, UrlError> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        return Err(UrlError::UnescapedCredentials);
    }
    let (user, address) = authority.rsplit_once('@').unwrap_or(("", authority));
    let credentials = read_login(user)?;
    let (host, port) = read_place(address)?;
    let db = match tail.strip_prefix('/') {
        _ if tail.contains(['?', '#']) => return Err(UrlError::UnknownParameter),
        None | Some("") => 0,
        Some(db) => read_db(db)?,
    };
    Ok(ServerUrl { servers: Servers::One(Address::Tcp { host, port }), tls: false, credentials, db })
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
        (_, false) => Ok(Some(Credentials { user, password })),
    }
}

fn read_place(place: &str) -> Result<(String, u16), UrlError> {
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
    Ok((host.into(), read_port(port)?))
}

fn read_port(port: &str) -> Result<u16, UrlError> {
    if port.is_empty() {
        return Ok(DEFAULT_PORT);
    }
    let digits = port.strip_prefix(':').ok_or(UrlError::BadPort)?;
    match read_number(digits).and_then(|port| u16::try_from(port).ok()) {
        Some(port) if port > 0 => Ok(port),
        _ => Err(UrlError::BadPort),
    }
}

fn read_db(db: &str) -> Result<u32, UrlError> {
    read_number(db).ok_or(UrlError::BadDatabase)
}

/// Reads a number that consists of digits only, because `u32::from_str` would take a sign too.
fn read_number(digits: &str) -> Option<u32> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn unix(rest: &str) -> Result<ServerUrl, UrlError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') || path.len() == 1 {
        return Err(UrlError::NoPath);
    }
    let (mut user, mut password, mut db) = (String::new(), String::new(), 0);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("db", value)) => db = read_db(value)?,
            Some(("user", value)) => user = decode(value)?,
            Some(("pass", value)) => password = decode(value)?,
            _ => return Err(UrlError::UnknownParameter),
        }
    }
    let address = Address::Unix { path: decode(path)?.into() };
    Ok(ServerUrl {
        servers: Servers::One(address),
        tls: false,
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
