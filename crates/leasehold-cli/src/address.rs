//! The server's address, and how it is kept from everybody's eyes.
//!
//! Invariant: an [`Address`] has no `Display`, and its `Debug` shows nothing of it. The environment is read here and not
//! by the argument parser, which would print the value in help texts and errors.
//! Called by: the argument parser for `--url`, `run` for the rest.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use anyhow::anyhow;

use crate::exit::Failure;

/// Where the address is taken from when there is no `--url`.
pub(crate) const VARIABLE: &str = "LEASEHOLD_URL";
/// The address when nobody gives one.
pub(crate) const DEFAULT: &str = "redis://127.0.0.1:6379";

/// A server's URL, unchecked, perhaps with a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address(String);

impl Address {
    /// The argument, else the value of the environment variable, else the default.
    ///
    /// A server in the memory of this process is refused, whether or not the library has one: each command would have
    /// its own, and none would exclude another.
    pub(crate) fn choose(argument: Option<&Self>, variable: Option<OsString>) -> Result<Self, Failure> {
        let chosen = Self::given(argument, variable)?;
        let scheme = chosen.0.split_once("://").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("memory")) {
            return Err(Failure::usage(anyhow!(
                "memory:// excludes nobody outside one process; commands need a server, such as {DEFAULT}"
            )));
        }
        Ok(chosen)
    }

    fn given(argument: Option<&Self>, variable: Option<OsString>) -> Result<Self, Failure> {
        if let Some(argument) = argument {
            return Ok(argument.clone());
        }
        match variable.map(OsString::into_string) {
            None => Ok(Self(DEFAULT.to_owned())),
            Some(Ok(url)) if url.is_empty() => {
                Err(Failure::usage(anyhow!("{VARIABLE} is set but empty; unset it to use {DEFAULT}")))
            }
            Some(Ok(url)) => Ok(Self(url)),
            Some(Err(_)) => Err(Failure::usage(anyhow!("{VARIABLE} is not valid UTF-8"))),
        }
    }

    /// The URL itself, for the library only.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it seems to carry a password; in doubt it does.
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
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn address(url: &str) -> Address {
        Address(url.to_owned())
    }

    #[test]
    fn the_argument_wins_then_the_variable_then_the_default() {
        let variable = || Some(OsString::from("redis://variable"));
        fn chosen(argument: Option<&Address>, variable: Option<OsString>) -> Address {
            Address::choose(argument, variable).unwrap()
        }
        assert_eq!(chosen(Some(&address("redis://argument")), variable()), address("redis://argument"));
        assert_eq!(chosen(None, variable()), address("redis://variable"));
        assert_eq!(chosen(None, None), address(DEFAULT));
    }

    #[test]
    fn an_empty_variable_is_a_mistake_and_not_the_default() {
        for mistake in [OsString::new(), OsString::from_vec(b"redis://\xff".to_vec())] {
            assert_eq!(Address::choose(None, Some(mistake)).unwrap_err().code, crate::exit::USAGE);
        }
    }

    #[test]
    fn a_server_in_memory_is_refused_wherever_it_is_named() {
        for url in ["memory://", "memory://jobs", "MEMORY://jobs"] {
            let refused = Address::choose(Some(&address(url)), None).unwrap_err();
            assert_eq!(refused.code, crate::exit::USAGE, "{url}");
            assert_eq!(Address::choose(None, Some(url.into())).unwrap_err().code, crate::exit::USAGE);
        }
        assert!(Address::choose(Some(&address("redis://memory")), None).is_ok());
    }

    #[test]
    fn passwords_are_recognised() {
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
