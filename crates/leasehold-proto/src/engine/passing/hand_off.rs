//! Hand-off: a hold passes to the next waiter of this client without a round trip.
//!
//! Invariant: a hold passes on only if nothing about it is in doubt and its validity is nearly whole, and only for a
//! bounded time after the server has granted it. Other clients then get their turn by an ordinary release.
//!
//! # How it works
//! The server hold stays as it is: the same wire owner, the same lease. Its owner changes, and its guard, and the next of
//! the fencing tokens that its grant has reserved. What the server would decide otherwise never passes on: a place in a
//! queue of the server, a read or write side, a minimum hold time. When the bound is over, the release tells the listeners,
//! and the client's next attempt goes out behind it, or leaves the others a turn (`release`).

use std::sync::Arc;

use crate::engine::base::certain::Certain;
use crate::engine::base::keys::{Number, QueueId, Sides};
use crate::engine::holds::hold::Guard;
use crate::engine::{Engine, GrantedBy, Id, Outcome};
use crate::moment::Moment;

impl Engine {
    /// Passes a hold whose last guard is gone to the next waiter. Returns false if the hold has to be released.
    pub(in crate::engine) fn hand_off(&mut self, now: Moment, number: Number) -> bool {
        let Some(hold) = self.waits.holds.get(number).certain("a hold ends once") else { return false };
        if self.waits.holds.cx.closed || !hold.can_pass_on(now) {
            return false;
        }
        let id = hold.queue();
        let Some(waiter) = self.next_for_hand_off(now, id, number) else { return false };
        self.waits.take(waiter);
        self.pass_on(now, number, waiter);
        self.waits.close_queue_if_over(now, id);
        true
    }

    /// Returns the first waiter of a queue if a hold fits its terms.
    fn next_for_hand_off(&mut self, now: Moment, id: QueueId, number: Number) -> Option<Id> {
        let first = self.waits.holds.cx.first_waiter(id)?.0;
        // The timer of its deadline may be late.
        self.waits.deadline_due(now, first);
        let queue = self.waits.holds.cx.names.queue(id)?;
        // A grant of an attempt on its way would be a second hold.
        if !queue.makes_no_attempt() {
            return None;
        }
        let (first, acquire) = self.waits.holds.cx.first_waiter(id)?;
        let bound = self.waits.holds.cx.hand_off_bound(&acquire.terms);
        let hold = self.waits.holds.get(number)?;
        (!bound.is_zero() && hold.fits(&acquire.terms, now)).then_some(first)
    }

    fn pass_on(&mut self, now: Moment, number: Number, waiter: Id) {
        let Some(acquire) = self.waits.holds.cx.acquire_of(waiter).certain("a waiter has its acquire") else {
            return;
        };
        let (name, owner, terms) = (acquire.name, acquire.owner, Arc::clone(&acquire.terms));
        let side = acquire.recipe().held_side();
        let Some(hold) = self.waits.holds.get_mut(number).certain("the hold was there") else { return };
        let reports = hold.reports.take();
        hold.owner = owner;
        hold.tokens.pass_on();
        hold.min_hold_until = now;
        hold.admit(Guard::new(waiter, &terms, now, now + terms.claim_within()), &terms);
        self.waits.holds.add_guard(waiter, number);
        let displaced = self.waits.holds.cx.names.hold(name, side, owner, number);
        debug_assert!(displaced.is_none(), "one exclusive hold of a name is trusted");
        self.waits.holds.cx.report(reports, &Outcome::Released(Ok(true)));
        self.waits.holds.cx.grant(waiter, number, GrantedBy::HandOff);
        self.waits.holds.note_passed(number);
        self.waits.holds.plan_renewal(number);
        self.waits.enter_waiters(now, (name, side, owner), number);
    }
}
