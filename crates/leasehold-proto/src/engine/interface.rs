//! The inputs and outputs of the engine: events with their requests, and actions with their outcomes.

use std::fmt;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::call::Call;
use crate::confirm::Confirm;
use crate::id::{CallId, Id};
use crate::lease::Lease;
use crate::moment::Moment;
use crate::name::Channel;
use crate::outcome::{FreeWithin, StoreError};
use crate::owner::{Owner, WireOwner};
use crate::reply::Reply;
use crate::scope::Scope;
use crate::subject::Subject;

/// An input of the engine: a request of a caller, or a report of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A caller requests a lock.
    Acquire(Id, Request),
    /// A caller polls its ticket for the outcome. A claim takes a grant.
    Claim(Id),
    /// A caller gave up its ticket, of any kind.
    Cancel(Id),
    /// A guard releases its hold.
    Release {
        /// The hold.
        hold: Id,
        /// The ticket that receives the outcome.
        report: Option<Id>,
    },
    /// A caller sets the minimum hold time of a hold, counted from now.
    SetMinHold(Id, Duration),
    /// A guard is detached, so the renewals stop and the lease runs out.
    Detach(Id),
    /// A caller gives its hold away, so the renewals stop and whoever knows its wire owner may adopt it. Completes as a release:
    /// with true if the hold was held by this guard alone, and else the guard stays as it is.
    Give {
        /// The ticket.
        id: Id,
        /// The hold.
        hold: Id,
    },
    /// A caller needs at least this much validity of its hold.
    Ensure {
        /// The ticket.
        id: Id,
        /// The hold.
        hold: Id,
        /// The validity that the caller needs.
        least: Duration,
    },
    /// A caller gives its hold a lease of this length, counted from now.
    Extend {
        /// The ticket.
        id: Id,
        /// The hold.
        hold: Id,
        /// The lease. A longer one stays.
        by: Duration,
    },
    /// A caller shows that it is alive. Only holds that are [silent](Request::silent_for) after a while need it.
    Beat(Id),
    /// A caller runs an operation: a call that takes no hold, and that has the same effect when it runs twice.
    Perform(Id, Call),
    /// The client closes, so the engine releases every hold and refuses new requests.
    Close(Id),
    /// A store call returned.
    Replied(CallId, Result<Reply, StoreError>),
    /// A call that was to be withdrawn was sent already, or has its outcome. If it has none yet, that follows.
    Kept(CallId),
    /// The server confirmed a subscription, for the first time or after a reconnect.
    Listening(Channel),
    /// A wake-up arrived.
    Message(Channel),
    /// Another server answers for these names, or the same one over a new connection. It may lack what was granted.
    Replaced(Scope),
    /// Time has passed.
    Tick,
}

impl Event {
    /// Returns true if the driver brings the event.
    pub(in crate::engine) const fn is_of_the_driver(&self) -> bool {
        matches!(
            self,
            Self::Replied(..) | Self::Listening(_) | Self::Message(_) | Self::Replaced(_) | Self::Tick
        )
    }
}

/// The terms of an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The name to lock and its rules.
    pub subject: Subject,
    /// The owner of the hold.
    pub owner: Owner,
    /// The number of units: permits of a semaphore, 1 for every other primitive.
    pub units: u32,
    /// True if an owner that already holds the lock re-enters it. If false, that acquire is an error.
    pub reenters: bool,
    /// The lease: the time for which the server keeps the hold without a renewal.
    pub lease: Lease,
    /// True if the watchdog renews the hold.
    pub watchdog: bool,
    /// The number of renewals after which the watchdog stops, or `None` for no bound.
    pub max_renewals: Option<u32>,
    /// The longest duration of the hold, counted from the grant, or `None` for no bound.
    pub max_hold: Option<Duration>,
    /// The minimum hold time, or `None` for no bound. The server keeps the hold for at least this long after the grant,
    /// even if its guard is released earlier.
    pub min_hold: Option<Duration>,
    /// The time after the last sign of life of its caller for which the watchdog still renews the hold, or `None` for no
    /// bound.
    pub silent_for: Option<Duration>,
    /// The time before the end of each lease at which the hold may not be trusted any more, besides the drift.
    pub margin: Duration,
    /// The uptime below which a server counts as recently restarted and its answer does not count.
    pub uptime: Duration,
    /// The bound of the wait.
    pub wait: Wait,
    /// The pauses between attempts of a primitive without wake-ups, or `None` for wake-ups and the polling interval.
    pub backoff: Option<Backoff>,
    /// The time that the client's waiters leave to clients that poll, or `None` for nothing. They wait for a part of it
    /// after each wake-up.
    pub share: Option<Duration>,
    /// The time after a grant of the server for which the hold passes to the client's next waiters without a call, or
    /// `None` for that of the settings.
    pub hand_off: Option<Duration>,
    /// The replicas that must acknowledge what is sent for the hold, or `None` if neither the lock nor the client has a
    /// policy. A client with a policy puts it here, because the engine compares the policies of re-entries.
    pub replicas: Option<Confirm>,
    /// The wire owner whose hold the acquire takes, with the recipe of an [adoption](crate::recipe::adopt).
    pub giver: Option<WireOwner>,
    /// True for a candidate, which waits for as long as another one leads. Its waits are never reported as long.
    pub stands_by: bool,
}

