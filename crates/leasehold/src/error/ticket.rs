//! The error of passing a hold on by a ticket.
//!
//! Invariant: an error says whether the hold may still be somewhere.

use std::fmt;

use super::acquire::AcquireErrorKind;
use super::answers::answers;
use super::hold::EnsureErrorKind;
use super::message::{FORKED, message_in_debug};
use super::subject::{Subject, of_a_subject};

/// The reason why a hold was not passed on.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TicketError {
    /// The reason.
    pub kind: TicketErrorKind,
    /// The lock.
    pub subject: Subject,
}

/// The kinds of [`TicketError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TicketErrorKind {
    /// The hold could not be extended to the time for which the ticket is to be valid. Its guard is dropped.
    Extend(EnsureErrorKind),
    /// The owner holds the lock more than once, and the other guards would lose it. The guard is dropped.
    Shared,
    /// Locks of this kind cannot be passed on. Its guard is dropped, or nothing was sent.
    Unsupported,
    /// The ticket is for another lock, or one of another kind. Nothing was sent.
    OtherLock,
    /// Nothing is left to adopt: the hold was adopted or released, or its time is over.
    Gone,
    /// The hold was not adopted. After [`AcquireErrorKind::Unknown`], the ticket may be used up, and the lock is then free.
    Acquire(AcquireErrorKind),
    /// This process is a fork of the process that made the client. The hold belongs to that process.
    Forked,
}

answers! { self: TicketError =>
    /// Always returns false, since a ticket does not wait for other owners.
    const is_busy = false;
    /// Returns true if the server, or this client, could not do its part.
    const is_unavailable = match &self.kind {
        TicketErrorKind::Acquire(kind) => kind.is_unavailable(),
        TicketErrorKind::Extend(kind) => kind.is_unavailable(),
        _ => false,
    };
    /// Returns true if the same call may succeed a little later.
    const is_retryable = match &self.kind {
        TicketErrorKind::Acquire(AcquireErrorKind::Store(source)) => source.kind.is_transient(),
        _ => false,
    };
    /// Returns true if the hold is gone.
    const is_lost = matches!(self.kind, TicketErrorKind::Gone | TicketErrorKind::Extend(EnsureErrorKind::Lost(_)));
}

impl fmt::Display for TicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = &self.subject;
        match &self.kind {
            TicketErrorKind::Extend(kind) => write!(f, "no ticket: {}", kind.clone().of_subject(subject)),
            TicketErrorKind::Shared => {
                write!(
                    f,
                    "no ticket: the owner holds {subject} more than once; release the other holds first"
                )
            }
            TicketErrorKind::Unsupported => write!(f, "no ticket: a {} cannot be passed on", subject.kind),
            TicketErrorKind::OtherLock => write!(f, "the ticket is not for {subject}"),
            TicketErrorKind::Gone => {
                write!(
                    f,
                    "{subject} not adopted: its ticket was used, the hold was released, or its time is over"
                )
            }
            TicketErrorKind::Acquire(kind) => write!(f, "{subject} not adopted: {kind}"),
            TicketErrorKind::Forked => write!(f, "{subject} not passed on: {FORKED}"),
        }
    }
}

message_in_debug!(TicketError { kind, subject });

of_a_subject!(TicketErrorKind => TicketError);
