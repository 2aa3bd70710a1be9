//! The user and password of a URL.
//!
//! Invariant: the password is in no `Debug`.

use std::fmt;

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ***", self.user)
    }
}
