//! The error of upgrading a read hold to a write hold.
//!
//! Invariant: an error leaves the read hold as it was, unless it says that the read hold is lost.

use std::fmt;

use super::acquire::{AcquireError, AcquireErrorKind};
use super::answers::answers;
use super::message::{from_cause, message_in_debug};
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
}

answers! { self: UpgradeError =>
    /// Always returns false. A writer of another owner is not an error, and the call waits for it.
    const is_busy = false;
    /// Returns true if the server, or this client, could not do its part.
    fn is_unavailable = self.acquire().is_some_and(AcquireError::is_unavailable);
    /// Returns true if the same call may succeed a little later, without any change to the program, its settings or
    /// the server.
    fn is_retryable = self.acquire().is_some_and(AcquireError::is_retryable);
    /// Returns true if the read hold is gone.
    fn is_lost = self.acquire().is_some_and(AcquireError::is_lost);
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

message_in_debug!(enum UpgradeError { WrongGuard { subject }, Acquire(error) });

from_cause!(UpgradeError { Acquire(AcquireError) });

impl PartialEq<AcquireErrorKind> for UpgradeError {
    fn eq(&self, kind: &AcquireErrorKind) -> bool {
        self.acquire().is_some_and(|error| error == kind)
    }
}
