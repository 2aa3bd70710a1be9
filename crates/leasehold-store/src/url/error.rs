//! The reasons why a URL is refused.

use std::fmt;

/// The reason for which a URL was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The URL does not begin with `scheme://`.
    #[error("the URL does not begin with a scheme such as `redis://`")]
    NoScheme,
    /// The scheme belongs to the family, but needs another feature or a later version.
    #[error("`{scheme}://` is not {}", Hint(*feature))]
    #[non_exhaustive]
    NotBuiltIn {
        /// The scheme.
        scheme: &'static str,
        /// The feature of the crate `leasehold` that brings the scheme, or `None` when no version has it yet.
        feature: Option<&'static str>,
    },
    /// The scheme does not belong to the family.
    #[error(
        "`{scheme}://` is not a known scheme; use `redis://`, `redis+sentinel://`, `redis+cluster://`, `unix://` or `memory://`"
    )]
    #[non_exhaustive]
    UnknownScheme {
        /// The scheme, in lower case.
        scheme: String,
    },
    /// The URL has no host between `redis://` and the port or the end.
    #[error("the URL has no host")]
    NoHost,
    /// The host has characters that no host has, or brackets around text that is no IPv6 address.
    #[error("the URL's host is not a host name or address")]
    BadHost,
    /// The port is not a number from 1 to 65535.
    #[error("the URL's port is not a number from 1 to 65535")]
    BadPort,
    /// A `redis+sentinel://` URL has no service name between the Sentinels and the database or the end.
    #[error("the URL has no service name after its sentinels; write `redis+sentinel://host/service`")]
    NoService,
    /// The database is not a number.
    #[error("the URL's database is not a number; write `redis://host/0`")]
    BadDatabase,
    /// The URL has a user name without a password.
    #[error("the URL has a user but no password; write `redis://user:password@host`")]
    NoPassword,
    /// The user or password has a `/`, `?`, `#` or `@` that is not percent-encoded.
    #[error("the URL's user or password has a `/`, `?`, `#` or `@` that must be percent-encoded")]
    UnescapedCredentials,
    /// A `%` is not followed by two hex digits, or the decoded bytes are not UTF-8.
    #[error("the URL has a `%` without two hex digits of UTF-8 text; write `%25` for a percent sign")]
    BadEscape,
    /// A `unix://` URL has no absolute path.
    #[error("the URL has no absolute path to a socket; write `unix:///run/redis.sock`")]
    NoPath,
    /// A parameter is not known for this scheme, or the URL has a fragment.
    #[error("the URL has a parameter or fragment that its scheme does not take")]
    UnknownParameter,
    /// The name of a store in memory has characters besides letters, digits, `-`, `_` and `.`.
    #[error("the store name in the URL may only have letters, digits, `-`, `_` and `.`")]
    BadStoreName,
}

/// The feature to switch on, or `None` if no version has the store yet.
struct Hint(Option<&'static str>);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(feature) => {
                write!(f, "available in this build; enable the feature `{feature}` of the crate `leasehold`")
            }
            None => f.write_str("supported yet"),
        }
    }
}
