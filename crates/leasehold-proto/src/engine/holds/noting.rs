//! The noting of facts about server holds: what each deciding function tells, in one line.
//!
//! Invariant: nothing here changes what the client holds or sends.

use crate::engine::base::certain::{Certain, HELD};
use crate::engine::base::keys::Number;
use crate::engine::facts::{Detail, Fact};
use crate::engine::holds::Holds;
use crate::engine::holds::hold::{Cause, Guard, ServerHold};
use crate::engine::interface::{LostReason, ReleaseFailure};
use crate::id::Id;
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::subject::Subject;

impl Holds {
    /// Notes a fact about a server hold, if facts of this detail are told.
    #[inline]
    fn note(
        &mut self,
        number: Number,
        detail: Detail,
        fact: impl FnOnce(&ServerHold, Subject, Moment) -> Fact,
    ) {
        if self.cx.facts.is_some() {
            self.note_now(number, detail, fact);
        }
    }

    // Without observers, a noting function costs its caller a comparison, and none of its stack.
    #[inline(never)]
    fn note_now(
        &mut self,
        number: Number,
        detail: Detail,
        fact: impl FnOnce(&ServerHold, Subject, Moment) -> Fact,
    ) {
        let told = self.cx.facts.as_ref().filter(|facts| facts.tells_all() || detail == Detail::Rare);
        let Some(now) = told.map(|facts| facts.now()) else { return };
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let first = hold.guards.iter().next().map(|guard| guard.id);
        let group = first.and_then(|first| self.cx.facts.as_ref()?.group_of(first));
        let fact = fact(hold, Subject { group, ..self.cx.subject_of(hold) }, now);
        self.cx.note(|facts| facts.push(fact));
    }

    /// Notes the end of one claimed hold, if facts of this detail are told. It has the group of its own acquire.
    #[inline(never)]
    fn note_end(
        &mut self,
        number: Number,
        guard: Id,
        detail: Detail,
        fact: impl FnOnce(&ServerHold, Subject, Moment) -> Fact,
    ) {
        let group = self.cx.facts.as_ref().and_then(|facts| facts.group_of(guard));
        self.note_now(number, detail, |hold, subject, now| fact(hold, Subject { group, ..subject }, now));
        self.cx.note(|facts| facts.hold_ended(guard));
    }

    /// Notes the end of a claimed hold that was not lost.
    #[inline]
    pub(in crate::engine) fn note_released(&mut self, number: Number, guard: &Guard, detached: bool) {
        if self.cx.facts.is_none() {
            return;
        }
        self.note_end(number, guard.id, Detail::All, |_, subject, now| Fact::Released {
            subject,
            hold: guard.id,
            held: now.since(guard.since()),
            detached,
        });
    }

    /// Notes the loss of the claimed holds among these guards.
    #[inline]
    pub(in crate::engine) fn note_lost<'a>(
        &mut self,
        number: Number,
        reason: LostReason,
        guards: impl Iterator<Item = &'a Guard>,
    ) {
        if self.cx.facts.is_none() {
            return;
        }
        for guard in guards {
            self.note_end(number, guard.id, Detail::Rare, |hold, subject, now| {
                let (held, late) = (now.since(guard.since()), now.since(hold.valid_until));
                Fact::Lost { subject, hold: guard.id, held, reason, late }
            });
        }
    }

    /// Notes that a renewal, sent at this time, was confirmed.
    #[inline]
    pub(in crate::engine) fn note_renewed(&mut self, number: Number, sent_at: Moment) {
        self.note(number, Detail::All, |hold, subject, now| {
            let left = (hold.remaining(now), hold.lease().duration());
            Fact::Renewed { subject, left, took: now.since(sent_at) }
        });
    }

    /// Notes that a renewal has failed.
    #[inline]
    pub(in crate::engine) fn note_not_renewed(&mut self, number: Number, error: &StoreError) {
        self.note(number, Detail::Rare, |hold, subject, now| {
            let guard = hold.guards.iter().next().map_or(Id(0), |guard| guard.id);
            let left = (hold.remaining(now), hold.lease().duration());
            let failures = hold.renew_failures.into();
            Fact::NotRenewed { subject, hold: guard, left, failures, error: error.kind }
        });
    }

    /// Notes once that a release is not confirmed.
    #[inline]
    pub(in crate::engine) fn note_unconfirmed(&mut self, number: Number, failure: &ReleaseFailure) {
        if !self.cx.facts.as_mut().is_some_and(|facts| facts.is_news(number)) {
            return;
        }
        self.note(number, Detail::Rare, |_, subject, _| Fact::Unconfirmed {
            subject,
            failure: failure.clone(),
        });
    }

    /// Notes the end of a release that is not confirmed, or of an undo.
    #[inline]
    pub(in crate::engine) fn note_end_of_release(
        &mut self,
        number: Number,
        outcome: &Result<bool, ReleaseFailure>,
    ) {
        if self.cx.facts.is_none() {
            return;
        }
        let cause = self.index.get(number).and_then(ServerHold::release).map(|release| release.cause);
        match (outcome, cause) {
            (Err(failure), Some(Cause::Release)) => self.note_unconfirmed(number, failure),
            (_, Some(cause)) => self.note_undone(number, cause, true),
            (_, None) => {}
        }
        self.cx.note(|facts| facts.release_ended(number));
    }

    /// Notes that an undo has begun, or has ended.
    #[inline]
    pub(in crate::engine) fn note_undone(&mut self, number: Number, cause: Cause, settled: bool) {
        if cause != Cause::Release {
            self.note(number, Detail::All, |_, subject, _| Fact::Undone { subject, settled });
        }
    }
}
