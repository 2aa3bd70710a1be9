//! The server's address on the command line, and the protection of its password.
//!
//! Invariant: an [`Address`] has no `Display`, and its `Debug` shows nothing of it. The configuration reads the
//! environment, and not the argument parser, which would print the value in help texts and errors.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// The URL of a server, unchecked, perhaps with a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address(String);

impl Address {
    /// Returns the URL itself, for the library only.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns true if the address may carry a password.
    pub(crate) fn has_password(&self) -> bool {
        let rest = self.0.split_once("://").map_or(self.0.as_str(), |(_, rest)| rest);
        let in_front = rest.rsplit_once('@').is_some_and(|(login, _)| login.contains(':'));
        let behind = rest.split_once('?').is_some_and(|(_, query)| query.contains("pass"));
        in_front || behind
    }
}

impl FromStr for Address {
    type Err = Infallible;

    fn from_str(url: &str) -> Result<Self, Infallible> {
        Ok(Self(url.to_owned()))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Address {
        Address(url.to_owned())
    }

    #[test]
    fn passwords_are_recognized() {
        for url in ["redis://:pw@h", "redis://me:pw@h:1", "redis://:p/w?@h", "unix:///s?password=pw", ":pw@h"]
        {
            assert!(address(url).has_password(), "{url}");
        }
        for url in ["redis://h:6379", "redis://me@h:6379/0", "unix:///tmp/s?db=1", "nonsense"] {
            assert!(!address(url).has_password(), "{url}");
        }
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", address("redis://:canary@h")), "Address(***)");
    }
}
