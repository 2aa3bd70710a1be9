//! The errors of operations without a hold: changes of semaphores and latches, fenced writes, latch waits, and
//! inspections.
//!
//! Invariant: the error of a change says whether the change may have been made.

use std::fmt;
use std::time::Duration;

use leasehold_proto::engine::AcquireFailure;
use leasehold_proto::{Applied, NameError, StoreError, StoreErrorKind, Verb};

use super::answers::answers;
use super::message::{FORKED, from_cause, message_in_debug, unavailable};
use super::subject::{Subject, of_a_subject};

/// The end of a message about a name that another kind of object has.
pub(super) const OTHER_KIND: &str = "another kind of object has this name on the server (`TYPE` says which; redis-py \
                                     and redsync write strings); that object is unchanged";

/// The reason why a semaphore, latch or fenced key was not changed, or may not have been.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationError {
    /// The reason.
    pub kind: OperationErrorKind,
    /// The semaphore, latch or key.
    pub subject: Subject,
}

/// The kinds of [`OperationError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationErrorKind {
    /// The name cannot be used. Nothing was sent.
    Name(NameError),
    /// The lifetime is shorter than 1 ms or longer than 365 days. Nothing was sent.
    #[non_exhaustive]
    Lifetime {
        /// The lifetime.
        given: Duration,
    },
    /// The server failed and certainly did not make the change.
    Store(StoreError),
    /// The server has not answered. It may have made the change, once, or may still make it.
    Unknown(StoreError),
    /// Another kind of object has this name. The object is unchanged.
    OtherKind(StoreError),
    /// The client is closed. A change that was in flight may have been made.
    Closed,
    /// This process is a fork of the process that made the client.
    Forked,
}

answers! { self: OperationError =>
    /// Always returns false, since a change does not wait for other owners.
    const is_busy = false;
    /// Returns true if the server, or this client, could not do its part.
    const is_unavailable = match &self.kind {
        OperationErrorKind::Store(source) | OperationErrorKind::Unknown(source) => unavailable(source),
        OperationErrorKind::Closed => true,
        _ => false,
    };
    /// Returns true if nothing was changed, and the same call may succeed a little later. It is false for
    /// [`OperationErrorKind::Unknown`], because a second call could make the change twice.
    const is_retryable = match &self.kind {
        OperationErrorKind::Store(source) => source.kind.is_transient(),
        _ => false,
    };
    /// Always returns false, since nothing is held.
    const is_lost = false;
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = &self.subject;
        match &self.kind {
            OperationErrorKind::Name(error) => write!(f, "{subject} not changed: {error}"),
            OperationErrorKind::Lifetime { given } => {
                write!(f, "{subject} not changed: a lifetime must be from 1ms to 365d, not {given:?}")
            }
            OperationErrorKind::Store(source) => write!(f, "{subject} not changed: {}", source.reason()),
            OperationErrorKind::Unknown(source) => {
                write!(f, "{subject} may or may not be changed: {}", source.reason())
            }
            OperationErrorKind::OtherKind(_) => write!(f, "{subject} not changed: {OTHER_KIND}"),
            OperationErrorKind::Closed => {
                write!(f, "{subject} may or may not be changed: the client is closed")
            }
            OperationErrorKind::Forked => write!(f, "{subject} not changed: {FORKED}"),
        }
    }
}

message_in_debug!(OperationError { kind, subject });

of_a_subject!(named OperationErrorKind => OperationError);

/// Classifies a server error. Scripts check the type of their key before they write, so a key of another kind is
/// unchanged.
impl From<StoreError> for OperationErrorKind {
    fn from(error: StoreError) -> Self {
        match (error.kind, error.applied) {
            (StoreErrorKind::WrongType, _) => Self::OtherKind(error.not_applied()),
            (_, Applied::No) => Self::Store(error),
            (_, Applied::Unknown) => Self::Unknown(error),
        }
    }
}

/// The reason why a write with a fencing token was not made.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FencedWriteError {
    /// A newer token has written before, so another owner has acquired the lock since. Nothing was written.
    #[non_exhaustive]
    Stale {
        /// The key.
        subject: Subject,
        /// The newer token.
        newest: u64,
    },
    /// Any other error of the write.
    Operation(OperationError),
}

impl FencedWriteError {
    /// Returns the subject of the write.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        match self {
            Self::Stale { subject, .. } => subject,
            Self::Operation(error) => &error.subject,
        }
    }
}

answers! { self: FencedWriteError =>
    /// Always returns false, since a write does not wait for other owners.
    const is_busy = false;
    /// Returns true if the server, or this client, could not do its part.
    const is_unavailable = match self {
        Self::Operation(error) => error.is_unavailable(),
        Self::Stale { .. } => false,
    };
    /// Returns true if nothing was written, and the same call may succeed a little later.
    const is_retryable = match self {
        Self::Operation(error) => error.is_retryable(),
        Self::Stale { .. } => false,
    };
    /// Returns true if another owner has acquired the lock that gave the token.
    const is_lost = matches!(self, Self::Stale { .. });
}

impl fmt::Display for FencedWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { subject, newest } => {
                write!(
                    f,
                    "{subject} not written: a newer holder, with token {newest}, has written it; the lock is lost"
                )
            }
            Self::Operation(error) => error.fmt(f),
        }
    }
}

message_in_debug!(enum FencedWriteError { Stale { subject, newest }, Operation(error) });

from_cause!(FencedWriteError { Operation(OperationError) });

/// The reason why a wait for a latch ended before the latch was open.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitError {
    /// The reason.
    pub kind: WaitErrorKind,
    /// The latch.
    pub subject: Subject,
}

