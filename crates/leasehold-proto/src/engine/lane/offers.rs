//! Offers: grants of the lane that callers take by themselves.
//!
//! Invariant: nothing happens to a record with an offer before its caller is asked whether it has taken the offer. So a
//! taken one counts as claimed, and one that nobody has taken is an unclaimed grant.
//!
//! # How it works
//! The driver asks for the offers in question before each step, under the engine's lock, and takes each of them back. If the
//! caller was faster, the driver says so first. The release of a hold is no question, because only its guard sends it.

use crate::engine::lane::hash_of;
use crate::engine::lane::record::{Claimed, Course, Granted};
use crate::engine::{Engine, Event, Grant, Id, Offer};
use crate::moment::Moment;

impl Engine {
    /// Returns the offer of a ticket, if its grant is one. Whoever makes the offer asks for the
    /// [offers in question](Self::offers_in_question) before each step from then on. A client whose observer hears of every
    /// grant has no offers, because a grant is told when it is claimed.
    #[must_use]
    pub fn offer(&self, ticket: Id) -> Option<Offer> {
        let record = self.lane.records.get(ticket)?;
        let Course::Granted(Granted { token, .. }) = record.course else { return None };
        if self.waits.holds.cx.facts.as_ref().is_some_and(|facts| facts.tells_all()) {
            return None;
        }
        let grant = Grant { wire: self.waits.holds.cx.wire(record.number), token };
        Some(Offer { grant, valid_until: record.valid_until(), until: record.leaves_at })
    }

    /// Returns the tickets whose offers do not outlast a step with this event. Each of them is
    /// [taken](Self::claim_taken), or is not taken any more. A promotion that learned only afterwards that an offer was
    /// taken would undo its hold as unclaimed.
    #[must_use]
    pub fn offers_in_question(&self, now: Moment, event: &Event) -> Vec<Id> {
        if self.lane.records.is_empty() {
            return Vec::new();
        }
        let concerned = match event {
            Event::Acquire(_, request) => self.lane.find(&request.subject, hash_of(&request.subject.name)),
            Event::SetMinHold(hold, _)
            | Event::Detach(hold)
            | Event::Beat(hold)
            | Event::Give { hold, .. }
            | Event::Ensure { hold, .. }
            | Event::Extend { hold, .. } => Some(*hold),
            Event::Close(_) | Event::Replaced(_) => return self.offers(),
            _ => None,
        };
        let due = self.lane.order.iter().take_while(|(leaves_at, _)| *leaves_at <= now).map(|(_, id)| *id);
        let mut asked: Vec<Id> = due.collect();
        asked.extend(concerned.filter(|id| !asked.contains(id)));
        asked.retain(|id| self.offer(*id).is_some());
        asked
    }

    /// Returns the tickets that have an offer.
    #[must_use]
    pub fn offers(&self) -> Vec<Id> {
        let tickets = self.lane.records.sorted_keys().into_iter();
        tickets.filter(|id| self.offer(*id).is_some()).collect()
    }

    /// Notes that the caller has taken an offer, which is a claim.
    pub fn claim_taken(&mut self, ticket: Id) {
        if let Some(record) = self.lane.records.get_mut(ticket)
            && let Course::Granted(granted) = record.course
        {
            // The engine does not know when the caller took it, so the hold counts from its grant.
            record.course = Course::Claimed(Claimed { granted, at: granted.at });
            let cx = &mut self.waits.holds.cx;
            let grant = Grant { wire: cx.wire(record.number), token: granted.token };
            cx.note(|facts| facts.acquired(ticket, grant));
        }
    }
}
