//! The error of upgrading a read hold to a write hold.
//!
//! Invariant: an error leaves the read hold as it was, unless it says that the read hold is lost.

use std::fmt;

use super::acquire::{AcquireError, AcquireErrorKind};
use super::message::debug;
use super::subject::Subject;

/// The reason why a read hold was not upgraded.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The guard to upgrade is not a read guard of this lock, acquired through this client. Nothing was sent.
    #[non_exhaustive]
    WrongGuard {
        /// The write lock.
        subject: Subject,
    },
    /// The write hold was not acquired.
    Acquire(AcquireError),
}

impl UpgradeError {
    /// Returns the write lock.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        match self {
            Self::WrongGuard { subject } => subject,
            Self::Acquire(error) => &error.subject,
        }
    }

    const fn acquire(&self) -> Option<&AcquireError> {
        match self {
            Self::WrongGuard { .. } => None,
            Self::Acquire(error) => Some(error),
        }
    }

    /// Always returns false. A writer of another owner is not an error, and the call waits for it.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        false
    }

    /// Returns true if the server, or this client, could not do its part.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.acquire().is_some_and(AcquireError::is_unavailable)
    }

    /// Returns true if the same call may succeed a little later, without any change to the program, its settings or
    /// the server.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.acquire().is_some_and(AcquireError::is_retryable)
    }

    /// Returns true if the read hold is gone.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.acquire().is_some_and(AcquireError::is_lost)
    }
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongGuard { subject } => {
                write!(
                    f,
                    "{subject} not acquired: the guard is not a read guard of this lock from this client"
                )
            }
            Self::Acquire(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(f, self, |f| match self {
            Self::WrongGuard { subject } => f.debug_struct("WrongGuard").field("subject", subject).finish(),
            Self::Acquire(error) => f.debug_tuple("Acquire").field(error).finish(),
        })
    }
}

impl std::error::Error for UpgradeError {}

impl From<AcquireError> for UpgradeError {
    fn from(error: AcquireError) -> Self {
        Self::Acquire(error)
    }
}

impl PartialEq<AcquireErrorKind> for UpgradeError {
    fn eq(&self, kind: &AcquireErrorKind) -> bool {
        self.acquire().is_some_and(|error| error == kind)
    }
}
