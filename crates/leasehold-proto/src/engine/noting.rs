//! The noting of facts: what each deciding function tells, in one line.
//!
//! Invariant: nothing here changes what the engine holds, waits for or sends.

use std::time::Duration;

use super::Engine;
use super::base::certain::{Certain, HELD};
use super::base::keys::{Number, QueueId};
use super::facts::{Detail, Fact, Facts};
use super::holds::hold::{Cause, Guard, ServerHold};
use super::interface::{LostReason, ReleaseFailure};
use super::tickets::ticket::Ticket;
use crate::id::Id;
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::subject::Subject;

impl Engine {
    /// Begins to note facts, which [`take_facts`](Self::take_facts) returns. A name that is waited for longer than the
    /// patience has a fact of its own, once in each such time.
    pub fn observe(&mut self, patience: Duration, detail: Detail) {
        self.cx.facts = Some(Box::new(Facts::new(patience, detail)));
    }

    /// Moves the facts since the last call to the end of this list, in their order.
    pub fn take_facts(&mut self, into: &mut Vec<Fact>) {
        self.cx.note(|facts| facts.take(into));
    }

    /// Returns true if there are facts to take.
    #[must_use]
    pub fn has_facts(&self) -> bool {
        self.cx.facts.as_ref().is_some_and(|facts| !facts.is_empty())
    }

    /// Notes a request.
    #[inline]
    pub(super) fn note_asked(&mut self, ticket: Id, subject: &Subject) {
        self.cx.note(|facts| {
            // A place in the engine is for a name, and knows no group.
            if facts.tells_all() || subject.group.is_some() {
                facts.asked(ticket, subject, facts.now());
            }
        });
    }

    /// Notes the request of an acquire that waits or fails, if it is not known yet, as where only what is rare is told.
    #[inline]
    pub(super) fn note_known(&mut self, ticket: Id) {
        if self.cx.facts.is_some() {
            self.note_request_of(ticket);
        }
    }

    #[inline(never)]
    fn note_request_of(&mut self, ticket: Id) {
        if let Some(facts) = &mut self.cx.facts
            && !facts.knows(ticket)
            && let Some(Ticket::Acquire(acquire)) = self.tickets.get(ticket)
        {
            facts.asked(ticket, &self.places.get(acquire.place).subject(acquire.recipe()), acquire.since);
        }
    }

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
        let Some(hold) = self.holds.get(number).certain(HELD) else { return };
        let first = hold.guards.iter().next().map(|guard| guard.id);
        let group = first.and_then(|first| self.cx.facts.as_ref()?.group_of(first));
        let fact = fact(hold, Subject { group, ..self.subject_of(hold) }, now);
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

    /// Notes that a waiter waits.
    #[inline]
    pub(super) fn note_waiting(&mut self, ticket: Id) {
        self.note_known(ticket);
        self.cx.note(|facts| facts.waits(ticket));
    }

    /// Notes that the first waiter of a queue waits.
    #[inline]
    pub(super) fn note_first_waits(&mut self, queue: QueueId) {
        if self.cx.facts.is_some()
            && let Some((first, _)) = self.first_waiter(queue)
        {
            self.note_waiting(first);
        }
    }

    /// Notes the end of a claimed hold that was not lost.
    #[inline]
    pub(super) fn note_released(&mut self, number: Number, guard: &Guard, detached: bool) {
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
    pub(super) fn note_lost<'a>(
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
    pub(super) fn note_renewed(&mut self, number: Number, sent_at: Moment) {
        self.note(number, Detail::All, |hold, subject, now| {
            let left = (hold.remaining(now), hold.lease().duration());
            Fact::Renewed { subject, left, took: now.since(sent_at) }
        });
    }

    /// Notes that a renewal has failed.
    #[inline]
    pub(super) fn note_not_renewed(&mut self, number: Number, error: &StoreError) {
        self.note(number, Detail::Rare, |hold, subject, now| {
            let guard = hold.guards.iter().next().map_or(Id(0), |guard| guard.id);
            let left = (hold.remaining(now), hold.lease().duration());
            let failures = hold.renew_failures.into();
            Fact::NotRenewed { subject, hold: guard, left, failures, error: error.kind }
        });
    }

    /// Notes once that a release is not confirmed.
    #[inline]
    pub(super) fn note_unconfirmed(&mut self, number: Number, failure: &ReleaseFailure) {
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
    pub(super) fn note_end_of_release(&mut self, number: Number, outcome: &Result<bool, ReleaseFailure>) {
        if self.cx.facts.is_none() {
            return;
        }
        let cause = self.holds.get(number).and_then(ServerHold::release).map(|release| release.cause);
        match (outcome, cause) {
            (Err(failure), Some(Cause::Release)) => self.note_unconfirmed(number, failure),
            (_, Some(cause)) => self.note_undone(number, cause, true),
            (_, None) => {}
        }
        self.cx.note(|facts| facts.release_ended(number));
    }

    /// Notes that an undo has begun, or has ended.
    #[inline]
    pub(super) fn note_undone(&mut self, number: Number, cause: Cause, settled: bool) {
        if cause != Cause::Release {
            self.note(number, Detail::All, |_, subject, _| Fact::Undone { subject, settled });
        }
    }
}
