//! A ticket: one acquire, release or renewal that a caller waits for, until the outcome is claimed.
//!
//! Invariant: an outcome is told once. A grant becomes a hold only by its claim, and is not renewed before
//! (docs/guarantees.md, rule 6).
//! Called by: the engine's step; the parts that settle what a ticket waits for.

use std::time::Duration;

use super::queue::WaiterState;
use super::timer::Timer;
use super::{Action, Engine, Id, LostReason, Request, Wait};
use crate::call::Reply;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{FreeWithin, StoreError};
use crate::owner::WireOwner;

/// The longest time that a grant waits for its claim.
const UNCLAIMED_MAX: Duration = Duration::from_secs(5);

/// One waiting caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ticket {
    /// An acquire.
    Acquire(Box<Acquiring>),
    /// A renewal on demand, of this wire owner's hold.
    Ensuring(WireOwner),
    /// A call without a hold.
    Performing,
    /// A release or close whose outcome is not known yet.
    Pending,
    /// The outcome, not yet claimed.
    Settled(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Acquiring {
    pub(super) request: Request,
    pub(super) stage: Stage,
}

/// How far an acquire is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// It asks the store, or stands in line to.
    Waiting(WaiterState),
    /// Its owner holds the name already; the count is being raised.
    Entering { wire: WireOwner, since: Moment },
    /// Granted, and not yet claimed.
    Granted(WireOwner),
    /// The grant was given back because nobody claimed it; the next look stands in line again.
    Forfeited(WireOwner),
}

/// What became of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Of an acquire; the hold's id is the ticket's.
    Acquired(Result<Grant, AcquireFailure>),
    /// Of a release: whether the lock was held until then.
    Released(Result<bool, ReleaseFailure>),
    /// Of a renewal on demand.
    Ensured(Result<(), EnsureFailure>),
    /// Of a call without a hold.
    Performed(Result<Reply, OperationFailure>),
    /// Of the client's close.
    Closed(CloseReport),
}

/// What a granted acquire gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// What stands on the server for the hold.
    pub wire: WireOwner,
    /// The fencing token, if the primitive has them.
    pub token: Option<u64>,
}

/// Why a call without a hold has no reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OperationFailure {
    /// The store failed; the error says whether the call may have been applied.
    Failed(StoreError),
    /// The client is closed.
    Closed,
}

/// Why an acquire ended without a hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AcquireFailure {
    /// Somebody else holds it; the wait is over.
    Contended,
    /// The owner's present hold, which this acquire would have re-entered, is lost.
    Lost(LostReason),
    /// The store failed and certainly did not run the script.
    Failed(StoreError),
    /// The store may have run the script; if it did, an undo follows and the lease bounds it.
    Unknown {
        /// By when the lock is free of this attempt even if nothing else reaches the server.
        free_within: FreeWithin,
        /// What went wrong.
        error: StoreError,
    },
    /// The key has no expiry and would block for ever; it was left as it is.
    NoExpiry,
    /// The owner holds it already, and this acquire does not re-enter.
    AlreadyHeld,
    /// Whoever waits would wait for ever: for its own hold, or for somebody who waits for it.
    Deadlock,
    /// What was waited for was deleted.
    Deleted,
    /// The server has not been up for long enough for its word to count.
    RecentlyRestarted {
        /// For how much longer.
        remaining: Duration,
    },
    /// Every grant arrived when its lease had nothing left to trust; it was given back.
    LeaseTooShort {
        /// The lease.
        lease: Lease,
        /// How long the last grant took.
        took: Duration,
    },
    /// The grant was not claimed in time and given back.
    Unclaimed,
    /// The client is closed.
    Closed,
}

/// Why a release is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleaseFailure {
    /// By when the lock is free at the latest; the release goes on being tried until then.
    pub free_within: FreeWithin,
    /// What went wrong.
    pub error: StoreError,
}

/// Why a hold cannot be trusted for as long as was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EnsureFailure {
    /// It is gone.
    Lost(LostReason),
    /// More than a lease, or the hold's own bound, can give.
    TooLong {
        /// The most that can be had.
        most: Duration,
    },
    /// The renewal was not confirmed; the hold may be trusted for the rest of its lease.
    Unconfirmed {
        /// For how long.
        remaining: Duration,
        /// What went wrong.
        error: StoreError,
    },
}

/// What a close left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CloseReport {
    /// Holds that were released, or found to be gone.
    pub released: u64,
    /// Holds whose release was not confirmed in time; their leases bound them.
    pub unconfirmed: u64,
}

