//! The state of the engine's parts, as data. The file of each part has the functions that change it.
//!
//! Invariant: a type here names no part of the engine, so every part can name every type.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::interface::{LostReason, Outcome, Request};
use crate::call::Call;
use crate::id::{CallId, Id};
use crate::lease::Lease;
use crate::moment::Moment;
use crate::name::Channel;
use crate::outcome::StoreError;
use crate::owner::{Owner, WireOwner};
use crate::subject::Subject;

/// The purpose of an in-flight call, which decides which part gets the reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Attempt(Attempt),
    Count(WireOwner),
    Renew(WireOwner),
    Release(WireOwner),
    MinHold { wire: WireOwner, sent_at: Moment, lease: Lease },
    Perform(Id),
}

/// The request of one waiting caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ticket {
    /// An acquire.
    Acquire(Box<Acquiring>),
    /// A renewal on demand of this wire owner's hold.
    Ensuring(WireOwner),
    /// A call without a hold.
    Performing,
    /// A release or close whose outcome is not known yet.
    Pending,
    /// The outcome, not yet claimed.
    Completed(Outcome),
}

/// An acquire that has no outcome yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Acquiring {
    pub(super) request: Request,
    pub(super) stage: Stage,
}

/// The progress of an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// The acquire makes attempts, or waits in the wait queue.
    Waiting(WaiterState),
    /// The owner holds the name already, and the engine is raising the count.
    Entering { wire: WireOwner, since: Moment },
    /// Granted, and not yet claimed.
    Granted(WireOwner),
    /// The grant was undone because the caller did not claim it in time. The next claim acquires again.
    Expired(WireOwner),
}

/// The state of a waiter: the results of its own attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct WaiterState {
    /// The wire owner of the waiter's attempts. All of them share it, since a refusal wrote nothing and a grant is set,
    /// not added.
    pub(super) wire: Option<WireOwner>,
    /// The attempt in flight.
    pub(super) call: Option<CallId>,
    /// True if a wake-up arrived while the attempt was in flight, so its answer may be older than the wake-up.
    pub(super) again: bool,
    /// The time by which the unseen grant of an attempt has run out, if an attempt has an unknown outcome.
    pub(super) unknown_until: Option<Moment>,
    /// The start of the current run of store failures without an answer in between. `failures` counts these failures.
    pub(super) failing_since: Option<Moment>,
    pub(super) failures: u32,
    /// The number of refused attempts.
    pub(super) refusals: u32,
    /// True if the waiter's present wire owner may be in a queue on the server, after an answer that was no error.
    pub(super) queued: bool,
    pub(super) last: Option<Last>,
    /// True if the waiter has waited for a hold of this client itself.
    pub(super) waited_for_own_client: bool,
}

/// The last answer to a waiter's attempts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Last {
    Refused,
    Failed(StoreError),
    TooLate(Duration),
}

/// An in-flight attempt. Its answer is awaited even after its waiter is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) id: Id,
    pub(super) subject: Subject,
    pub(super) wire: WireOwner,
    pub(super) lease: Lease,
    pub(super) sent_at: Moment,
    pub(super) units: u32,
    /// True if an earlier attempt under the same wire owner has an unknown outcome.
    pub(super) uncertain: bool,
    /// True if a refused waiter enters a queue on the server.
    pub(super) queues: bool,
}

/// A hold of this client on the server, under one wire owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServerHold {
    pub(super) subject: Subject,
    pub(super) owner: Owner,
    pub(super) units: u32,
    pub(super) token: Option<u64>,
    /// The longest lease of any call that was sent. The server may keep the key for that long when all else is unknown.
    pub(super) longest: Lease,
    pub(super) holds: BTreeMap<Id, Hold>,
    /// The acquires that raise the count, granted in this order.
    pub(super) entering: VecDeque<Id>,
    /// The number of detached holds, which end when the key runs out by its lease.
    pub(super) detached: u32,
    /// The count on the server, or `None` after a call with an unknown outcome.
    pub(super) on_server: Option<u32>,
    pub(super) count_call: Option<CountCall>,
    pub(super) failures: u32,
    /// The error of the last call that set the count, or `None` if that call succeeded.
    pub(super) last_error: Option<StoreError>,
    /// The releases of one hold of several, which wait for the end of the call that sets the count, whatever its
    /// outcome.
    pub(super) reports: Vec<Id>,
    /// The send time of the last confirmed acquire or renewal.
    pub(super) confirmed_at: Moment,
    pub(super) valid_until: Moment,
    /// The earliest time at which the server can expire the key, counted from the send of the last confirmed call. No
    /// drift is subtracted.
    pub(super) expires_at: Moment,
    pub(super) renewing: Option<Renewing>,
    pub(super) renew_failures: u32,
    /// The time of the next attempt after a failed renewal.
    pub(super) retry_at: Option<Moment>,
    /// The tickets that wait for more validity.
    pub(super) ensuring: Vec<Ensuring>,
    /// The latest end of the minimum hold times of the released holds.
    pub(super) min_hold_until: Moment,
    /// The time until which a message may still announce the release that preceded the grant.
    pub(super) stale_messages_until: Moment,
    /// The time from which a waiter makes an attempt although this client holds the name, because a message has
    /// announced a release.
    pub(super) recheck_from: Moment,
    /// True if an unanswered call may still extend the key.
    pub(super) uncertain: bool,
    pub(super) lost: Option<LostReason>,
}

