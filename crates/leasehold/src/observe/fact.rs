//! The trait for observers, and the facts that they receive.

use std::time::Duration;

use leasehold_proto::engine::{AcquireFailure, GrantedBy, LostReason, Told};
use leasehold_proto::{FreeWithin, Moment, StoreErrorKind, Verb};

/// Something that is told the facts of a client.
///
/// # Panics
/// An observer that panics is told nothing more. The client goes on.
pub trait Observer: Send + Sync + 'static {
    /// Takes note of a fact. It may be called on any thread, and on several at once.
    fn fact(&self, fact: &Fact<'_>);
}

impl<O: Observer + ?Sized> Observer for std::sync::Arc<O> {
    fn fact(&self, fact: &Fact<'_>) {
        (**self).fact(fact);
    }
}

/// Whether observers, logs and spans get lock names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Names {
    /// The names.
    #[default]
    Shown,
    /// Their groups, for names with what no log may have, such as an address or an account.
    Hidden,
}

/// Something that a client has decided.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Fact<'a> {
    /// The name of the lock as the program writes it, without the client's prefix, or its group if names are
    /// [hidden](Names::Hidden), or `None` if the fact is about no lock.
    pub name: Option<&'a str>,
    /// The kind of the lock, such as `fair lock`.
    pub kind: Option<&'static str>,
    /// The group of the name, for labels of metrics: the name itself if it is one of
    /// [`ClientBuilder::per_name`](crate::ClientBuilder::per_name), else that of [`Lock::group`](crate::Lock::group) or of the
    /// template of a [`locked`](crate::locked) function, else that of
    /// [`ClientBuilder::group_by`](crate::ClientBuilder::group_by).
    pub group: Option<&'a str>,
    /// The number of facts that this client has dropped since it began, because an observer stood still.
    pub dropped: u64,
    /// The time of the client's clock at which it was told.
    #[cfg_attr(
        not(any(feature = "tracing", feature = "metrics")),
        expect(dead_code, reason = "only observers of ours need it")
    )]
    pub(crate) at: Moment,
    /// The decision.
    pub what: What<'a>,
}

