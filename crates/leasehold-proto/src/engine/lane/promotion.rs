//! Promotion: a record leaves the lane for the machines.
//!
//! Invariant: the machines are then in the state that they would have without the lane, and nothing is sent or told twice.
//!
//! # How it works
//! The events of the record are brought to the machines again, each with its own time. Their attempt takes the wire owner
//! and the calls that the lane has used, and their actions are dropped, since all of them were carried out. No machine
//! has seen the name since, so nothing that it did for other names would have been different.

use crate::engine::base::certain::Certain;
use crate::engine::base::context::{Purpose, Replay};
use crate::engine::lane::record::{Claimed, Course, Granted, Record};
use crate::engine::waits::calls::WaitCall;
use crate::engine::{CallId, Engine, Id};
use crate::moment::Moment;
use crate::recipe::Answer;

impl Engine {
    /// Promotes the record of a ticket or guard, if it has one.
    pub(in crate::engine) fn promote(&mut self, id: Id) {
        let Some(record) = self.lane.remove(id) else { return };
        debug_assert!(self.waits.holds.cx.effects.is_empty(), "a record leaves between two events");
        let told = self.waits.holds.cx.actions.len();
        // Observers have heard of these events.
        let facts = self.waits.holds.cx.facts.take();
        let Record { asked, asked_at, number, attempt, course, .. } = record;
        self.replay(Replay { number: Some(number), call: attempt });
        self.waits.acquire(asked_at, id, asked);
        self.carry(asked_at);
        match course {
            Course::Attempted => {}
            Course::Granted(granted) => self.grant_again(attempt, granted),
            Course::Claimed(claimed) => self.claim_again(id, attempt, claimed),
            Course::Released(claimed, released) => {
                self.claim_again(id, attempt, claimed);
                self.replay(Replay { number: None, call: released.call });
                self.waits.holds.drop_guard(released.at, id, number, released.report);
                self.carry(released.at);
            }
        }
        debug_assert!(self.waits.holds.cx.replay.is_none(), "a record has the calls of its events");
        self.waits.holds.cx.actions.truncate(told);
        self.waits.holds.cx.facts = facts;
    }

    fn replay(&mut self, replay: Replay) {
        self.waits.holds.cx.replay = Some(replay);
    }

    fn grant_again(&mut self, call: CallId, granted: Granted) {
        let purpose = self.waits.holds.cx.answered(call);
        let Some(Purpose::Wait(WaitCall::Attempt(attempt))) = purpose.certain("the attempt was sent again")
        else {
            return;
        };
        let answer = Answer::Granted { token: granted.token };
        self.waits.attempt_read(granted.at, call, &attempt, Ok(answer));
        self.carry(granted.at);
    }

    fn claim_again(&mut self, id: Id, call: CallId, Claimed { granted, at }: Claimed) {
        self.grant_again(call, granted);
        self.claim(at, id);
        self.carry(at);
    }

    /// Promotes a record whose time in the lane is over.
    pub(in crate::engine) fn promote_if_due(&mut self, now: Moment, id: Id) {
        if self.lane.records.get(id).is_some_and(|record| record.leaves_at <= now) {
            self.promote(id);
        }
    }

    /// Promotes the next record whose time in the lane is over. Others have a timer of their own, because a step fires a
    /// bounded number of timers.
    pub(in crate::engine) fn lane_due(&mut self, now: Moment) {
        self.lane.alarm.fired();
        if let Some(id) = self.lane.pop_due(now) {
            self.promote(id);
        }
        self.lane.arm(&mut self.waits.holds.cx.timers);
    }

    /// Closes the lane to all requests from now on. Nothing else changes for them, apart from the engine's timers.
    pub fn close_lane(&mut self) {
        self.promote_all();
        self.lane.is_closed = true;
    }

    /// Promotes all records, in the order of their tickets so that runs repeat. The order does not matter, because each record
    /// is brought to the machines with its own times.
    pub(in crate::engine) fn promote_all(&mut self) {
        for id in self.lane.records.sorted_keys() {
            self.promote(id);
        }
    }

    /// Promotes the record of a call.
    pub(in crate::engine) fn promote_call(&mut self, call: CallId) {
        if let Some(id) = self.waits.holds.cx.call_in_lane(call) {
            self.promote(id);
        }
    }
}
