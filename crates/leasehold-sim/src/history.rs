//! The events of a run.
//!
//! Invariant: an event holds nothing that differs between two runs of one seed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold::error::Applied;
use leasehold::{LostReason, ReleaseOutcome};
use leasehold_proto::Verb;

use crate::fault::Kind;
use crate::name_state::NameState;
use crate::owner::{Wire, short};

/// The number of an operation of a user, whose outcome comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Op(pub(crate) u64);

/// The number of a guard that a user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hold(pub(crate) u64);

#[derive(Clone, Debug, Hash)]
pub(crate) enum Event {
    /// A user begins an operation, which has to end by itself within `within`, if that is given.
    Requested { op: Op, process: usize, name: Arc<str>, what: What, within: Option<Duration> },
    /// The operation that was just requested acquires a read hold.
    Reads { op: Op },
    /// The operation has ended.
    Completed { op: Op, outcome: Outcome },
    /// The future of the operation was dropped.
    Dropped { op: Op },
    /// A user has a guard.
    Claimed { hold: Hold, op: Op, wire: Wire, token: Option<u64> },
    /// A user has several guards as one guard, whose validity is `remaining`.
    ClaimedTogether { op: Op, holds: Vec<Hold>, remaining: Duration },
    /// The user ends the hold, although the release may still have to be sent.
    Ending { hold: Hold, how: Ending },
    /// A user begins or stops to wait for the loss of a hold.
    AwaitsLoss { hold: Hold, begins: bool },
    /// The guard has reported to its user that the hold is lost.
    Lost { hold: Hold, reason: LostReason },
    /// A client gives a call to its store.
    Sent {
        process: usize,
        call: u64,
        verb: Verb,
        name: Arc<str>,
        wire: Wire,
        count: Option<u32>,
        lease: Option<Duration>,
    },
    /// The store has reported the outcome of the call.
    Returned { process: usize, call: u64, applied: Option<Applied> },
    /// The server has executed a script on a lock.
    Executed {
        verb: Verb,
        name: Arc<str>,
        wire: Wire,
        units: u32,
        by: By,
        reply: Reply,
        before: Arc<NameState>,
        after: Arc<NameState>,
        /// A key that belongs to no lock, if there is such a key.
        stray: Option<String>,
    },
    /// A former master, which others have replaced, has executed a script on its own copy of a lock.
    Apart(Box<Self>),
    /// A fault begins or ends.
    Fault { index: usize, kind: Kind, begins: bool },
    /// A foreign client believes to hold a lock until `until`, by the true time.
    ForeignHold { name: Arc<str>, wire: Wire, until: Duration },
    /// The foreign client releases the lock.
    ForeignEnd { name: Arc<str>, wire: Wire },
    /// A process starts or restarts.
    Started { process: usize },
    /// A process is killed, with all its holds.
    Killed { process: usize },
    /// A user leads a term. With a body, the body has begun.
    Led { term: u64, process: usize, token: u64, has_body: bool },
    /// The body has ended, or the user of a term without one has ended it.
    LedOut { term: u64 },
    /// A user begins or ends a campaign without a bound.
    Campaigns { op: Op, process: usize, begins: bool },
    /// An observer sees this leader, nobody, or has not been answered.
    Observed { process: usize, leader: Option<Option<Arc<str>>> },
    /// The last fault has ended.
    Quiesced,
    /// Users take no more locks.
    Stopped,
}

/// The operation that a user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Lock,
    TryLock,
    TryLockFor,
    Reenter,
    /// An acquire of the write lock by an owner that reads.
    Upgrade,
    /// An acquire of several names together.
    LockAll,
    /// One attempt to acquire several names together.
    TryLockAll,
    /// An acquire of several names together, with a bound.
    TryLockAllFor,
    /// A wait for a latch to open.
    Wait,
    /// A change of the number of permits, or of the count of a latch.
    Adjust,
    Release,
    Ensure,
    Inspect,
    Close,
}

impl What {
    /// Returns true if the operation returns a guard on success.
    #[must_use]
    pub(crate) const fn acquires(self) -> bool {
        matches!(
            self,
            Self::Lock
                | Self::TryLock
                | Self::TryLockFor
                | Self::Reenter
                | Self::Upgrade
                | Self::LockAll
                | Self::TryLockAll
                | Self::TryLockAllFor
        )
    }
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// Success, with a guard if the operation acquires.
    Done,
    /// Another owner holds the lock.
    Contended,
    /// The operation failed and changed nothing.
    NotApplied(String),
    /// The operation may have been applied, and its effect is gone within this time.
    Unknown(Duration, String),
    /// The report of a release.
    Released(ReleaseOutcome),
    /// The hold was lost.
    Lost(LostReason),
    /// The client is closed.
    Closed,
    /// The owner holds it, and the call does not re-enter.
    AlreadyHeld,
    /// The wait would never end.
    Deadlock,
    /// The latch was deleted during the wait.
    Deleted,
    /// Any other outcome, as its message.
    Other(String),
}

