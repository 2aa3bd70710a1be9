//! Undone acquires, which a server that takes over may bring back.
//!
//! Invariant: the undo of an acquire of unknown outcome is repeated after each change of the server, and when the server has
//! more places of this client in a queue than there are waiters, for as long as the acquire can come back.
//!
//! # How it works
//! A replica that has received an acquire, and not its undo, brings the acquire back when it takes over. No caller wants
//! that hold, and it would keep others waiting for a lease. So the wire owner stays known for a lease after the answer to
//! its undo. Each undo says that it is uncertain, so the undo of permits that finds none leaves its marker for an hour.

use crate::engine::Engine;
use crate::engine::base::certain::{Certain, HELD};
use crate::engine::base::keys::{Number, PlaceId};
use crate::engine::holds::hold::{Cause, Phase, Release, ServerHold};
use crate::engine::passing::checks::Check;
use crate::marker::MARKED_FOR;
use crate::moment::Moment;

/// The most undone acquires that are kept. Later ones end with the answer to their undo.
const UNDONE_MAX: usize = 10_000;

impl Engine {
    /// Keeps an acquire whose undo was answered, for as long as a replica can have it.
    pub(in crate::engine) fn keep_undone(&mut self, now: Moment, number: Number, release: &Release) {
        let Some(hold) = self.holds.get(number).certain(HELD) else { return };
        let until = match release.cause {
            Cause::Returned => release.gone_by,
            _ => self.can_return_until(now, hold),
        };
        if self.closing.is_some() || !self.holds.begin_undone(UNDONE_MAX) {
            return;
        }
        if let Some(hold) = self.holds.get_mut(number) {
            (hold.phase, hold.again_at) = (Phase::Undone, until);
        }
        if self.checks.after_undo.remove(&number) {
            return self.undo_again(now, number);
        }
        self.arm(number);
    }

    /// Returns the time up to which a replica can have an acquire that ran by now.
    fn can_return_until(&self, now: Moment, hold: &ServerHold) -> Moment {
        match self.subject_of(hold).left_by(hold.longest, now, true) {
            Moment::NEVER => now + MARKED_FOR,
            until => until,
        }
    }

    /// Undoes an acquire at a server that may have brought it back.
    pub(in crate::engine) fn undo_again(&mut self, now: Moment, number: Number) {
        let Some(gone_by) = self.holds.get(number).map(|hold| hold.again_at) else { return };
        self.end_phase(number);
        if let Some(hold) = self.holds.get_mut(number) {
            // It has no section, by which the client would stand back for others.
            hold.confirmed_at = now;
        }
        self.begin_release(now, number, gone_by, Cause::Returned);
    }

    /// Undoes the acquires of a place again. One that a frozen server ran after its undo waits in the queue there, and the
    /// client's signs of life would keep it.
    pub(in crate::engine) fn undo_strays(&mut self, now: Moment, place: PlaceId) {
        if !self.holds.has_undone() || !self.checks.next.is_empty() {
            return;
        }
        let undone = |number: &Number| {
            self.holds.get(*number).is_some_and(|hold| hold.place == place && hold.is_undone())
        };
        let strays = self.holds.sorted().into_iter().filter(undone).map(Check::Hold).collect();
        self.begin_checks(now, strays);
    }

    /// Forgets an undone acquire of a closed client.
    pub(in crate::engine) fn close_undone(&mut self, number: Number) {
        if self.holds.get(number).is_some_and(ServerHold::is_undone) {
            self.leave_to_lease(number);
        }
    }
}
