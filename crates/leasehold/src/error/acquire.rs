//! The error of acquiring one lock or semaphore.
//!
//! Invariant: an error says whether the server may keep an effect of the attempt, and by when the effect is gone.

use std::fmt;
use std::time::Duration;

use leasehold_proto::engine::{AcquireFailure, LostReason};
use leasehold_proto::recipe::expirable::PERMITS_MAX;
use leasehold_proto::recipe::foreign::Foreign;
use leasehold_proto::{
    FreeWithin, LEASE_MAX, LEASE_MIN, LeaseError, NameError, Rounded, StoreError, StoreErrorKind,
};

use super::answers::answers;
use super::message::{FORKED, from_cause, message_in_debug, unavailable};
use super::operation::OTHER_KIND;
use super::subject::{Subject, of_a_subject};

/// The reason why an acquire ended without a guard, other than another owner's hold.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcquireError {
    /// The reason.
    pub kind: AcquireErrorKind,
    /// The lock or semaphore.
    pub subject: Subject,
}

/// The kinds of [`AcquireError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireErrorKind {
    /// The name cannot be used. Nothing was sent.
    Name(NameError),
    /// The lease is not a lease. Nothing was sent.
    Lease(LeaseError),
    /// The bound on the hold is shorter than the shortest lease, 3 ms. Nothing was sent.
    #[non_exhaustive]
    MaxHold {
        /// The bound of the caller.
        given: Duration,
    },
    /// The minimum hold time exceeds the longest possible hold. Nothing was sent.
    #[non_exhaustive]
    MinHold {
        /// The minimum of the caller.
        given: Duration,
        /// The bound on the hold, the fixed lease, or the longest lease.
        most: Duration,
    },
    /// The margin leaves no validity. Nothing was sent.
    #[non_exhaustive]
    Margin {
        /// The margin of the caller.
        given: Duration,
        /// The validity of the lease without a margin, or the bound on the hold.
        most: Duration,
    },
    /// The server failed and certainly did not run the script, so nothing is locked.
    Store(StoreError),
    /// The server may have run the script. If it did, the client undoes the grant as soon as the server answers, and
    /// the lease bounds it in any case. A server that is paused for longer may still run the script when it resumes.
    /// The undo then follows at once.
    #[non_exhaustive]
    Unknown {
        /// The time after the error at which no effect of this attempt is left on the server. Permits without a lease, and
        /// an upgrade, have no such time.
        free_within: FreeWithin,
        /// The error of the call.
        source: StoreError,
    },
    /// The owner's current hold, which this acquire would have re-entered or upgraded, is lost. Drop its guards first.
    Lost(LostReason),
    /// The key has no expiry, so it blocks until it is deleted. The key is unchanged. Neither this library nor Redisson
    /// leaves such a key behind. Libraries that share plain locks may set one on purpose, which is an error only with
    /// [`Endless::Fail`](crate::Endless::Fail). Find its writer, or free the lock with
    /// [`Lock::force_unlock`](crate::Lock::force_unlock).
    NoExpiry,
    /// The owner holds the lock already, and the lock is [non-reentrant](crate::Lock::non_reentrant). The hold is
    /// unchanged. As with [`Deadlock`](Self::Deadlock), no later attempt succeeds before the caller releases its own hold.
    AlreadyHeld,
    /// The wait would never end, because the holder is this caller, or waits for this caller. Nothing was changed.
    Deadlock,
    /// Another kind of object has this name. The object is unchanged.
    OtherKind(StoreError),
    /// The object was deleted during the wait.
    Deleted,
    /// The caller wants more permits of an expirable semaphore than [`PERMITS_MAX`]. Nothing was sent.
    #[non_exhaustive]
    TooManyPermits {
        /// The number of permits.
        given: u32,
    },
    /// Grants arrived without any validity left, and the client undid them.
    #[non_exhaustive]
    LeaseTooShort {
        /// The lease.
        lease: Duration,
        /// The duration of the call that brought the last grant.
        took: Duration,
    },
    /// The future was not polled for so long after its grant that the client undid the grant.
    Unclaimed,
    /// The client is closed.
    Closed,
    /// This process is a fork of the process that made the client.
    Forked,
}