/// One hold with its own terms. A server hold follows the most generous of its holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) claimed: bool,
    pub(super) watchdog: bool,
    pub(super) lease: Lease,
    /// The end of the hold by its `max_hold`, or [`Moment::NEVER`].
    pub(super) ends_at: Moment,
    /// The end of its minimum hold time, until which the server keeps it even after its release.
    pub(super) min_hold_until: Moment,
    /// The number of renewals that the watchdog may still make.
    pub(super) renewals_left: Option<u32>,
}

/// A ticket that waits for more validity of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ensuring {
    pub(super) id: Id,
    pub(super) least: Duration,
    /// True if a renewal was sent since the ticket began to wait.
    pub(super) sent: bool,
}

/// An in-flight call that sets the count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CountCall {
    pub(super) call: CallId,
    pub(super) count: u32,
    /// The re-entries that the call confirms. A call without any is a partial release, which keeps the lease.
    pub(super) reentries: Vec<Id>,
    pub(super) lease: Lease,
    pub(super) sent_at: Moment,
}

/// An in-flight renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Renewing {
    pub(super) call: CallId,
    pub(super) sent_at: Moment,
    pub(super) lease: Lease,
}

/// A release or undo of one wire owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Release {
    pub(super) subject: Subject,
    pub(super) lease: Lease,
    pub(super) units: u32,
    /// The time by which the key is gone even if no release ever arrives.
    pub(super) gone_by: Moment,
    pub(super) cause: Cause,
    pub(super) call: Option<CallId>,
    pub(super) failures: u32,
    /// True if an earlier attempt may have been applied, so that "not held" may be its effect.
    pub(super) uncertain: bool,
    pub(super) last_error: Option<StoreError>,
    pub(super) reports: Vec<Id>,
}

/// The reason for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// A hold ends.
    Release,
    /// A grant that came too late, or that no caller claimed or waited for, or a place in a queue on the server that is
    /// given up.
    UnseenGrant,
    /// An acquire that may or may not have run, and may still run, so only an answer ends its undo.
    UnknownAcquire,
}

/// A hold that is released here, and that the server keeps until its minimum hold time is over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct MinHold {
    pub(super) subject: Subject,
    pub(super) units: u32,
    /// True if the lease ends the minimum hold, without a release.
    pub(super) detached: bool,
    /// The end of the minimum hold time.
    pub(super) until: Moment,
    /// The earliest time at which the server can expire the key, counted from the send of the last confirmed call.
    pub(super) expires_at: Moment,
    /// The longest lease that any call has set.
    pub(super) longest: Lease,
    /// The releases that wait until the minimum hold is certain.
    pub(super) reports: Vec<Id>,
    pub(super) call: Option<CallId>,
    pub(super) failures: u32,
}

/// An operation that is in flight, or waits for its next attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Operation {
    pub(super) call: Call,
    pub(super) since: Moment,
    pub(super) failures: u32,
    /// True if an earlier attempt may have been applied.
    pub(super) uncertain: bool,
}

/// A listener of one or more channels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Listener {
    /// The wait queue of a subject, whose head polls.
    Queue(Subject),
    /// One waiter that polls for itself.
    Waiter(Id),
}

/// The subscriptions of all listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Listeners {
    pub(super) by_channel: BTreeMap<Channel, BTreeSet<Listener>>,
    pub(super) by_listener: BTreeMap<Listener, Vec<Channel>>,
    /// The channels whose subscription the server has confirmed.
    pub(super) confirmed: BTreeSet<Channel>,
}

/// The state of a client that is closing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Closing {
    pub(super) ids: Vec<Id>,
    pub(super) released: u64,
    pub(super) unconfirmed: u64,
    /// True if the timeout of the close has passed, and the remaining releases have their last period.
    pub(super) timed_out: bool,
}
