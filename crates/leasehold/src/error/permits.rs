//! The error of changing permits that the caller names by their ids.
//!
//! Invariant: an error says whether the change may have been made.

use std::fmt;

use leasehold_proto::LeaseError;
use leasehold_proto::recipe::expirable::PERMITS_MAX;

use super::message::debug;
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

    /// Always returns false, since a change does not wait for other owners.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        false
    }

    /// Returns true if the server, or this client, could not do its part.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Operation(error) if error.is_unavailable())
    }

    /// Returns true if nothing was changed, and the same call may succeed a little later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Operation(error) if error.is_retryable())
    }

    /// Always returns false, since nothing is held.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        false
    }
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

impl fmt::Debug for PermitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(f, self, |f| match self {
            Self::Lease { subject, source } => {
                f.debug_struct("Lease").field("subject", subject).field("source", source).finish()
            }
            Self::TooMany { subject, given } => {
                f.debug_struct("TooMany").field("subject", subject).field("given", given).finish()
            }
            Self::Operation(error) => f.debug_tuple("Operation").field(error).finish(),
        })
    }
}

impl std::error::Error for PermitsError {}

impl From<OperationError> for PermitsError {
    fn from(error: OperationError) -> Self {
        Self::Operation(error)
    }
}
