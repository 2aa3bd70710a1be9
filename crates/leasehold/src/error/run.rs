//! The error of running a body under a lock.
//!
//! Invariant: an error says whether the body ran.

use std::fmt;
use std::time::Duration;

use leasehold_proto::engine::LostReason;
use leasehold_proto::{NameError, Rounded};

use super::acquire::AcquireError;
use super::answers::answers;
use super::installed::NotInstalled;
use super::message::{from_cause, message_in_debug};
use super::operation::{OperationError, OperationErrorKind};
use super::quorum::QuorumError;
use super::subject::{Subject, SubjectKind};

/// The reason why a body under a lock has no result.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired, and the body did not run.
    Acquire(AcquireError),
    /// Too few servers worked for a majority. The body did not run.
    Quorum(QuorumError),
    /// Another owner held the lock for the whole wait. The body did not run.
    #[non_exhaustive]
    Busy {
        /// The lock or semaphore.
        subject: Subject,
        /// The longest wait of the section.
        wait: Duration,
    },
    /// The number of the semaphore's permits could not be set. The body did not run.
    Permits(OperationError),
    /// The lock's name, computed by an expression of the [attribute](macro@crate::locked), cannot be used. The body did
    /// not run. A name that is a literal is refused by the acquire.
    Name(NameError),
    /// The function names no client, and no client is installed. The body did not run.
    NotInstalled(NotInstalled),
    /// The lock was lost while the body ran. The body was canceled at its next await point, or its result was dropped.
    #[non_exhaustive]
    Lost {
        /// The lock or semaphore.
        subject: Subject,
        /// The reason of the loss.
        reason: LostReason,
    },
}

impl RunError {
    /// Returns the lock or semaphore, or `None` if there was no client or no name for it.
    #[must_use]
    pub const fn subject(&self) -> Option<&Subject> {
        match self {
            Self::Acquire(error) => Some(&error.subject),
            Self::Quorum(error) => Some(&error.subject),
            Self::Permits(error) => Some(&error.subject),
            Self::Busy { subject, .. } | Self::Lost { subject, .. } => Some(subject),
            Self::Name(_) | Self::NotInstalled(_) => None,
        }
    }
}

answers! { self: RunError =>
    /// Returns true if another owner held the lock for the whole wait. The body did not run.
    const is_busy = match self {
        Self::Busy { .. } => true,
        Self::Acquire(error) => error.is_busy(),
        _ => false,
    };
    /// Returns true if the server, or this client, could not do its part. The body did not run.
    fn is_unavailable = match self {
        Self::Acquire(error) => error.is_unavailable(),
        Self::Quorum(error) => error.is_unavailable(),
        Self::Permits(error) => error.is_unavailable(),
        _ => false,
    };
    /// Returns true if the body did not run and may run a little later, without any change to the program, its settings
    /// or the server. It is false for a lost lock, because the body has run in part and only the application knows
    /// whether it may run again.
    fn is_retryable = match self {
        Self::Busy { .. } => true,
        Self::Acquire(error) => error.is_retryable(),
        Self::Quorum(error) => error.is_retryable(),
        // The number of permits may be set already. A second call then changes nothing.
        Self::Permits(OperationError { kind: OperationErrorKind::Unknown(source), .. }) => {
            source.kind.is_transient()
        }
        Self::Permits(error) => error.is_retryable(),
        _ => false,
    };
    /// Returns true if the lock was lost. The body may have run in part.
    const is_lost = match self {
        Self::Lost { .. } => true,
        Self::Acquire(error) => error.is_lost(),
        _ => false,
    };
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire(error) => write!(f, "the body did not run: {error}"),
            Self::Quorum(error) => write!(f, "the body did not run: {error}"),
            // Also the error of a campaign, which has no body.
            Self::Busy { subject, wait } if subject.kind == SubjectKind::Election => {
                let wait = Rounded::down(*wait);
                write!(f, "{subject} not won: another candidate led for the whole wait of {wait}")
            }
            Self::Busy { subject, wait } if wait.is_zero() => {
                write!(f, "the body did not run: {subject} is busy")
            }
            Self::Busy { subject, wait } => {
                let wait = Rounded::down(*wait);
                write!(f, "the body did not run: {subject} was busy for the whole wait of {wait}")
            }
            Self::Permits(error) => write!(f, "the body did not run: {error}"),
            Self::Name(error) => write!(f, "the body did not run: the lock's name cannot be used: {error}"),
            Self::NotInstalled(error) => write!(f, "the body did not run: {error}"),
            Self::Lost { subject, reason } => {
                write!(
                    f,
                    "{subject} was lost while the body ran: {reason}; any result of the body is dropped"
                )
            }
        }
    }
}

message_in_debug!(enum RunError {
    Acquire(error),
    Quorum(error),
    Busy { subject, wait },
    Permits(error),
    Name(error),
    NotInstalled(error),
    Lost { subject, reason },
});

from_cause!(RunError { Acquire(AcquireError), Quorum(QuorumError), Permits(OperationError), Name(NameError), NotInstalled(NotInstalled) });
