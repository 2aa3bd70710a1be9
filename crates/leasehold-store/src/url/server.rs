//! A server that a client can connect to.
//!
//! Invariant: a server in memory has a valid name, and this build has the store of the server.

use std::fmt;
use std::str::FromStr;

use super::error::UrlError;
use super::scheme::Scheme;
use super::server_url::ServerUrl;

/// A server that keeps locks, read from a URL or from a configuration. `Display` and `Debug` mask its passwords.
///
/// # Examples
/// ```
/// use leasehold_store::url::Server;
///
/// # #[cfg(feature = "redis")] {
/// let server: Server = "redis://app:hunter2@cache.example".parse()?;
/// assert_eq!(server.to_string(), "redis://app:***@cache.example:6379");
/// # }
/// # Ok::<(), leasehold_store::url::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Server {
    /// A server in the memory of this process: `memory://`, or with a name one that clients share.
    Memory(Option<String>),
    /// One or more servers on the network, or at a socket.
    Redis(ServerUrl),
}

impl Server {
    /// Returns true if the connections are encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Redis(url) if url.tls())
    }

    /// Returns true if the server is in the memory of this process, so that its locks exclude no other process.
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }
}

impl FromStr for Server {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        match Scheme::split(text)? {
            (Scheme::Memory, rest) if cfg!(feature = "embedded") => store_name(rest).map(Self::Memory),
            (scheme @ Scheme::Memory, _) => Err(scheme.not_built_in()),
            _ => ServerUrl::parse(text).and_then(Self::try_from),
        }
    }
}

impl TryFrom<ServerUrl> for Server {
    type Error = UrlError;

    fn try_from(url: ServerUrl) -> Result<Self, UrlError> {
        url.served().map(|()| Self::Redis(url))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(name) => write!(f, "memory://{}", name.as_deref().unwrap_or_default()),
            Self::Redis(url) => url.fmt(f),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

/// Returns the name in `memory://name`, or `None` in `memory://`.
fn store_name(rest: &str) -> Result<Option<String>, UrlError> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    match rest {
        "" => Ok(None),
        name if name.chars().all(allowed) => Ok(Some(name.to_owned())),
        _ => Err(UrlError::BadStoreName),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_in_memory_may_have_a_name() {
        assert_eq!(store_name(""), Ok(None));
        assert_eq!(store_name("orders-2.test_a"), Ok(Some("orders-2.test_a".to_owned())));
        for text in ["/", "a/b", "a?b=1", "me:secret@host", "a b", "ä"] {
            assert_eq!(store_name(text), Err(UrlError::BadStoreName), "{text}");
        }
    }

    #[test]
    fn a_server_shows_its_url_without_the_password() {
        for text in ["memory://", "memory://orders", "redis://app:***@h:1/2", "unix:///s"] {
            match text.replace("***", "hunter2").parse::<Server>() {
                Ok(server) => assert_eq!(
                    (server.to_string(), format!("{server:?}")),
                    (text.to_owned(), format!("Server({text})"))
                ),
                Err(error) => assert!(matches!(error, UrlError::NotBuiltIn { .. }), "{text}: {error}"),
            }
        }
    }
}