impl Engine {
    /// Tells a ticket's outcome if there is one; takes a grant.
    pub(super) fn claim(&mut self, now: Moment, id: Id) {
        match self.tickets.get_mut(&id) {
            Some(Ticket::Settled(_)) => {
                if let Some(Ticket::Settled(outcome)) = self.tickets.remove(&id) {
                    self.actions.push(Action::Complete(id, outcome));
                }
            }
            Some(Ticket::Acquire(acquiring)) => match acquiring.stage {
                Stage::Granted(wire) => self.claim_grant(now, id, wire),
                Stage::Forfeited(wire) => self.reacquire(now, id, wire),
                Stage::Waiting(_) | Stage::Entering { .. } => {}
            },
            Some(Ticket::Ensuring(_) | Ticket::Performing | Ticket::Pending) | None => {}
        }
    }

    /// Gives a ticket up, whatever it was for.
    pub(super) fn cancel(&mut self, now: Moment, id: Id) {
        match self.tickets.remove(&id) {
            Some(Ticket::Acquire(acquiring)) => self.leave(now, id, *acquiring),
            Some(Ticket::Ensuring(wire)) => self.stop_ensuring(id, wire),
            Some(Ticket::Performing) => self.stop_performing(id),
            Some(Ticket::Pending | Ticket::Settled(_)) | None => {}
        }
    }

    /// A caller's wait is over.
    pub(super) fn deadline(&mut self, now: Moment, id: Id) {
        let acquiring = match self.tickets.get(&id) {
            Some(Ticket::Acquire(acquiring)) => acquiring,
            Some(Ticket::Ensuring(wire)) => return self.ensure_overdue(now, id, *wire),
            Some(Ticket::Performing | Ticket::Pending | Ticket::Settled(_)) | None => return,
        };
        let failure = match &acquiring.stage {
            Stage::Waiting(_) => self.verdict(now, id),
            Stage::Entering { wire, .. } => self.entering_verdict(now, id, *wire),
            Stage::Forfeited(_) => AcquireFailure::Unclaimed,
            // It was granted in time; the claim is bounded by a timer of its own.
            Stage::Granted(_) => return,
        };
        self.fail(now, id, failure);
    }

    /// Ends an acquire without a hold.
    pub(super) fn fail(&mut self, now: Moment, id: Id, failure: AcquireFailure) {
        if let Some(Ticket::Acquire(acquiring)) = self.tickets.remove(&id) {
            self.leave(now, id, *acquiring);
            self.complete(id, Outcome::Acquired(Err(failure)));
        }
    }

    /// Keeps an outcome for its caller and says that it is there.
    pub(super) fn complete(&mut self, id: Id, outcome: Outcome) {
        self.tickets.insert(id, Ticket::Settled(outcome));
        self.wake(id);
    }

    /// Settles a ticket that may have been given up meanwhile.
    pub(super) fn complete_if_wanted(&mut self, id: Id, outcome: Outcome) {
        if self.tickets.contains_key(&id) {
            self.complete(id, outcome);
        }
    }

    /// Says that a ticket's acquire was granted; its caller has a while to claim it.
    pub(super) fn grant(&mut self, now: Moment, id: Id, wire: WireOwner) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get_mut(&id) else {
            return;
        };
        acquiring.stage = Stage::Granted(wire);
        let claim_within = (acquiring.request.first_lease().duration() / 3).min(UNCLAIMED_MAX);
        self.timers.clear(Timer::Deadline(id));
        self.timers.set(Timer::Unclaimed(id), now + claim_within);
        self.wake(id);
    }

    /// A grant that nobody claimed is given back, so that a future that is not polled blocks nobody for long.
    pub(super) fn expire_unclaimed(&mut self, now: Moment, id: Id) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get_mut(&id) else {
            return;
        };
        let Stage::Granted(wire) = acquiring.stage else {
            return;
        };
        acquiring.stage = Stage::Forfeited(wire);
        if let Wait::Until(deadline) = acquiring.request.wait {
            self.timers.set(Timer::Deadline(id), deadline);
        }
        self.drop_hold(now, id, None);
    }

    /// Takes an acquire out of whatever it stands in, with an undo where it may have left something behind.
    fn leave(&mut self, now: Moment, id: Id, acquiring: Acquiring) {
        self.timers.clear(Timer::Deadline(id));
        match acquiring.stage {
            Stage::Waiting(asking) => self.leave_queue(now, id, &acquiring.request, &asking),
            Stage::Entering { wire, .. } => self.stop_entering(now, id, wire),
            Stage::Granted(_) => self.drop_hold(now, id, None),
            Stage::Forfeited(_) => {}
        }
    }
}
