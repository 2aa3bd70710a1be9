//! Errors of a hold: of its release, and of a renewal on demand.
//!
//! Invariant: an error says for how long the lock is held yet, or by when it is free.
//! Called by: guards.

use std::fmt;
use std::time::Duration;

use leasehold_proto::engine::{EnsureFailure, LostReason, ReleaseFailure};
use leasehold_proto::{FreeWithin, Rounded, StoreError};

use super::subject::{Subject, of_a_subject};
use super::{FORKED, message_in_debug, unavailable};

/// Why a release is not confirmed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseError {
    /// What went wrong.
    pub kind: ReleaseErrorKind,
    /// What was to be released.
    pub subject: Subject,
}

/// What went wrong in a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseErrorKind {
    /// The server has not answered. The release goes on being tried, and the lease bounds it in any case.
    #[non_exhaustive]
    Unconfirmed {
        /// By when, counted from the error, the lock is free at the latest. Permits without a lease have no such time.
        free_within: FreeWithin,
        /// What went wrong.
        source: StoreError,
    },
    /// This process is a fork of the one that made the client; the hold belongs to that one.
    Forked,
}

impl ReleaseError {
    /// Never: a release waits for nobody.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        false
    }

    /// Whether the server could not do its part.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        match &self.kind {
            ReleaseErrorKind::Unconfirmed { source, .. } => unavailable(source),
            ReleaseErrorKind::Forked => false,
        }
    }

    /// Never: the release goes on by itself, and there is no guard left to release once more.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        false
    }

    /// Never: a hold that was lost before its release is [`ReleaseOutcome::NotHeld`](crate::ReleaseOutcome::NotHeld).
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        false
    }
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ReleaseErrorKind::Unconfirmed { free_within, source } => write!(
                f,
                "release of {} not confirmed: {}; it goes on being tried, and is free {free_within}",
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

/// Why a hold cannot be trusted for as long as was asked.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnsureError {
    /// What went wrong.
    pub kind: EnsureErrorKind,
    /// What is or was held.
    pub subject: Subject,
}

/// Why a hold cannot be trusted for long enough.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnsureErrorKind {
    /// It is gone.
    Lost(LostReason),
    /// No renewal can give so much: it is more than a lease, or more than the hold's own bound leaves.
    #[non_exhaustive]
    TooLong {
        /// The most that can be had.
        most: Duration,
    },
    /// The renewal was not confirmed; the hold may be trusted for the rest of its lease and goes on being renewed.
    #[non_exhaustive]
    Unconfirmed {
        /// For how long.
        remaining: Duration,
        /// What went wrong.
        source: StoreError,
    },
    /// This process is a fork of the one that made the client.
    Forked,
}

impl EnsureError {
    /// Never: the lock is, or was, the caller's.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        false
    }

    /// Whether the server could not do its part.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        match &self.kind {
            EnsureErrorKind::Unconfirmed { source, .. } => unavailable(source),
            _ => false,
        }
    }

    /// Whether the same call may succeed a little later, while the hold lasts.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match &self.kind {
            EnsureErrorKind::Unconfirmed { source, .. } => source.kind.is_transient(),
            _ => false,
        }
    }

    /// Whether the hold is gone.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        matches!(self.kind, EnsureErrorKind::Lost(_))
    }
}

impl fmt::Display for EnsureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = &self.subject;
        match &self.kind {
            EnsureErrorKind::Lost(reason) => write!(f, "{subject} is lost: {reason}"),
            EnsureErrorKind::TooLong { most } => {
                write!(f, "{subject} can be ensured for {} at most", Rounded::down(*most))
            }
            EnsureErrorKind::Unconfirmed { remaining, source } => {
                let (reason, left) = (source.reason(), Rounded::down(*remaining));
                write!(f, "renewal of {subject} not confirmed: {reason}; it is held for another {left}")
            }
            EnsureErrorKind::Forked => write!(f, "{subject} not ensured: {FORKED}"),
        }
    }
}

message_in_debug!(EnsureError { kind, subject });

of_a_subject!(EnsureErrorKind => EnsureError);

impl From<EnsureFailure> for EnsureErrorKind {
    fn from(failure: EnsureFailure) -> Self {
        match failure {
            EnsureFailure::Lost(reason) => Self::Lost(reason),
            EnsureFailure::TooLong { most } => Self::TooLong { most },
            EnsureFailure::Unconfirmed { remaining, error } => Self::Unconfirmed { remaining, source: error },
        }
    }
}
