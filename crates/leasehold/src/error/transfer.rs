//! The error of passing leadership on.
//!
//! Invariant: an error says whether the caller still leads.

use std::fmt;
use std::sync::Arc;

use leasehold_proto::{StoreError, StoreErrorKind};

use super::answers::answers;
use super::message::{FORKED, message_in_debug};
use super::subject::{Subject, of_a_subject};

/// The reason why leadership was not passed on, or may not have been.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferError {
    /// The reason.
    pub kind: TransferErrorKind,
    /// The election.
    pub subject: Subject,
}

/// The kinds of [`TransferError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferErrorKind {
    /// No candidate of this name waits. Nothing was sent to the lock, and the caller still leads.
    #[non_exhaustive]
    NoCandidate {
        /// The name of the candidate.
        candidate: Arc<str>,
    },
    /// The term had ended before.
    NotLeading,
    /// The server has not confirmed it within the lease. The term has ended, and the successor may lead.
    Unknown(StoreError),
    /// The server refused. The term has ended, and nobody leads.
    Store(StoreError),
    /// This process is a fork of the process that made the client.
    Forked,
}

answers! { self: TransferError =>
    /// Always returns false, since a transfer does not wait for other owners.
    const is_busy = false;
    /// Returns true if the server, or this client, could not do its part.
    const is_unavailable = matches!(self.kind, TransferErrorKind::Unknown(_) | TransferErrorKind::Store(_));
    /// Returns true if the caller still leads, and a candidate of this name may come.
    const is_retryable = matches!(self.kind, TransferErrorKind::NoCandidate { .. });
    /// Returns true if the term had ended before.
    const is_lost = matches!(self.kind, TransferErrorKind::NotLeading);
}

impl TransferErrorKind {
    /// Returns the error of a transfer that the server has not confirmed.
    pub(crate) fn of_store(error: StoreError) -> Self {
        let surely_not = matches!(error.kind, StoreErrorKind::PermissionDenied | StoreErrorKind::WrongType);
        if surely_not { Self::Store(error) } else { Self::Unknown(error) }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = &self.subject;
        match &self.kind {
            TransferErrorKind::NoCandidate { candidate } => {
                write!(f, "{subject} not passed on: no candidate {candidate:?} waits; this term goes on")
            }
            TransferErrorKind::NotLeading => write!(f, "{subject} not passed on: the term has ended"),
            TransferErrorKind::Unknown(source) => {
                write!(f, "{subject} may or may not be passed on: {}", source.reason())
            }
            TransferErrorKind::Store(source) => {
                write!(f, "{subject} not passed on: {}; the term has ended", source.reason())
            }
            TransferErrorKind::Forked => write!(f, "{subject} not passed on: {FORKED}"),
        }
    }
}

message_in_debug!(TransferError { kind, subject });

of_a_subject!(TransferErrorKind => TransferError);
