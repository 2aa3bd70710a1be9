//! The error of changing permits that the caller names by their ids.
//!
//! Invariant: an error says whether the change may have been made.

use std::fmt;

use leasehold_proto::LeaseError;
use leasehold_proto::recipe::expirable::PERMITS_MAX;

use super::answers::answers;
use super::message::{from_cause, message_in_debug};
use super::operation::OperationError;
use super::subject::Subject;

/// The reason why permits were not released or renewed by their ids, or may not have been.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermitsError {
    /// The lease is not a lease. Nothing was sent.
    #[non_exhaustive]
    Lease {
        /// The semaphore.
        subject: Subject,
        /// The rule that the lease breaks.
        source: LeaseError,
    },
    /// The caller returns more permits at once than [`PERMITS_MAX`]. Nothing was sent.
    #[non_exhaustive]
    TooMany {
        /// The semaphore.
        subject: Subject,
        /// The number of permits.
        given: u32,
    },
    /// Any other error of the change.
    Operation(OperationError),
}

impl PermitsError {
    /// Returns the semaphore.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        match self {
            Self::Lease { subject, .. } | Self::TooMany { subject, .. } => subject,
            Self::Operation(error) => &error.subject,
        }
    }
}

answers! { self: PermitsError =>
    /// Always returns false, since a change does not wait for other owners.
    const is_busy = false;
    /// Returns true if the server, or this client, could not do its part.
    const is_unavailable = matches!(self, Self::Operation(error) if error.is_unavailable());
    /// Returns true if nothing was changed, and the same call may succeed a little later.
    const is_retryable = matches!(self, Self::Operation(error) if error.is_retryable());
    /// Always returns false, since nothing is held.
    const is_lost = false;
}

impl fmt::Display for PermitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lease { subject, source } => write!(f, "{subject} not changed: {source}"),
            Self::TooMany { subject, given } => write!(
                f,
                "{subject} not changed: {given} permits at once exceed the maximum of {PERMITS_MAX}"
            ),
            Self::Operation(error) => error.fmt(f),
        }
    }
}

message_in_debug!(enum PermitsError {
    Lease { subject, source },
    TooMany { subject, given },
    Operation(error),
});

from_cause!(PermitsError { Operation(OperationError) });
