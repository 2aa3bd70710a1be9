//! The errors of releasing a hold and of renewing it on demand.
//!
//! Invariant: an error says for how long the lock is still held, or by when it is free.

use std::fmt;
use std::time::Duration;

use leasehold_proto::engine::{EnsureFailure, LostReason, ReleaseFailure};
use leasehold_proto::{FreeWithin, Rounded, StoreError};

use super::answers::answers;
use super::message::{FORKED, message_in_debug, unavailable};
use super::subject::{Subject, of_a_subject};

/// The reason why a release is not confirmed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseError {
    /// The reason.
    pub kind: ReleaseErrorKind,
    /// The lock or semaphore.
    pub subject: Subject,
}

/// The kinds of [`ReleaseError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseErrorKind {
    /// The server has not answered. The client keeps trying to release, and the lease bounds the hold in any case.
    #[non_exhaustive]
    Unconfirmed {
        /// The time after the error at which the lock is free at the latest. Permits without a lease have no such
        /// time, and neither has a write hold whose owner also reads.
        free_within: FreeWithin,
        /// The error of the last call.
        source: StoreError,
    },
    /// This process is a fork of the process that made the client. The hold belongs to that process.
    Forked,
}

answers! { self: ReleaseError =>
    /// Always returns false, since a release does not wait for other owners.
    const is_busy = false;
    /// Returns true if the server could not do its part.
    const is_unavailable = match &self.kind {
        ReleaseErrorKind::Unconfirmed { source, .. } => unavailable(source),
        ReleaseErrorKind::Forked => false,
    };
    /// Always returns false, since the client keeps trying to release, and no guard is left to release again.
    const is_retryable = false;
    /// Always returns false, since the release of a lost hold returns
    /// [`ReleaseOutcome::NotHeld`](crate::ReleaseOutcome::NotHeld).
    const is_lost = false;
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ReleaseErrorKind::Unconfirmed { free_within, source } => write!(
                f,
                "release of {} not confirmed: {}; the client keeps trying, and the hold ends {free_within}",
                self.subject,
                source.reason()
            ),
            ReleaseErrorKind::Forked => write!(f, "{} not released: {FORKED}", self.subject),
        }
    }
}

message_in_debug!(ReleaseError { kind, subject });

of_a_subject!(ReleaseErrorKind => ReleaseError);

impl From<ReleaseFailure> for ReleaseErrorKind {
    fn from(failure: ReleaseFailure) -> Self {
        Self::Unconfirmed { free_within: failure.free_within, source: failure.error }
    }
}

/// The reason why a hold cannot be trusted for the requested time.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnsureError {
    /// The reason.
    pub kind: EnsureErrorKind,
    /// The lock or semaphore.
    pub subject: Subject,
}

/// The kinds of [`EnsureError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnsureErrorKind {
    /// The hold is lost.
    Lost(LostReason),
    /// The requested time exceeds a lease, or the rest of the hold's own bound, so no renewal can provide it.
    #[non_exhaustive]
    TooLong {
        /// The longest possible time.
        most: Duration,
    },
    /// The renewal was not confirmed. The hold may be trusted for the rest of its lease, and the watchdog keeps
    /// renewing it.
    #[non_exhaustive]
    Unconfirmed {
        /// The rest of the lease.
        remaining: Duration,
        /// The error of the renewal.
        source: StoreError,
    },
    /// This process is a fork of the process that made the client.
    Forked,
}

answers! { self: EnsureError =>
    /// Always returns false, since the lock is, or was, the caller's.
    const is_busy = false;
    /// Returns true if the server could not do its part.
    const is_unavailable = self.kind.is_unavailable();
    /// Returns true if the same call may succeed a little later, while the hold lasts.
    const is_retryable = match &self.kind {
        EnsureErrorKind::Unconfirmed { source, .. } => source.kind.is_transient(),
        _ => false,
    };
    /// Returns true if the hold is gone.
    const is_lost = matches!(self.kind, EnsureErrorKind::Lost(_));
}

impl fmt::Display for EnsureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = &self.subject;
        match &self.kind {
            EnsureErrorKind::Lost(reason) => write!(f, "{subject} is lost: {reason}"),
            EnsureErrorKind::TooLong { most } => {
                write!(f, "{subject} can be ensured for at most {}", Rounded::down(*most))
            }
            EnsureErrorKind::Unconfirmed { remaining, source } => {
                let (reason, left) = (source.reason(), Rounded::down(*remaining));
                write!(
                    f,
                    "renewal of {subject} not confirmed: {reason}; the hold is valid for another {left}"
                )
            }
            EnsureErrorKind::Forked => write!(f, "{subject} not ensured: {FORKED}"),
        }
    }
}

message_in_debug!(EnsureError { kind, subject });

of_a_subject!(EnsureErrorKind => EnsureError);

impl EnsureErrorKind {
    /// Returns the error about this subject.
    pub(super) fn of_subject(self, subject: &Subject) -> EnsureError {
        EnsureError { kind: self, subject: subject.clone() }
    }

    pub(super) const fn is_unavailable(&self) -> bool {
        match self {
            Self::Unconfirmed { source, .. } => unavailable(source),
            _ => false,
        }
    }
}

impl From<EnsureFailure> for EnsureErrorKind {
    fn from(failure: EnsureFailure) -> Self {
        match failure {
            EnsureFailure::Lost(reason) => Self::Lost(reason),
            EnsureFailure::TooLong { most } => Self::TooLong { most },
            EnsureFailure::Unconfirmed { remaining, error } => Self::Unconfirmed { remaining, source: error },
        }
    }
}