impl Request {
    /// Creates a request for one unit with the watchdog on, re-entry allowed and no bounds.
    #[must_use]
    pub const fn new(subject: Subject, owner: Owner, lease: Lease, wait: Wait) -> Self {
        Self {
            subject,
            owner,
            units: 1,
            reenters: true,
            lease,
            watchdog: true,
            max_renewals: None,
            max_hold: None,
            min_hold: None,
            silent_for: None,
            margin: Duration::ZERO,
            uptime: Duration::ZERO,
            wait,
            backoff: None,
            share: None,
            hand_off: None,
            replicas: None,
            giver: None,
            stands_by: false,
        }
    }
}

/// The bound of a caller's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Makes exactly one attempt.
    Once,
    /// Waits until this deadline.
    Until(Moment),
    /// Waits without a bound.
    Forever,
}

/// An output of the engine: an effect that the driver carries out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends a call. The reply comes back as [`Event::Replied`]. The duration is the call's timeout.
    Run(CallId, Call, Duration),
    /// Takes a call back that was not sent. The outcome comes back as [`Event::Replied`], with an error that says that the
    /// call was not applied, or else at once as [`Event::Kept`].
    Withdraw(CallId),
    /// Subscribes to a channel.
    Subscribe(Channel),
    /// Unsubscribes from a channel.
    Unsubscribe(Channel),
    /// Notifies a ticket of its outcome, or the tasks that wait for the loss of a hold.
    Wake(Id),
    /// The hold may be trusted until this moment, or no longer if the moment is zero. Zero is the last word about a
    /// hold: it is lost, released or detached. A hold is first published when it is claimed, before its
    /// [`Complete`](Self::Complete).
    Trusted(Id, Moment),
    /// The outcome of the ticket that was just claimed. The engine reports it once.
    Complete(Id, Outcome),
}

/// The end of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The outcome of an acquire. The hold's id is the ticket's.
    Acquired(Result<Grant, AcquireFailure>),
    /// The outcome of a release: true if the lock was held until then.
    Released(Result<bool, ReleaseFailure>),
    /// The outcome of a renewal on demand.
    Ensured(Result<(), EnsureFailure>),
    /// The outcome of an operation.
    Performed(Result<Reply, OperationFailure>),
    /// The outcome of a close of the client.
    Closed(CloseReport),
}

/// The data of a granted acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The wire owner of the hold.
    pub wire: WireOwner,
    /// The fencing token, if the primitive has tokens.
    pub token: Option<u64>,
}

/// A grant that its caller may take without a [`Claim`](Event::Claim).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The grant.
    pub grant: Grant,
    /// The end of its validity.
    pub valid_until: Moment,
    /// The time until which the offer stands, unless it is [in question](crate::Engine::offers_in_question) before.
    pub until: Moment,
}

/// The reason why an acquire ended without a hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AcquireFailure {
    /// Another owner holds the lock, and the wait is over.
    Contended,
    /// The owner's current hold, which this acquire would have re-entered, is lost.
    Lost(LostReason),
    /// The store failed and certainly did not run the script.
    Failed(StoreError),
    /// The store may have run the script. If it did, an undo follows and the lease bounds the effect.
    Unknown {
        /// The time within which any effect of this attempt is gone, even if nothing else reaches the server.
        free_within: FreeWithin,
        /// The error of the store.
        error: StoreError,
    },
    /// The key has no expiry and would block forever. It was left as it is.
    NoExpiry,
    /// The owner holds the lock already, and this acquire does not re-enter.
    AlreadyHeld,
    /// The wait would never end, because the owner would wait for its own hold, or for another waiter that waits for
    /// this owner.
    Deadlock,
    /// The awaited primitive was deleted.
    Deleted,
    /// The server restarted too recently to be trusted.
    RecentlyRestarted {
        /// The time until the server can be trusted.
        remaining: Duration,
    },
    /// Every grant arrived when its lease had no validity left, and was undone.
    LeaseTooShort {
        /// The lease.
        lease: Lease,
        /// The time that the last grant took.
        took: Duration,
    },
    /// The grant was not claimed in time and was undone.
    Unclaimed,
    /// The client is closed.
    Closed,
}

