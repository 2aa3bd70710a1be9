//! Grants: what a waiter gets, and what its owner's other waiters get with it.
//!
//! Invariant: one owner has one server hold of a name and side.

use std::sync::Arc;

use crate::engine::AcquireFailure;
use crate::engine::Id;
use crate::engine::base::certain::{Certain, WAITING};
use crate::engine::base::keys::{NameId, Number, QueueId, Side, Sides};
use crate::engine::base::subscriptions::Listener;
use crate::engine::effect::Effect;
use crate::engine::holds::begin_end::Granted;
use crate::engine::holds::tokens::Tokens;
use crate::engine::waits::Waits;
use crate::engine::waits::acquire::Stage;
use crate::engine::waits::calls::Attempt;
use crate::moment::Moment;
use crate::owner::Owner;

impl Waits {
    /// Begins the hold of an attempt that was granted in time.
    pub(in crate::engine) fn begin_hold(
        &mut self,
        now: Moment,
        id: Id,
        attempt: &Attempt,
        token: Option<u64>,
    ) {
        let Some(acquire) = self.holds.cx.acquire_of(id).certain(WAITING) else { return };
        let (name, recipe, owner, queue) = (acquire.name, acquire.recipe(), acquire.owner, acquire.queue());
        let (terms, since) = (Arc::clone(&acquire.terms), acquire.since);
        self.note_grant(now, queue);
        let granted = Granted {
            number: attempt.number,
            sent_at: attempt.sent_at,
            lease: attempt.lease,
            tokens: Tokens::granted(token, attempt.tokens),
        };
        self.holds.begin(now, (id, since, owner), (name, &terms), granted);
        let (number, sent_at) = (attempt.number, attempt.sent_at);
        self.holds.cx.raise(Effect::Granted { name, number, sent_at });
        if recipe.held_as.unwrap_or(recipe).holding.is_counted() {
            let side = recipe.held_side();
            self.waiters.remove(&(name, side, owner, id));
            self.holds.own(now, (name, side, owner), number);
            self.enter_waiters(now, (name, side, owner), number);
            self.attempt_companion(now, name, recipe, owner);
        }
    }

    /// Takes a waiter to which a hold passes out of its queue.
    pub(in crate::engine) fn take(&mut self, id: Id) {
        self.unlink(id);
        if let Some(acquire) = self.holds.cx.acquire_of(id) {
            let waiter = (acquire.name, acquire.recipe().held_side(), acquire.owner, id);
            self.waiters.remove(&waiter);
        }
    }

    /// Tells the queue of a grant. Only a subscription from before the grant can still deliver the message of an
    /// earlier release, and hardly later than the polling interval.
    fn note_grant(&mut self, now: Moment, id: QueueId) {
        let listens = self.holds.cx.subscriptions.is_listening(Listener::Queue(id));
        let stale_until = if listens { now + self.holds.cx.settings.poll_interval } else { now };
        if let Some(queue) = self.holds.cx.names.queue_mut(id) {
            queue.note_grant(stale_until);
        }
    }

    /// Lets the waiters of an owner that has just acquired the lock re-enter it, or fails the waiters that do not
    /// re-enter, since they would wait for their own owner. An attempt on its way for a waiter is undone when its reply
    /// arrives, so one owner has one server hold.
    pub(in crate::engine) fn enter_waiters(
        &mut self,
        now: Moment,
        (name, side, owner): (NameId, Side, Owner),
        number: Number,
    ) {
        for id in self.waiters_of(name, side, owner) {
            self.deadline_is_over(now, id);
            let Some(acquire) = self.holds.cx.acquire_of(id).filter(|acquire| acquire.waiter().is_some())
            else {
                continue;
            };
            if !acquire.terms.reenters {
                self.fail(now, id, AcquireFailure::AlreadyHeld);
                continue;
            }
            self.waiters.remove(&(name, side, owner, id));
            let stage = Stage::Entering { hold: number, failing_since: None };
            let Some(acquire) = self.holds.cx.acquire_of_mut(id) else { continue };
            let waiting = std::mem::replace(&mut acquire.stage, stage);
            let queue = acquire.queue();
            if let Stage::Waiting(waiter) = waiting {
                self.leave_waiting(now, id, queue, waiter);
            }
            self.holds.enter(now, id, number);
        }
    }
}
