//! The machine of the server holds.
//!
//! Invariant: it never sees waiters. What the parts above have to do is an [`Effect`](crate::engine::effect::Effect).

use crate::engine::base::context::Context;
use crate::engine::base::keys::{NameId, Number, Side, Sides};
use crate::engine::base::terms::Terms;
use crate::engine::holds::calls::HoldCall;
use crate::engine::holds::hold::{Cause, ServerHold};
use crate::engine::holds::index::Index;
use crate::id::{CallId, Id};
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::owner::Owner;
use crate::recipe::Recipe;
use crate::reply::Reply;

/// The server holds of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Holds {
    pub(in crate::engine) cx: Context,
    pub(in crate::engine::holds) index: Index,
}

impl Holds {
    pub(in crate::engine) fn new(cx: Context) -> Self {
        Self { cx, index: Index::default() }
    }

    pub(in crate::engine) fn get(&self, number: Number) -> Option<&ServerHold> {
        self.index.get(number)
    }

    pub(in crate::engine) fn get_mut(&mut self, number: Number) -> Option<&mut ServerHold> {
        self.index.get_mut(number)
    }

    /// Returns the hold of a guard.
    pub(in crate::engine) fn of_guard(&self, id: Id) -> Option<Number> {
        self.index.of_guard(id)
    }

    pub(in crate::engine) fn add_guard(&mut self, id: Id, number: Number) {
        self.index.add_guard(id, number);
    }

    pub(in crate::engine) fn sorted(&self) -> Vec<Number> {
        self.index.sorted()
    }

    /// Returns the number of releases that are not over, without undos.
    pub(in crate::engine) const fn releases(&self) -> u64 {
        self.index.releases()
    }

    /// Returns the number of holds that were released since the close, and of those whose release has no answer.
    pub(in crate::engine) const fn released_since_close(&self) -> (u64, u64) {
        self.index.since_close()
    }

    /// Returns true if no release and no undo is outstanding.
    pub(in crate::engine) const fn are_released(&self) -> bool {
        self.index.are_released()
    }

    /// Returns true if an undone acquire may come back.
    pub(in crate::engine) const fn has_undone(&self) -> bool {
        self.index.has_undone()
    }

    /// Returns true if this recipe is for the write side and the owner reads too. Renewals of the read hold keep the
    /// lock's key, and a write hold is a field in it that does not expire by itself.
    pub(in crate::engine) fn has_reader_beside(&self, name: NameId, recipe: &Recipe, owner: Owner) -> bool {
        let writes = recipe.companion.is_some() && recipe.held_side() == Side::Main;
        writes && self.cx.names.reader(name, owner).is_some()
    }

    pub(in crate::engine) fn holder_of(&self, name: NameId, side: Side, owner: Owner) -> Option<Number> {
        if side == Side::Read {
            return self.cx.names.reader(name, owner);
        }
        let owned = |number: &Number| self.index.get(*number).is_some_and(|hold| hold.owner == owner);
        self.cx.names.get(name).exclusives().find(owned)
    }

    /// Returns the hold that this client itself trusts and that keeps all others out.
    pub(in crate::engine) fn held_here(&mut self, now: Moment, name: NameId) -> Option<&mut ServerHold> {
        let number = self.cx.names.get(name).exclusive()?;
        self.index.get_mut(number).filter(|hold| !hold.remaining(now).is_zero())
    }

    /// Handles the answer to a call of a hold.
    pub(in crate::engine) fn answered(
        &mut self,
        now: Moment,
        call: CallId,
        purpose: HoldCall,
        result: Result<Reply, StoreError>,
    ) {
        match purpose {
            HoldCall::Renew(number, sent) => self.renewed(now, call, (number, sent), result),
            HoldCall::Probe(number, sent) => self.probe_answered(now, call, (number, sent), result),
            HoldCall::Change(number) => self.changed(now, call, number, result),
        }
    }

    /// Undoes what attempts under a wire owner have, or may have, left on the server.
    pub(in crate::engine) fn undo(
        &mut self,
        now: Moment,
        name: NameId,
        number: Number,
        terms: &Terms,
        (lease, queued, cause): (Lease, bool, Cause),
    ) {
        let subject = self.cx.names.get(name).subject(terms.recipe());
        let gone_by = subject.left_by(lease, now, queued);
        let hold = ServerHold::new(name, terms, lease, now);
        self.cx.names.add_use(name);
        self.index.insert(number, Box::new(hold));
        self.begin_release(now, number, gone_by, cause);
    }
}
