//! A user and a password, as a URL or a provider gives them.
//!
//! Invariant: the password is in no `Debug`.

use std::fmt;
use std::time::Duration;

/// A user and a password, or a token in place of the password.
///
/// `Debug` writes `***` for the password.
///
/// # Examples
/// ```
/// use leasehold_store::url::Credentials;
///
/// let login = Credentials::new("app", "p@ss");
/// assert_eq!(format!("{login:?}"), "Some(\"app\") ***");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
    pub(crate) lifetime: Option<Duration>,
}

impl Credentials {
    /// Returns the login of a user.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..Self::password(password) }
    }

    /// Returns the login of the default user.
    #[must_use]
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into(), lifetime: None }
    }

    /// Returns the password, for the mask of errors.
    #[cfg(feature = "redis")]
    pub(crate) fn secret(&self) -> &str {
        &self.password
    }

    /// Sets the time for which the password is valid from now on (default: without end).
    ///
    /// The client asks its provider for others after three quarters of this time, and logs in again with them on all
    /// connections that are open.
    #[must_use]
    pub const fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Returns the command that logs in.
    #[cfg(feature = "redis")]
    pub(crate) fn command(&self) -> Vec<&str> {
        ["AUTH"].into_iter().chain(self.user.as_deref()).chain([self.password.as_str()]).collect()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ***", self.user)
    }
}
