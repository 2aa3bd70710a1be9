//! A ticket: one acquire, release or renewal that a caller waits for, until it claims the outcome.
//!
//! Invariant: an outcome is reported once. A grant becomes a hold only by its claim, and is not renewed before
//! (docs/guarantees.md, rule 6).

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

/// The reason why an operation has no reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OperationFailure {
    /// The store failed. The error says whether the call may have been applied.
    Failed(StoreError),
    /// The client is closed.
    Closed,
}

/// The reason why an acquire ended without a hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AcquireFailure {
    /// Another owner holds the lock, and the wait is over.
    Contended,
    /// The owner's present hold, which this acquire would have re-entered, is lost.
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

/// The result of a close.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CloseReport {
    /// Holds that were released, or found to be gone.
    pub released: u64,
    /// Holds whose release was not confirmed in time. Their leases bound them.
    pub unconfirmed: u64,
}

impl Engine {
    /// Reports a ticket's outcome, if there is one, and takes a grant.
    pub(super) fn claim(&mut self, now: Moment, id: Id) {
        match self.tickets.get_mut(&id) {
            Some(Ticket::Completed(_)) => {
                if let Some(Ticket::Completed(outcome)) = self.tickets.remove(&id) {
                    self.actions.push(Action::Complete(id, outcome));
                }
            }
            Some(Ticket::Acquire(acquiring)) => match acquiring.stage {
                Stage::Granted(wire) => self.claim_grant(now, id, wire),
                Stage::Expired(wire) => self.reacquire(now, id, wire),
                Stage::Waiting(_) | Stage::Entering { .. } => {}
            },
            Some(Ticket::Ensuring(_) | Ticket::Performing | Ticket::Pending) | None => {}
        }
    }

    /// Gives up a ticket of any kind.
    pub(super) fn cancel(&mut self, now: Moment, id: Id) {
        match self.tickets.remove(&id) {
            Some(Ticket::Acquire(acquiring)) => self.leave(now, id, *acquiring),
            Some(Ticket::Ensuring(wire)) => self.stop_ensuring(id, wire),
            Some(Ticket::Performing) => self.stop_performing(id),
            Some(Ticket::Pending | Ticket::Completed(_)) | None => {}
        }
    }

    /// Handles the end of a caller's wait.
    pub(super) fn deadline(&mut self, now: Moment, id: Id) {
        let acquiring = match self.tickets.get(&id) {
            Some(Ticket::Acquire(acquiring)) => acquiring,
            Some(Ticket::Ensuring(wire)) => return self.ensure_overdue(now, id, *wire),
            Some(Ticket::Performing | Ticket::Pending | Ticket::Completed(_)) | None => return,
        };
        let failure = match &acquiring.stage {
            Stage::Waiting(_) => self.verdict(now, id),
            Stage::Entering { wire, .. } => self.entering_verdict(now, id, *wire),
            Stage::Expired(_) => AcquireFailure::Unclaimed,
            // The ticket was granted in time. Another timer bounds the claim.
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

    /// Stores an outcome for its caller and notifies the caller.
    pub(super) fn complete(&mut self, id: Id, outcome: Outcome) {
        self.tickets.insert(id, Ticket::Completed(outcome));
        self.wake(id);
    }

    /// Completes a ticket unless its caller has given it up.
    pub(super) fn complete_if_wanted(&mut self, id: Id, outcome: Outcome) {
        if self.tickets.contains_key(&id) {
            self.complete(id, outcome);
        }
    }

    /// Marks a ticket's acquire as granted and notifies its caller, which has limited time to claim it.
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

    /// Undoes a grant that was not claimed, so that a future that is not polled blocks other waiters only briefly.
    pub(super) fn expire_unclaimed(&mut self, now: Moment, id: Id) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get_mut(&id) else {
            return;
        };
        let Stage::Granted(wire) = acquiring.stage else {
            return;
        };
        acquiring.stage = Stage::Expired(wire);
        if let Wait::Until(deadline) = acquiring.request.wait {
            self.timers.set(Timer::Deadline(id), deadline);
        }
        self.drop_hold(now, id, None);
    }

    /// Removes an acquire from the wait queue or server hold that it is in, with an undo if it may have left something
    /// on the server.
    fn leave(&mut self, now: Moment, id: Id, acquiring: Acquiring) {
        self.timers.clear(Timer::Deadline(id));
        match acquiring.stage {
            Stage::Waiting(waiter) => self.leave_queue(now, id, &acquiring.request, &waiter),
            Stage::Entering { wire, .. } => self.stop_entering(now, id, wire),
            Stage::Granted(_) => self.drop_hold(now, id, None),
            Stage::Expired(_) => {}
        }
    }
}