impl AcquireFailure {
    /// Returns the same failure where only an answer of the server ends what an attempt may have left.
    pub(in crate::engine) fn without_bound(self) -> Self {
        match self {
            Self::Unknown { error, .. } => Self::Unknown { free_within: FreeWithin::Unbounded, error },
            other => other,
        }
    }

    /// Returns the same failure of the store for another waiter, whose own attempts have left nothing, or may have left
    /// something until then.
    pub(in crate::engine) fn of_another(self, left_until: Option<Moment>, now: Moment) -> Self {
        match (self, left_until) {
            (Self::Failed(error) | Self::Unknown { error, .. }, Some(until)) => {
                Self::Unknown { free_within: FreeWithin::until(until, now), error }
            }
            (failure, _) => failure.without_doubt(),
        }
    }

    /// Returns the same failure for a waiter for which nothing was sent.
    pub(in crate::engine) fn without_doubt(self) -> Self {
        match self {
            Self::Failed(error) | Self::Unknown { error, .. } => Self::Failed(error.not_applied()),
            Self::LeaseTooShort { .. } => Self::Contended,
            other => other,
        }
    }
}

/// The reason why a release is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleaseFailure {
    /// The time within which the lock is free at the latest. The release is retried until then.
    pub free_within: FreeWithin,
    /// The error of the store.
    pub error: StoreError,
}

/// The reason why a hold does not have the required validity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EnsureFailure {
    /// The hold is lost.
    Lost(LostReason),
    /// The required validity is more than a lease, or the hold's own bound, can give.
    TooLong {
        /// The longest validity that is possible.
        most: Duration,
    },
    /// The renewal was not confirmed. The hold may be trusted for the rest of its lease.
    Unconfirmed {
        /// The rest of the validity.
        remaining: Duration,
        /// The error of the store.
        error: StoreError,
    },
}

/// The reason why an operation has no reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OperationFailure {
    /// The store failed. The error says whether the call may have been applied.
    Failed(StoreError),
    /// The client is closed.
    Closed,
}

/// The result of a close.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CloseReport {
    /// Holds that were released, or found to be gone.
    pub released: u64,
    /// Holds whose release was not confirmed in time. Their leases bound them.
    pub unconfirmed: u64,
}

/// A claimed hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldInfo {
    /// What is held.
    pub subject: Subject,
    /// The owner on the server.
    pub wire: WireOwner,
    /// The time of its claim.
    pub since: Moment,
    /// The validity that is left, zero if the hold is lost.
    pub remaining: Duration,
    /// The lease that renewals set.
    pub lease: Lease,
    /// True if the watchdog renews it.
    pub is_renewed: bool,
    /// The fencing token, if there is one.
    pub token: Option<u64>,
}

/// An acquire that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitInfo {
    /// What it waits for.
    pub subject: Subject,
    /// The time of the request.
    pub since: Moment,
}

/// The reason for the loss of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The fixed lease ended.
    Expired,
    /// The hold reached its own bound, `max_hold`.
    MaxHold,
    /// The watchdog made all its renewals, `max_renewals`, and the last lease ended.
    MaxRenewals,
    /// The holder gave no sign of life for longer than `silent_for`, so nothing renewed the hold, and its lease ended.
    Silent,
    /// Another owner holds the lock, or the key has another type.
    TakenOver,
    /// The key was gone from the server: force-released, deleted, flushed, or lost with the server's memory.
    Deleted,
    /// The lease ended without a confirmed renewal.
    Unreachable,
    /// The client was closed.
    Closed,
}

impl LostReason {
    /// Returns true if the hold ended by terms that its own holder set, as planned.
    #[must_use]
    pub const fn is_by_own_terms(self) -> bool {
        matches!(self, Self::Expired | Self::MaxHold | Self::MaxRenewals)
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its fixed lease ended",
            Self::MaxHold => "it reached its max_hold",
            Self::MaxRenewals => "it reached its max_renewals, and its last lease ended",
            Self::Silent => "its holder was silent for too long, so it was not renewed and its lease ended",
            Self::TakenOver => "another owner holds it, or another kind of object has its name",
            Self::Deleted => "it was deleted on the server",
            Self::Unreachable => "no renewal was confirmed before the lease ended",
            Self::Closed => "the client was closed",
        })
    }
}
