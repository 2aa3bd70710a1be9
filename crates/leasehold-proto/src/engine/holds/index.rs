//! The server holds of a client, by their wire owner and by their guards.

use crate::engine::base::keys::Number;
use crate::engine::base::table::Table;
use crate::engine::holds::hold::{Cause, ServerHold};
use crate::id::Id;

/// The server holds by their wire owner, and the wire owners by the guard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Index {
    holds: Table<Number, Box<ServerHold>>,
    guards: Table<Id, Number>,
    /// The number of holds that are being released, by a release that counts for a close, and of undos.
    releasing: (u64, u64),
    /// The number of undone acquires that may come back.
    undone: usize,
    /// The releases since the client closed: those that the server confirmed, and those that it never answered.
    since_close: (u64, u64),
}

impl Index {
    pub(in crate::engine) fn get(&self, number: Number) -> Option<&ServerHold> {
        self.holds.get(number).map(|hold| &**hold)
    }

    pub(in crate::engine) fn get_mut(&mut self, number: Number) -> Option<&mut ServerHold> {
        self.holds.get_mut(number).map(|hold| &mut **hold)
    }

    pub(in crate::engine) fn insert(&mut self, number: Number, hold: Box<ServerHold>) {
        let before = self.holds.insert(number, hold);
        debug_assert!(before.is_none(), "wire owner {number:?} is used twice");
    }

    pub(in crate::engine) fn remove(&mut self, number: Number) -> Option<Box<ServerHold>> {
        self.holds.remove(number)
    }

    /// Returns the hold of a guard.
    pub(in crate::engine) fn of_guard(&self, id: Id) -> Option<Number> {
        self.guards.get(id).copied()
    }

    pub(in crate::engine) fn add_guard(&mut self, id: Id, number: Number) {
        self.guards.insert(id, number);
    }

    pub(in crate::engine) fn remove_guard(&mut self, id: Id) -> Option<Number> {
        self.guards.remove(id)
    }

    pub(in crate::engine) fn sorted(&self) -> Vec<Number> {
        self.holds.sorted_keys()
    }

    pub(in crate::engine) const fn begin_release(&mut self, cause: Cause) {
        match cause {
            Cause::Release => self.releasing.0 += 1,
            Cause::UnseenGrant | Cause::UnknownAcquire | Cause::Returned => self.releasing.1 += 1,
        }
    }

    pub(in crate::engine) const fn end_release(&mut self, cause: Cause) {
        match cause {
            Cause::Release => self.releasing.0 -= 1,
            Cause::UnseenGrant | Cause::UnknownAcquire | Cause::Returned => self.releasing.1 -= 1,
        }
    }

    /// Counts a hold whose release is over since the close.
    pub(in crate::engine) const fn count_since_close(&mut self, confirmed: bool) {
        if confirmed {
            self.since_close.0 += 1;
        } else {
            self.since_close.1 += 1;
        }
    }

    /// Returns the number of holds that were released since the close, and of those whose release has no answer.
    pub(in crate::engine) const fn since_close(&self) -> (u64, u64) {
        self.since_close
    }

    /// Counts an undone acquire that may come back. Returns false if there are too many.
    pub(in crate::engine) const fn begin_undone(&mut self, most: usize) -> bool {
        let has_room = self.undone < most;
        self.undone += has_room as usize;
        has_room
    }

    pub(in crate::engine) const fn end_undone(&mut self) {
        self.undone -= 1;
    }

    /// Returns true if an undone acquire may come back.
    pub(in crate::engine) const fn has_undone(&self) -> bool {
        self.undone > 0
    }

    /// Returns the number of releases that are not over, without undos.
    pub(in crate::engine) const fn releases(&self) -> u64 {
        self.releasing.0
    }

    /// Returns true if no release and no undo is outstanding.
    pub(in crate::engine) const fn are_released(&self) -> bool {
        self.releasing.0 + self.releasing.1 == 0
    }
}
