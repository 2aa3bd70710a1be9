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
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", address("redis://:canary@h")), "Address(***)");
    }
}