/// The kinds of [`WaitError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitErrorKind {
    /// The name cannot be used. Nothing was sent.
    Name(NameError),
    /// The latch was deleted during the wait.
    Deleted,
    /// The server failed for the whole of the client's timeout, counted from the first failed call, or until the end of
    /// the wait if that comes first.
    Store(StoreError),
    /// Another kind of object has this name.
    OtherKind(StoreError),
    /// The client is closed.
    Closed,
    /// This process is a fork of the process that made the client.
    Forked,
}

answers! { self: WaitError =>
    /// Always returns false, since a latch has no holder.
    const is_busy = false;
    /// Returns true if the server, or this client, could not do its part.
    const is_unavailable = match &self.kind {
        WaitErrorKind::Store(source) => unavailable(source),
        WaitErrorKind::Closed => true,
        _ => false,
    };
    /// Returns true if the same call may succeed a little later, without any change to the program, its settings or
    /// the server.
    const is_retryable = match &self.kind {
        WaitErrorKind::Store(source) => source.kind.is_transient(),
        _ => false,
    };
    /// Always returns false, since nothing is held.
    const is_lost = false;
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wait for {} failed: ", self.subject)?;
        match &self.kind {
            WaitErrorKind::Name(error) => error.fmt(f),
            WaitErrorKind::Deleted => f.write_str("the latch was deleted"),
            WaitErrorKind::Store(source) => source.reason().fmt(f),
            WaitErrorKind::OtherKind(_) => f.write_str(OTHER_KIND),
            WaitErrorKind::Closed => f.write_str("the client is closed"),
            WaitErrorKind::Forked => f.write_str(FORKED),
        }
    }
}

message_in_debug!(WaitError { kind, subject });

impl WaitErrorKind {
    /// Converts a failure of the engine other than a deadline. A wait without a hold fails in fewer ways than a lock.
    pub(crate) fn from_failure(failure: AcquireFailure) -> Self {
        match failure {
            AcquireFailure::Deleted => Self::Deleted,
            AcquireFailure::Failed(source) if source.kind == StoreErrorKind::WrongType => {
                Self::OtherKind(source)
            }
            AcquireFailure::Failed(source) | AcquireFailure::Unknown { error: source, .. } => {
                Self::Store(source)
            }
            AcquireFailure::Closed => Self::Closed,
            other => unreachable!("a wait failed as {other:?}"),
        }
    }
}

of_a_subject!(named WaitErrorKind => WaitError);

/// The reason why a lock, semaphore or latch could not be inspected, or a lock not be released by force.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InspectError {
    /// The reason.
    pub kind: InspectErrorKind,
    /// The lock, semaphore or latch.
    pub subject: Subject,
    /// The purpose of the call: [`Verb::Inspect`] or [`Verb::ForceRelease`].
    pub during: Verb,
}

/// The kinds of [`InspectError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InspectErrorKind {
    /// The name cannot be used. Nothing was sent.
    Name(NameError),
    /// The server did not answer, or its reply does not have the form of the script's replies.
    Store(StoreError),
    /// The key has no expiry. Neither this library nor Redisson leaves such a key behind. Libraries that share plain locks may
    /// set one on purpose.
    NoExpiry,
    /// The client is closed.
    Closed,
    /// This process is a fork of the process that made the client.
    Forked,
}

answers! { self: InspectError =>
    /// Always returns false, since an inspect does not wait for other owners.
    const is_busy = false;
    /// Returns true if the server, or this client, could not do its part.
    const is_unavailable = match &self.kind {
        InspectErrorKind::Store(source) => unavailable(source),
        InspectErrorKind::Closed => true,
        _ => false,
    };
    /// Returns true if the same call may succeed a little later. It is false if a lock may have been released by force,
    /// because a second call could take the lock from its next holder.
    const is_retryable = match &self.kind {
        InspectErrorKind::Store(source) => {
            let harmless = matches!(self.during, Verb::Inspect) || matches!(source.applied, Applied::No);
            source.kind.is_transient() && harmless
        }
        _ => false,
    };
    /// Always returns false, since nothing is held.
    const is_lost = false;
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown =
            matches!(&self.kind, InspectErrorKind::Store(source) if source.applied == Applied::Unknown);
        let outcome = match self.during {
            Verb::ForceRelease if unknown => "may or may not be unlocked",
            Verb::ForceRelease => "not unlocked",
            _ => "not inspected",
        };
        write!(f, "{} {outcome}: ", self.subject)?;
        match &self.kind {
            InspectErrorKind::Name(error) => error.fmt(f),
            InspectErrorKind::Store(source) if source.kind == StoreErrorKind::WrongType && !unknown => {
                f.write_str(OTHER_KIND)
            }
            InspectErrorKind::Store(source) => source.reason().fmt(f),
            InspectErrorKind::NoExpiry => {
                f.write_str("its key has no expiry, so it blocks until it is deleted")
            }
            InspectErrorKind::Closed => f.write_str("the client is closed"),
            InspectErrorKind::Forked => f.write_str(FORKED),
        }
    }
}

message_in_debug!(InspectError { kind, subject, during });

of_a_subject!(named InspectErrorKind => InspectError { during: Verb::Inspect });

from_cause!(InspectErrorKind { Store(StoreError) });

impl InspectErrorKind {
    /// Returns true if the client was closed.
    pub(crate) const fn is_closed(&self) -> bool {
        match self {
            Self::Closed => true,
            Self::Store(source) => matches!(source.kind, StoreErrorKind::Closed),
            _ => false,
        }
    }
}