/// Writes the reason alone, without the name of the lock.
impl fmt::Display for AcquireErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Lease(error) => error.fmt(f),
            Self::MaxHold { given } => {
                let (given, least) = (Rounded::down(*given), Rounded::up(LEASE_MIN));
                write!(f, "max_hold of {given} is below the minimum of {least}")
            }
            Self::MinHold { given, most } => {
                let bound = if *most == LEASE_MAX { "the longest lease" } else { "the fixed lease or max_hold" };
                let (given, most) = (Rounded::up(*given), Rounded::down(*most));
                write!(f, "min_hold of {given} exceeds {bound} of {most}")
            }
            Self::Margin { given, most } => {
                let (given, most) = (Rounded::up(*given), Rounded::down(*most));
                write!(f, "margin of {given} leaves nothing of a validity of {most}")
            }
            Self::Store(source) => source.reason().fmt(f),
            Self::Unknown { free_within, source } => {
                write!(f, "{}; any effect of this attempt is gone {free_within}", source.reason())
            }
            Self::Lost(reason) => {
                write!(f, "the owner's current hold is lost: {reason}; drop its guards first")
            }
            Self::NoExpiry => f.write_str(
                "its key has no expiry, so it blocks until it is deleted; find its writer, or delete the key with force_unlock",
            ),
            Self::AlreadyHeld => f.write_str("its owner already holds it, and the lock is non-reentrant; release that hold first"),
            Self::Deadlock => {
                f.write_str("waiting would deadlock, because the holder is this caller or waits for it; release \
                             this caller's hold first")
            }
            Self::OtherKind(source) => {
                let cause = std::error::Error::source(source);
                match cause.and_then(|cause| cause.downcast_ref::<Foreign>()) {
                    Some(foreign) => write!(f, "another kind of object has its name on the server, {foreign}; that \
                                                object is unchanged"),
                    None => f.write_str(OTHER_KIND),
                }
            }
            Self::Deleted => f.write_str("it was deleted during the wait"),
            Self::TooManyPermits { given } => {
                write!(f, "{given} permits at once exceed the maximum of {PERMITS_MAX}")
            }
            Self::LeaseTooShort { lease, took } => {
                let (lease, took) = (Rounded::down(*lease), Rounded::up(*took));
                write!(f, "the grant took {took}, too long for a lease of {lease}; it was undone, so retry or use a \
                           longer lease")
            }
            Self::Unclaimed => {
                f.write_str("the future was not polled in time after the grant; the grant was undone, so retry")
            }
            Self::Closed => f.write_str("the client is closed"),
            Self::Forked => f.write_str(FORKED),
        }
    }
}

answers! { self: AcquireError =>
    /// Always returns false. Another owner's hold is not an error: the call waits for it, or returns `None`. The caller's own
    /// hold, which a non-reentrant lock does not re-enter, does not end by waiting.
    const is_busy = false;
    /// Returns true if the server, or this client, could not do its part.
    const is_unavailable = self.kind.is_unavailable();
    /// Returns true if the same call may succeed a little later, without any change to the program, its settings or
    /// the server.
    const is_retryable = self.kind.is_retryable();
    /// Returns true if a hold of the caller is gone.
    const is_lost = matches!(self.kind, AcquireErrorKind::Lost(_));
}

impl AcquireErrorKind {
    pub(super) const fn is_unavailable(&self) -> bool {
        match self {
            Self::Store(source) | Self::Unknown { source, .. } => unavailable(source),
            Self::LeaseTooShort { .. } | Self::Unclaimed | Self::Closed => true,
            _ => false,
        }
    }

    pub(super) const fn is_retryable(&self) -> bool {
        match self {
            Self::Store(source) | Self::Unknown { source, .. } => source.kind.is_transient(),
            Self::LeaseTooShort { .. } | Self::Unclaimed => true,
            _ => false,
        }
    }

    /// Converts a failure of the engine, or returns `None` for a lock that another owner holds.
    pub(crate) fn from_failure(failure: AcquireFailure) -> Option<Self> {
        Some(match failure {
            AcquireFailure::Contended => return None,
            AcquireFailure::Lost(reason) => Self::Lost(reason),
            AcquireFailure::Failed(source) if source.kind == StoreErrorKind::WrongType => {
                Self::OtherKind(source)
            }
            AcquireFailure::Failed(source) => Self::Store(source),
            AcquireFailure::Unknown { free_within, error } => Self::Unknown { free_within, source: error },
            AcquireFailure::NoExpiry => Self::NoExpiry,
            AcquireFailure::AlreadyHeld => Self::AlreadyHeld,
            AcquireFailure::Deadlock => Self::Deadlock,
            AcquireFailure::Deleted => Self::Deleted,
            AcquireFailure::RecentlyRestarted { .. } => {
                unreachable!("only the lock of a node needs an uptime, and its failure is a `NodeError`")
            }
            AcquireFailure::LeaseTooShort { lease, took } => {
                Self::LeaseTooShort { lease: lease.duration(), took }
            }
            AcquireFailure::Unclaimed => Self::Unclaimed,
            AcquireFailure::Closed => Self::Closed,
        })
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.kind {
            AcquireErrorKind::Unknown { .. } => "may or may not be acquired",
            _ => "not acquired",
        };
        write!(f, "{} {outcome}: {}", self.subject, self.kind)
    }
}

message_in_debug!(AcquireError { kind, subject });

of_a_subject!(named AcquireErrorKind => AcquireError);

from_cause!(AcquireErrorKind { Lease(LeaseError) });
