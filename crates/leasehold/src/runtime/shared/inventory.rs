//! The answer to operators who ask what a client holds and waits for: rows with the names on the server.
//!
//! Invariant: the state is locked for one page of rows at a time.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Moment;
use leasehold_proto::engine::Id;
use leasehold_proto::operate::Held;
use leasehold_proto::recipe::Holding;

use super::report::page;
use super::{Effects, Shared, State};
use crate::runtime::sync::MutexGuard;

impl Shared {
    /// Says what a hold is for, in place of what was said before.
    pub(crate) fn note(&self, hold: Id, note: Arc<str>) {
        // A forked process holds nothing.
        let Ok(mut state) = self.enter() else { return };
        let mut effects = Effects::default();
        state.settle_if_taken(hold, &mut effects);
        if state.holds.contains_key(&hold) {
            state.notes.insert(hold, note);
        }
        self.leave(state, effects);
    }

    /// Locks the state for a page of holds. The first page knows all offers that were taken.
    pub(super) fn lock_for_holds(&self, after: Id) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if after == Id(0) {
            let mut effects = Effects::default();
            state.settle_all_taken(&mut effects);
            debug_assert!(effects.idle.is_empty(), "a hold has one signal");
        }
        state
    }

    /// Returns the holds behind this id with the times of their claims, at most a page, and the id behind which the next
    /// page begins.
    pub(in crate::runtime) fn hold_ages(&self, after: Id) -> (Vec<(Moment, Id)>, Option<Id>) {
        let state = self.lock_for_holds(after);
        let now = self.now();
        page(state.holds_after(after), |id| Some((state.engine.hold_info(id, now)?.since, id)))
    }

    /// Returns the row of a hold.
    pub(in crate::runtime) fn held_row(&self, id: Id) -> Option<Held> {
        let state = self.lock();
        let now = self.now();
        state.held_row(id, now)
    }

    /// Returns the rows of the holds behind this id: of all names, or of one.
    pub(in crate::runtime) fn held_rows(
        &self,
        after: Id,
        name: Option<&str>,
    ) -> (Vec<(Id, Held)>, Option<Id>) {
        let state = self.lock_for_holds(after);
        let now = self.now();
        page(state.holds_after(after), |id| {
            let row = state.held_row(id, now)?;
            let Some(name) = name.filter(|name| *name != row.name) else { return Some((id, row)) };
            // One script may have acquired several names, and each is a name of the hold.
            let subject = state.engine.hold_info(id, now)?.subject;
            let is_other = subject.others.iter().any(|other| other.as_str() == name);
            is_other.then(|| (id, Held { name: name.to_owned(), ..row }))
        })
    }

    /// Returns the names, the kinds and the begins of the waiting acquires behind this id: of all names, or of one.
    pub(in crate::runtime) fn wait_ages(
        &self,
        after: Id,
        name: Option<&str>,
    ) -> (Vec<(String, &'static str, Moment)>, Option<Id>) {
        let state = self.lock();
        page(state.waits_after(after), |id| {
            let wait = state.engine.wait_info(id)?;
            let subject = wait.subject;
            let is_asked_for = name.is_none_or(|name| name == subject.name.as_str());
            is_asked_for.then(|| (subject.name.as_str().to_owned(), subject.recipe.kind, wait.since))
        })
    }
}

impl State {
    /// Returns the ids of the holds behind this id.
    pub(super) fn holds_after(&self, after: Id) -> impl Iterator<Item = Id> {
        self.holds.range((Bound::Excluded(after), Bound::Unbounded)).map(|(id, _)| *id)
    }

    /// Returns the ids of the futures that wait, behind this id.
    pub(super) fn waits_after(&self, after: Id) -> impl Iterator<Item = Id> {
        let first = (Bound::Excluded((after, Id(u64::MAX))), Bound::Unbounded);
        self.listeners.range(first).map(|((id, _), _)| *id)
    }

    /// Returns the row of a hold.
    fn held_row(&self, id: Id, now: Moment) -> Option<Held> {
        let hold = self.engine.hold_info(id, now)?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let has_end = hold.subject.recipe.holding != Holding::Permits;
        Some(Held {
            name: hold.subject.name.as_str().to_owned(),
            kind: hold.subject.recipe.kind.to_owned(),
            owner: hold.wire.to_string(),
            held_ms: millis(now.since(hold.since)),
            left_ms: has_end.then(|| millis(hold.remaining)),
            is_renewed: hold.is_renewed,
            token: hold.token,
            note: self.notes.get(&id).map(ToString::to_string).unwrap_or_default(),
            lease_ms: has_end.then(|| hold.lease.as_millis()),
        })
    }
}
