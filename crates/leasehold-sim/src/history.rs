//! What happened, event by event.
//!
//! Invariant: an event holds nothing that differs between two runs of one seed.
//! Called by: workloads, the observed store and the server, through the recorder; invariants, which read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Applied, LostReason, ReleaseOutcome};
use leasehold_proto::Verb;

use crate::fault::Kind;
use crate::key::Key;

/// A wire owner as the server sees it.
pub(crate) type Wire = Arc<str>;

/// What a user does; the outcome comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Op(pub(crate) u64);

/// A guard that a user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hold(pub(crate) u64);

/// One event.
#[expect(clippy::large_enum_variant, reason = "an event is made once, and seen by reference")]
#[derive(Clone, Debug, Hash)]
pub(crate) enum Event {
    /// A user wants something that has to end by itself within a time, if one is given.
    Asked { op: Op, process: usize, name: Arc<str>, what: What, within: Option<Duration> },
    /// It has ended.
    Answered { op: Op, outcome: Outcome },
    /// Its future was dropped.
    Dropped { op: Op },
    /// A user has a guard.
    Claimed { hold: Hold, op: Op, wire: Wire, token: Option<u64> },
    /// A user has several guards as one, which may be trusted for this long.
    Several { op: Op, holds: Vec<Hold>, remaining: Duration },
    /// The user is done with it; the release may still have to be sent.
    Ending { hold: Hold, how: Ending },
    /// A user waits to be told that a hold is lost, or does so no more.
    Watches { hold: Hold, begins: bool },
    /// The guard has told its user that it is lost.
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
    /// The store has told how the call went.
    Told { process: usize, call: u64, applied: Option<Applied> },
    /// The server has executed a script on a lock.
    Executed {
        verb: Verb,
        name: Arc<str>,
        wire: Wire,
        units: u32,
        by: By,
        reply: Reply,
        before: Key,
        after: Key,
        /// A key that is no lock's, if there is one.
        stray: Option<String>,
    },
    /// A fault begins to work, or ends.
    Fault { index: usize, kind: Kind, begins: bool },
    /// A foreign client believes to hold a lock until then, by the true time.
    ForeignHold { name: Arc<str>, wire: Wire, until: Duration },
    /// It gives it back.
    ForeignEnd { name: Arc<str>, wire: Wire },
    /// A process begins, or begins anew.
    Started { process: usize },
    /// A process is killed, with all that it holds.
    Killed { process: usize },
    /// No fault is at work any more.
    Calm,
    /// Users take no more locks.
    Stopped,
}

/// What a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Lock,
    TryLock,
    TryLockFor,
    Reenter,
    /// To write beside what it reads.
    Upgrade,
    /// All of several names.
    LockAll,
    TryLockAll,
    TryLockAllFor,
    /// For a latch to open.
    Wait,
    /// To set how many there are, or to add some.
    Adjust,
    Release,
    Ensure,
    Look,
    Close,
}

impl What {
    /// Whether its success is a guard.
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

/// How something ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// With a guard, or what was asked for.
    Done,
    /// Somebody else holds it.
    Contended,
    /// It failed, and nothing was done.
    NotApplied(String),
    /// It may have been done, and what it did has gone within this time.
    Unknown(Duration, String),
    /// A release's report.
    Released(ReleaseOutcome),
    /// The hold was lost.
    Lost(LostReason),
    /// The client is closed.
    Closed,
    /// The owner holds it, and does not re-enter.
    AlreadyHeld,
    /// It would have waited for ever.
    Deadlock,
    /// Something else, in its own words.
    Other(String),
}

/// How a user ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Release,
    Drop,
    Detach,
}

/// On whose behalf the server executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum By {
    Process(usize),
    /// The same request once more.
    Duplicate(usize),
    Foreigner,
    Operator,
}

/// A reply, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Other,
    Error(String),
}

/// The last letters of a wire owner, enough to tell it from the others of a history.
pub(crate) fn short(wire: &str) -> String {
    if wire.len() == 32 && !wire.contains(':') {
        return format!("{}:{}", &wire[..4], &wire[29..]);
    }
    let (client, number) = wire.rsplit_once(':').unwrap_or(("", wire));
    let client: String = client.chars().take(4).collect();
    format!("{client}:{number}")
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked { op, process, name, what, within } => {
                write!(f, "process {process}: {what:?} {name} (op {})", op.0)?;
                within.map_or(Ok(()), |within| write!(f, " within {within:?}"))
            }
            Self::Answered { op, outcome } => write!(f, "op {}: {outcome:?}", op.0),
            Self::Dropped { op } => write!(f, "op {}: its future is dropped", op.0),
            Self::Claimed { hold, op, wire, token } => {
                write!(f, "op {}: claimed, hold {} as {}", op.0, hold.0, short(wire))?;
                token.map_or(Ok(()), |token| write!(f, ", token {token}"))
            }
            Self::Several { op, remaining, .. } => {
                write!(f, "op {}: has them all, for {remaining:?}", op.0)
            }
            Self::Ending { hold, how } => write!(f, "hold {}: {how:?}", hold.0),
            Self::Watches { hold, begins: true } => write!(f, "hold {}: watched", hold.0),
            Self::Watches { hold, begins: false } => write!(f, "hold {}: watched no more", hold.0),
            Self::Lost { hold, reason } => write!(f, "hold {}: told that it is lost, {reason}", hold.0),
            Self::Sent { process, call, verb, name, wire, count, .. } => {
                write!(f, "process {process}: sends {verb} {name} {} (call {call})", short(wire))?;
                count.map_or(Ok(()), |count| write!(f, " count {count}"))
            }
            Self::Told { process, call, applied } => match applied {
                None => write!(f, "process {process}: call {call} is answered"),
                Some(applied) => write!(f, "process {process}: call {call} failed, applied {applied:?}"),
            },
            Self::Executed { verb, name, wire, by, reply, after, .. } => {
                write!(f, "server: {verb} {name} {} of {by:?}: {reply:?}; now {after}", short(wire))
            }
            Self::Fault { index, kind, begins } => {
                write!(f, "FAULT {index} {kind} {}", if *begins { "begins" } else { "ends" })
            }
            Self::ForeignHold { name, wire, until } => {
                write!(f, "foreigner holds {name} as {} until {until:?}", short(wire))
            }
            Self::ForeignEnd { name, wire } => write!(f, "foreigner gives back {name} of {}", short(wire)),
            Self::Started { process } => write!(f, "process {process}: starts"),
            Self::Killed { process } => write!(f, "process {process}: is killed"),
            Self::Calm => f.write_str("no fault is at work any more"),
            Self::Stopped => f.write_str("users take no more locks"),
        }
    }
}
