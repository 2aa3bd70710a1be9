//! Undone acquires, which a server that takes over may bring back.
//!
//! Invariant: the undo of an acquire of unknown outcome is repeated after each change of the server, and when the server has
//! more places of this client in a queue than there are waiters, for as long as the acquire can come back.
//!
//! # How it works
//! A replica that has received an acquire, and not its undo, brings the acquire back when it takes over. No caller wants
//! that hold, and it would keep others waiting for a lease. So the wire owner stays known for a lease after the answer to
//! its undo. Each undo says that it is uncertain, so the undo of permits that finds none leaves its marker for an hour.

use crate::engine::base::certain::{Certain, HELD};
use crate::engine::base::keys::Number;
use crate::engine::effect::Effect;
use crate::engine::holds::Holds;
use crate::engine::holds::hold::{Cause, Phase, Release, ServerHold};
use crate::marker::MARKED_FOR;
use crate::moment::Moment;

/// The most undone acquires that are kept, so that an outage with many waiters costs about 5 MB (530 bytes a hold at most,
/// `tests/costs/memory.rs`). Later ones end with the answer to their undo.
const UNDONE_MAX: usize = 10_000;

impl Holds {
    /// Keeps an acquire whose undo was answered, for as long as a replica can have it.
    pub(in crate::engine) fn keep_undone(&mut self, now: Moment, number: Number, release: &Release) {
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let until = match release.cause {
            Cause::Returned => release.gone_by,
            _ => self.can_return_until(now, hold),
        };
        if self.cx.closed || !self.index.begin_undone(UNDONE_MAX) {
            return;
        }
        if let Some(hold) = self.index.get_mut(number) {
            (hold.phase, hold.again_at) = (Phase::Undone, until);
        }
        self.arm(number);
        self.cx.raise(Effect::Undone(number));
    }

    /// Returns the time up to which a replica can have an acquire that ran by now.
    fn can_return_until(&self, now: Moment, hold: &ServerHold) -> Moment {
        match self.cx.subject_of(hold).left_by(hold.longest, now, true) {
            Moment::NEVER => now + MARKED_FOR,
            until => until,
        }
    }

    /// Undoes an acquire at a server that may have brought it back.
    pub(in crate::engine) fn undo_again(&mut self, now: Moment, number: Number) {
        let Some(gone_by) = self.index.get(number).map(|hold| hold.again_at) else { return };
        self.end_phase(number);
        if let Some(hold) = self.index.get_mut(number) {
            // It has no section, by which the client would stand back for others.
            hold.confirmed_at = now;
        }
        self.begin_release(now, number, gone_by, Cause::Returned);
    }

    /// Forgets an undone acquire of a closed client.
    pub(in crate::engine) fn close_undone(&mut self, number: Number) {
        if self.index.get(number).is_some_and(ServerHold::is_undone) {
            self.leave_to_lease(number);
        }
    }
}