/// What was decided.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum What<'a> {
    /// An acquire waits, because another holds the lock or stands before it.
    Waiting,
    /// The lock was waited for longer than the [patience](crate::ClientBuilder::patience). It is told once per patience and
    /// name, for the waiter that has waited longest.
    #[non_exhaustive]
    Patient {
        /// The time that it has waited.
        waited: Duration,
        /// The owner that holds the lock, as the server knows it, if that is known. Of several readers it is one. Of a plain
        /// lock that another client holds it is the value.
        holder: Option<&'a str>,
        /// True if the holder belongs to this client. A task that waits for its own hold waits forever.
        is_own: bool,
        /// True if one waiter was told as patient before.
        again: bool,
    },
    /// A lock is held, or an event such as the opening of a latch has happened.
    #[non_exhaustive]
    Acquired {
        /// The time from the first poll to the grant.
        waited: Duration,
        /// The number of calls to the server.
        attempts: u32,
        /// The source of the grant.
        by: GrantedBy,
        /// The fencing token, if the lock has tokens.
        token: Option<u64>,
        /// The owner as the server knows it.
        owner: &'a str,
        /// True if [`What::Waiting`] was told.
        was_waiting: bool,
        /// True if this acquire was a [`What::Patient`] fact before.
        was_patient: bool,
    },
    /// An acquire has ended without the lock.
    #[non_exhaustive]
    NotAcquired {
        /// The time from the first poll to the end.
        waited: Duration,
        /// The number of calls to the server.
        attempts: u32,
        /// The reason.
        outcome: Outcome,
        /// The time within which the lock is certainly free of this acquire, if the server may have granted it.
        free_within: Option<FreeWithin>,
        /// True if [`What::Waiting`] was told.
        was_waiting: bool,
        /// True if this acquire was a [`What::Patient`] fact before.
        was_patient: bool,
    },
    /// A guard was released or detached.
    #[non_exhaustive]
    Released {
        /// The time that it was held.
        held: Duration,
        /// True if the guard was detached, so the lock stays held until its lease ends.
        detached: bool,
    },
    /// A release was not confirmed by the server. The client repeats it.
    #[non_exhaustive]
    Unconfirmed {
        /// The time within which the lock is free, whatever happens.
        free_within: FreeWithin,
        /// The error of the server or the connection.
        error: StoreErrorKind,
    },
    /// A held lock was lost.
    #[non_exhaustive]
    Lost {
        /// The time that it was held.
        held: Duration,
        /// The reason.
        reason: LostReason,
        /// The time from the end of its validity to this fact, which is long if the process was suspended.
        late: Duration,
    },
    /// A renewal was confirmed.
    #[non_exhaustive]
    Renewed {
        /// The part of the lease that was left before, from 0 to 1.
        left: f64,
        /// The time that the call took.
        took: Duration,
    },
    /// A renewal has failed. The client tries again until the lease ends.
    #[non_exhaustive]
    NotRenewed {
        /// The part of the lease that is left, from 0 to 1.
        left: f64,
        /// The failures in a row.
        failures: u32,
        /// The kind of the error.
        error: StoreErrorKind,
    },
    /// The undo of an acquire that nobody has received has begun, or has ended.
    #[non_exhaustive]
    Undone {
        /// True at the end.
        settled: bool,
    },
    /// The server has answered a call, or the call has failed.
    #[non_exhaustive]
    Called {
        /// The purpose of the call.
        verb: Verb,
        /// The time from the send to the answer.
        took: Duration,
        /// The kind of the error, if it has failed.
        error: Option<StoreErrorKind>,
    },
    /// A connection to a server serves from now on.
    #[non_exhaustive]
    Connected {
        /// The host of the server, or the path of its socket.
        server: &'a str,
        /// The port of the server, if it has one.
        port: Option<u16>,
        /// What the connection carries.
        connection: Connection,
        /// True if it is not the first of its kind to this server.
        again: bool,
        /// True if another server has taken over the names, as the sentinels say.
        moved: bool,
    },
    /// A connection that served has ended.
    #[non_exhaustive]
    Disconnected {
        /// The host of the server, or the path of its socket.
        server: &'a str,
        /// The port of the server, if it has one.
        port: Option<u16>,
        /// What the connection carried.
        connection: Connection,
        /// True if the server has ended it. False if the client has, because it is closed, or because the server was late,
        /// refused or broke the protocol.
        by_server: bool,
    },
    /// A password travels in plain text.
    #[non_exhaustive]
    PlainText {
        /// The address of the server.
        server: &'a str,
    },
    /// Fewer replicas are connected than the policy wants.
    #[non_exhaustive]
    MissingReplicas {
        /// The replicas that are connected.
        connected: u32,
        /// The replicas that the policy wants.
        wanted: u32,
    },
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Connection {
    /// The calls.
    Commands,
    /// The calls that replicas confirm.
    Confirmed,
    /// The subscriptions, by which waiters are woken.
    Subscriptions,
}

impl Connection {
    /// Returns the label of a metric, in lower case.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Commands => "command",
            Self::Confirmed => "confirmed",
            Self::Subscriptions => "pubsub",
        }
    }
}

/// The reason why an acquire has no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Another holds it, and the acquire did not wait.
    Busy,
    /// The wait was over.
    Timeout,
    /// The future was dropped.
    Cancelled,
    /// The server was not reached or has refused.
    Unavailable,
    /// The server may have granted it. The client undoes it.
    Unknown,
    /// The wait would never have ended.
    Deadlock,
    /// The client is closed.
    Closed,
    /// The lock cannot be granted: it has no expiry, was deleted, or the terms do not fit.
    Refused,
}

impl Outcome {
    /// Returns the label of a metric, in lower case.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
            Self::Deadlock => "deadlock",
            Self::Closed => "closed",
            Self::Refused => "refused",
        }
    }

    /// Returns the outcome of an acquire without a hold, which has failed or was given up.
    pub(super) const fn of(failure: Option<&AcquireFailure>, told: Told) -> Self {
        let Some(failure) = failure else { return Self::Cancelled };
        match failure {
            AcquireFailure::Contended if told.waiting => Self::Timeout,
            AcquireFailure::Contended => Self::Busy,
            AcquireFailure::Failed(_) | AcquireFailure::RecentlyRestarted { .. } => Self::Unavailable,
            AcquireFailure::Unknown { .. } => Self::Unknown,
            AcquireFailure::AlreadyHeld | AcquireFailure::Deadlock => Self::Deadlock,
            AcquireFailure::Closed => Self::Closed,
            AcquireFailure::Unclaimed => Self::Timeout,
            AcquireFailure::Lost(_)
            | AcquireFailure::NoExpiry
            | AcquireFailure::Deleted
            | AcquireFailure::LeaseTooShort { .. } => Self::Refused,
        }
    }
}