/// The way in which a user ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Release,
    Drop,
    Detach,
}

/// The origin of a script that the server executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum By {
    Process(usize),
    /// A process that is connected to a former master.
    AtFormer(usize),
    /// A repetition of a request by the network.
    Duplicate(usize),
    Foreigner,
    Operator,
}

/// A reply, reduced to the part that the invariants use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Other,
    Error(String),
}

impl Event {
    /// Returns the event, or the execution of a script by a former master.
    #[must_use]
    pub(crate) const fn at_any_server(&self) -> &Self {
        match self {
            Self::Apart(executed) => executed,
            event => event,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested { op, process, name, what, within } => {
                write!(f, "process {process}: {what:?} {name} (op {})", op.0)?;
                within.map_or(Ok(()), |within| write!(f, " within {within:?}"))
            }
            Self::Reads { op } => write!(f, "op {}: to read", op.0),
            Self::Completed { op, outcome } => write!(f, "op {}: {outcome:?}", op.0),
            Self::Dropped { op } => write!(f, "op {}: its future is dropped", op.0),
            Self::Claimed { hold, op, wire, token } => {
                write!(f, "op {}: claimed, hold {} as {}", op.0, hold.0, short(wire))?;
                token.map_or(Ok(()), |token| write!(f, ", token {token}"))
            }
            Self::ClaimedTogether { op, remaining, .. } => {
                write!(f, "op {}: has them all, for {remaining:?}", op.0)
            }
            Self::Ending { hold, how } => write!(f, "hold {}: {how:?}", hold.0),
            Self::AwaitsLoss { hold, begins: true } => write!(f, "hold {}: watched", hold.0),
            Self::AwaitsLoss { hold, begins: false } => write!(f, "hold {}: watched no more", hold.0),
            Self::Lost { hold, reason } => write!(f, "hold {}: told that it is lost, {reason}", hold.0),
            Self::Sent { process, call, verb, name, wire, count, .. } => {
                write!(f, "process {process}: sends {verb} {name} {} (call {call})", short(wire))?;
                count.map_or(Ok(()), |count| write!(f, " count {count}"))
            }
            Self::Returned { process, call, applied } => match applied {
                None => write!(f, "process {process}: call {call} is answered"),
                Some(applied) => write!(f, "process {process}: call {call} failed, applied {applied:?}"),
            },
            Self::Executed { verb, name, wire, by, reply, after, .. } => {
                write!(f, "server: {verb} {name} {} of {by:?}: {reply:?}; now {after}", short(wire))
            }
            Self::Apart(executed) => write!(f, "former master: {executed}"),
            Self::Fault { index, kind, begins } => {
                write!(f, "FAULT {index} {kind} {}", if *begins { "begins" } else { "ends" })
            }
            Self::ForeignHold { name, wire, until } => {
                write!(f, "foreigner holds {name} as {} until {until:?}", short(wire))
            }
            Self::ForeignEnd { name, wire } => write!(f, "foreigner gives back {name} of {}", short(wire)),
            Self::Started { process } => write!(f, "process {process}: starts"),
            Self::Killed { process } => write!(f, "process {process}: is killed"),
            Self::Led { term, process, token, has_body } => {
                let how = if *has_body { "its body begins" } else { "by hand" };
                write!(f, "process {process}: leads term {term}, token {token}, {how}")
            }
            Self::LedOut { term } => write!(f, "term {term}: has ended for its user"),
            Self::Campaigns { op, process, begins } => {
                write!(f, "process {process}: {} campaign {}", if *begins { "begins" } else { "ends" }, op.0)
            }
            Self::Observed { process, leader } => match leader {
                None => write!(f, "process {process}: sees no answer"),
                Some(None) => write!(f, "process {process}: sees no leader"),
                Some(Some(wire)) => write!(f, "process {process}: sees the leader {}", short(wire)),
            },
            Self::Quiesced => f.write_str("no fault is at work any more"),
            Self::Stopped => f.write_str("users take no more locks"),
        }
    }
}
