//! What can go wrong, one small enum per operation, and [`Error`] for users of `?`.
//!
//! Invariant: every error says which is true: the lock was not acquired; it is unknown and free again by then; or it
//! was held and is lost, because. A lock that somebody else holds is no error where not getting it is an answer.
//! Called by: everything that users call.

use std::fmt;
use std::io;
use std::time::Duration;

use leasehold_proto::engine::{AcquireFailure, EnsureFailure, LostReason, ReleaseFailure};
use leasehold_proto::recipe::expirable::PERMITS_MAX;
use leasehold_proto::{Applied, LEASE_MAX, LEASE_MIN, LeaseError, NameError, StoreError, StoreErrorKind};

pub use crate::connect::UrlError;
use crate::shared::Forked;

/// Why a client could not be made. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not one that can be connected to.
    #[error("the server's URL cannot be used")]
    Url(#[source] UrlError),
    /// A setting is shorter than a millisecond.
    #[error("the {setting} of {given:?} is too short, at least 1 ms is needed")]
    TooShort {
        /// Which one.
        setting: &'static str,
        /// What it was.
        given: Duration,
    },
    /// The watchdog, or a default of some primitive, is not a lease.
    #[error("a default lease cannot be used")]
    Lease(#[from] LeaseError),
    /// With the key prefix no name is one.
    #[error("the key prefix cannot be used")]
    KeyPrefix(#[source] NameError),
    /// The client's name is not 1 to 128 bytes of printable ASCII without spaces.
    #[error("the client's name is not 1 to 128 printable ASCII characters without spaces")]
    ClientName,
    /// The server did not let us in.
    #[error("no connection to {server}")]
    Store {
        /// The URL, with its password masked.
        server: String,
        /// What it said.
        source: StoreError,
    },
    /// The operating system gave no thread or no timer for the client's driver.
    #[error("the client's thread could not be started")]
    Thread(#[source] io::Error),
}

/// Why an acquire ended without a guard, other than by somebody else's hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The name cannot be used; nothing was sent.
    #[error("not acquired: the name cannot be used")]
    Name(#[from] NameError),
    /// The lease is not a lease; nothing was sent.
    #[error("not acquired: the lease cannot be used")]
    Lease(#[from] LeaseError),
    /// The bound on the hold is shorter than the shortest lease; nothing was sent.
    #[error("not acquired: a bound of {given:?} on the hold is too short, at least {LEASE_MIN:?} is needed")]
    MaxHold {
        /// The bound that was asked for.
        given: Duration,
    },
    /// The least time of the hold is longer than the hold may last; nothing was sent.
    #[error("not acquired: a hold of at least {given:?} cannot be, it may last {most:?} at most")]
    MinHold {
        /// The least time that was asked for.
        given: Duration,
        /// The bound on the hold, or the longest lease.
        most: Duration,
    },
    /// The server failed and certainly did not run the script: nothing is locked.
    #[error("not acquired, nothing is locked")]
    Store(#[source] StoreError),
    /// The server may have run the script. If it did, it is undone as soon as the server answers, and the lease
    /// bounds it in any case. Only a server that stands still for longer may run it later yet, when it goes on; the undo
    /// then follows at once.
    #[error("unknown whether acquired; free of this attempt again {}", By(*free_within))]
    Unknown {
        /// By when, counted from the error, nothing of this attempt is left on the server. Permits that do not expire
        /// have no such time: it is longer than any lease then.
        free_within: Duration,
        /// What went wrong.
        source: StoreError,
    },
    /// The owner's present hold, which this acquire would have re-entered or upgraded, is lost. Drop its guards first.
    #[error("not acquired: the owner's present hold is lost, {reason}")]
    Lost {
        /// Why it is gone.
        reason: LostReason,
    },
    /// The key has no expiry, so it would block for ever; it was left as it is. No lock of the family leaves such a
    /// key behind: look who wrote it, or free it with [`Lock::force_unlock`](crate::Lock::force_unlock).
    #[error("not acquired: the key has no expiry and would block for ever, it was left as it is")]
    NoExpiry,
    /// The owner holds the lock already, and this one is not to be taken twice. Its hold is as it was.
    #[error("not acquired: the owner holds it already")]
    AlreadyHeld,
    /// Whoever waited would wait for ever: for a hold of its own, or for somebody who waits for it. Nothing was changed.
    #[error("not acquired: waiting for it would never end, its holder would have to wait for this caller")]
    Deadlock,
    /// The guard to upgrade is not a read guard of this lock, taken through this client; nothing was sent.
    #[error("not acquired: the guard is not a read guard of this lock and client")]
    WrongGuard,
    /// Another kind of object has this name, which was left as it is.
    #[error("not acquired: the name belongs to another kind of object, which was left as it is")]
    OtherKind(#[source] StoreError),
    /// The server has been up for less than the longest lease, so it may have forgotten holds; its word does not count
    /// yet.
    #[error("not acquired: the server came up too recently, its word counts in {remaining:?}")]
    Young {
        /// For how much longer.
        remaining: Duration,
    },
    /// What was waited for was deleted.
    #[error("it was deleted")]
    Deleted,
    /// More permits of an expirable semaphore than [`PERMITS_MAX`]; nothing was sent.
    #[error("not acquired: {given} permits are too many at once, at most {PERMITS_MAX} are allowed")]
    TooManyPermits {
        /// How many were asked for.
        given: u32,
    },
    /// Grants arrived when their lease had nothing left to trust; they were given back.
    #[error("not acquired: the lease of {lease:?} was over when its grant arrived after {took:?}")]
    LeaseTooShort {
        /// The lease.
        lease: Duration,
        /// How long the last grant took.
        took: Duration,
    },
    /// The future was not polled for so long after its grant that the lock was given back.
    #[error("not acquired: the grant was not taken in time and was given back")]
    Unclaimed,
    /// The client is closed.
    #[error("not acquired: the client is closed")]
    Closed,
    /// This process is a fork of the one that made the client.
    #[error("not acquired: the client belongs to the process that this one was forked from")]
    Forked,
}

/// By when something is free, in a message.
struct By(Duration);

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No lease ends what lasts longer than two of the longest.
        if self.0 / 2 > LEASE_MAX {
            f.write_str("when the server has answered")
        } else {
            write!(f, "within {:?}", self.0)
        }
    }
}

/// Why a lock over several servers was not acquired: no majority of them worked. What any of them granted is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuorumError {
    /// Each node with its answer.
    pub nodes: Vec<NodeAnswer>,
}

/// What one node said.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAnswer {
    /// The server's URL, with its password masked.
    pub server: String,
    /// Whether it granted the lock; what it granted is given back.
    pub granted: bool,
    /// Why it did not; `None` when somebody else holds the lock there, or the answer was not waited for.
    pub error: Option<AcquireError>,
}

impl fmt::Display for QuorumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not acquired: no majority of the nodes works")?;
        for (number, node) in self.nodes.iter().enumerate() {
            f.write_str(if number == 0 { ": " } else { "; " })?;
            match &node.error {
                _ if node.granted => write!(f, "{} granted", node.server)?,
                Some(error) => {
                    write!(f, "{}: {error}", node.server)?;
                    if let Some(source) = std::error::Error::source(error) {
                        write!(f, ", {source}")?;
                    }
                }
                None => write!(f, "{} refused", node.server)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for QuorumError {}

/// Why a release is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The server has not answered. The release goes on being tried, and the lease bounds it in any case.
    #[error("the release is not confirmed; it is free {}", By(*free_within))]
    Unconfirmed {
        /// By when, counted from the error, the lock is free at the latest. Permits that do not expire have no such
        /// time: it is longer than any lease then.
        free_within: Duration,
        /// What went wrong.
        source: StoreError,
    },
    /// This process is a fork of the one that made the client; the hold belongs to that one.
    #[error("not released: the client belongs to the process that this one was forked from")]
    Forked,
}

/// Why a hold cannot be trusted for as long as was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnsureError {
    /// It is gone.
    #[error("the lock is lost: {reason}")]
    Lost {
        /// Why.
        reason: LostReason,
    },
    /// No renewal can give so much: it is more than a lease, or more than the hold's own bound leaves.
    #[error("the lock can be ensured for at most {most:?}")]
    TooLong {
        /// The most that can be had.
        most: Duration,
    },
    /// The renewal was not confirmed; the hold may be trusted for the rest of its lease and goes on being renewed.
    #[error("the renewal is not confirmed; the lock is held for another {remaining:?}")]
    Unconfirmed {
        /// For how long.
        remaining: Duration,
        /// What went wrong.
        source: StoreError,
    },
    /// This process is a fork of the one that made the client.
    #[error("the client belongs to the process that this one was forked from")]
    Forked,
}

/// Why a body that was to run under a lock has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired, and the body did not run.
    #[error("the body did not run")]
    Acquire(#[from] AcquireError),
    /// Somebody else held it for as long as was to be waited; the body did not run.
    #[error("the body did not run: somebody else held the lock for all of {wait:?}")]
    Busy {
        /// The wait.
        wait: Duration,
    },
    /// The number of the semaphore's permits could not be set; the body did not run.
    #[error("the body did not run: the number of permits could not be set")]
    Permits(#[from] OperationError),
    /// No client was named and none is installed; the body did not run.
    #[error("the body did not run: no client is installed")]
    NotInstalled(#[from] NotInstalled),
    /// The lock was lost while the body ran; the body was cancelled at its next await point, or its result dropped.
    #[error("the lock was lost while the body ran: {reason}")]
    Lost {
        /// Why.
        reason: LostReason,
    },
}

/// No client was installed before one was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no client is installed: give one to `leasehold::install` at the start of the program, or name one")]
pub struct NotInstalled;

/// A client was installed before, and stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a client is installed already")]
pub struct AlreadyInstalled;

/// Why a semaphore or latch was not changed, or not certainly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The name is not one of such an object; nothing was sent.
    #[error("not done: the name cannot be used")]
    Name(#[from] NameError),
    /// The lease is not a lease; nothing was sent.
    #[error("not done: the lease cannot be used")]
    Lease(#[from] LeaseError),
    /// More permits to be given back at once than [`PERMITS_MAX`]; nothing was sent.
    #[error("not done: {given} permits are too many at once, at most {PERMITS_MAX} are allowed")]
    TooManyPermits {
        /// How many there were.
        given: u32,
    },
    /// The server failed and certainly did not do it.
    #[error("not done")]
    Store(#[source] StoreError),
    /// The server has not answered: it may have done it, once, or may do it yet.
    #[error("unknown whether it was done")]
    Unknown(#[source] StoreError),
    /// Another kind of object has this name, which was left as it is.
    #[error("not done: the name belongs to another kind of object, which was left as it is")]
    OtherKind(#[source] StoreError),
    /// The client is closed. What was being done then may have been done.
    #[error("the client is closed")]
    Closed,
    /// This process is a fork of the one that made the client.
    #[error("not done: the client belongs to the process that this one was forked from")]
    Forked,
}

/// Why a write with a fencing token was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FencedWriteError {
    /// A newer token has written before: the lock is somebody else's by now. Nothing was written.
    #[error("not written: the newer token {newest} has written before")]
    Stale {
        /// That token.
        newest: u64,
    },
    /// As of every operation.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

/// Why a wait for a latch ended before the latch was open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The name is not a latch's name; nothing was sent.
    #[error("the name cannot be used")]
    Name(#[from] NameError),
    /// The latch was deleted while it was waited for.
    #[error("the latch was deleted")]
    Deleted,
    /// The server has failed for the whole of the client's timeout, or for a wait that was shorter.
    #[error("the latch could not be looked at")]
    Store(#[source] StoreError),
    /// Another kind of object has this name.
    #[error("the name belongs to another kind of object")]
    OtherKind(#[source] StoreError),
    /// The client is closed.
    #[error("the client is closed")]
    Closed,
    /// This process is a fork of the one that made the client.
    #[error("the client belongs to the process that this one was forked from")]
    Forked,
}

/// Why a lock, semaphore or latch could not be looked at, or a lock not be forced free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// The name cannot be used; nothing was sent.
    #[error("the name cannot be used")]
    Name(#[from] NameError),
    /// The server did not answer, or not as the script does.
    #[error("the lock could not be looked at")]
    Store(#[from] StoreError),
    /// The key has no expiry; no lock of the family leaves such a key behind.
    #[error("the key has no expiry")]
    NoExpiry,
    /// The client is closed.
    #[error("the client is closed")]
    Closed,
    /// This process is a fork of the one that made the client.
    #[error("the client belongs to the process that this one was forked from")]
    Forked,
}

/// Any error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of connecting.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Of reading a configuration.
    #[cfg(feature = "config")]
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// Of connecting with one.
    #[cfg(feature = "config")]
    #[error(transparent)]
    ConfigConnect(#[from] crate::config::ConfigConnectError),
    /// Of acquiring.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// Of acquiring over several servers.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    /// Of releasing.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// Of renewing on demand.
    #[error(transparent)]
    Ensure(#[from] EnsureError),
    /// Of looking for the installed client.
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    /// Of installing one.
    #[error(transparent)]
    AlreadyInstalled(#[from] AlreadyInstalled),
    /// Of running a body under a lock.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Of looking at a lock.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// Of changing a semaphore or latch.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// Of writing with a fencing token.
    #[error(transparent)]
    FencedWrite(#[from] FencedWriteError),
    /// Of waiting for a latch.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

impl AcquireError {
    /// The error of a failure that is one; `None` for a lock that somebody else holds.
    pub(crate) fn of(failure: AcquireFailure) -> Option<Self> {
        Some(match failure {
            AcquireFailure::Contended => return None,
            AcquireFailure::Lost(reason) => Self::Lost { reason },
            AcquireFailure::Failed(source) if source.kind == StoreErrorKind::WrongType => {
                Self::OtherKind(source)
            }
            AcquireFailure::Failed(source) => Self::Store(source),
            AcquireFailure::Unknown { free_within, error } => Self::Unknown { free_within, source: error },
            AcquireFailure::NoExpiry => Self::NoExpiry,
            AcquireFailure::AlreadyHeld => Self::AlreadyHeld,
            AcquireFailure::Deadlock => Self::Deadlock,
            AcquireFailure::Deleted => Self::Deleted,
            AcquireFailure::Young { remaining } => Self::Young { remaining },
            AcquireFailure::LeaseTooShort { lease, took } => {
                Self::LeaseTooShort { lease: lease.duration(), took }
            }
            AcquireFailure::Unclaimed => Self::Unclaimed,
            AcquireFailure::Closed => Self::Closed,
        })
    }
}

impl WaitError {
    /// The error of a wait that ended otherwise than by its deadline. What holds nothing fails in fewer ways than a lock.
    pub(crate) fn of(failure: AcquireFailure) -> Self {
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

/// Scripts look at their key by its type before they write, so one of another kind is as it was.
impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        match (error.kind, error.applied) {
            (StoreErrorKind::WrongType, _) => Self::OtherKind(error.not_applied()),
            (_, Applied::No) => Self::Store(error),
            (_, Applied::Unknown) => Self::Unknown(error),
        }
    }
}

impl From<Forked> for OperationError {
    fn from(Forked: Forked) -> Self {
        Self::Forked
    }
}

impl From<Forked> for WaitError {
    fn from(Forked: Forked) -> Self {
        Self::Forked
    }
}

impl From<Forked> for AcquireError {
    fn from(Forked: Forked) -> Self {
        Self::Forked
    }
}

impl From<Forked> for ReleaseError {
    fn from(Forked: Forked) -> Self {
        Self::Forked
    }
}

impl From<Forked> for EnsureError {
    fn from(Forked: Forked) -> Self {
        Self::Forked
    }
}

impl From<Forked> for InspectError {
    fn from(Forked: Forked) -> Self {
        Self::Forked
    }
}

impl From<NameError> for RunError {
    fn from(error: NameError) -> Self {
        Self::Acquire(error.into())
    }
}

impl From<ReleaseFailure> for ReleaseError {
    fn from(failure: ReleaseFailure) -> Self {
        Self::Unconfirmed { free_within: failure.free_within, source: failure.error }
    }
}

impl From<EnsureFailure> for EnsureError {
    fn from(failure: EnsureFailure) -> Self {
        match failure {
            EnsureFailure::Lost(reason) => Self::Lost { reason },
            EnsureFailure::TooLong { most } => Self::TooLong { most },
            EnsureFailure::Unconfirmed { remaining, error } => Self::Unconfirmed { remaining, source: error },
        }
    }
}
