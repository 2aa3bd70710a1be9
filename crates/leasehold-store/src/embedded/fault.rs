//! The errors of commands.
//!
//! Invariant: the text of a fault has one line.

use std::borrow::Cow;

use super::frame::one_line;

/// The error text of a command that changes nothing.
#[derive(Debug)]
pub(super) struct Fault(pub(super) Cow<'static, str>);

impl Fault {
    pub(super) const WRONG_TYPE: Self =
        Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(super) const SYNTAX: Self = Self::new("ERR syntax error");
    pub(super) const NOT_AN_INTEGER: Self = Self::new("ERR value is not an integer or out of range");
    pub(super) const NOT_A_FLOAT: Self = Self::new("ERR value is not a valid float");
    pub(super) const OVERFLOW: Self = Self::new("ERR increment or decrement would overflow");

    pub(super) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Creates a fault whose text may repeat the caller's bytes. Line endings at its ends are dropped, and others
    /// become spaces.
    pub(super) fn of(text: String) -> Self {
        Self(Cow::Owned(one_line(text.trim_matches(['\r', '\n']))))
    }

    /// Returns the fault of a command with too many or too few arguments.
    pub(super) fn arity(name: &str) -> Self {
        Self::of(format!("ERR wrong number of arguments for '{name}' command"))
    }
}
