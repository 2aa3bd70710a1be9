//! What a client holds and waits for, for its operators.
//!
//! Invariant: reading changes nothing. Each question is about one id, so a caller that asks for all of them can let others
//! have the engine in between.

use super::Engine;
use super::base::keys::{QueueId, Sides};
use super::interface::{HoldInfo, WaitInfo};
use super::tickets::ticket::Ticket;
use crate::id::Id;
use crate::moment::Moment;
use crate::owner::{Owner, WireOwner};
use crate::subject::Subject;

impl Engine {
    /// Returns what is known of a claimed hold.
    #[must_use]
    pub fn hold_info(&self, hold: Id, now: Moment) -> Option<HoldInfo> {
        if let Some(record) = self.lane.of_guard(hold) {
            let (since, token) = record.claimed()?;
            let terms = &record.asked().terms;
            return Some(HoldInfo {
                subject: record.asked().subject.clone(),
                wire: self.waits.holds.cx.wire(record.number()),
                since,
                remaining: record.valid_until().since(now),
                lease: terms.lease,
                is_renewed: terms.watchdog,
                token,
            });
        }
        let number = self.waits.holds.of_guard(hold)?;
        let server_hold = self.waits.holds.get(number)?;
        let guard = server_hold.guards.iter().find(|guard| guard.id == hold && guard.is_claimed())?;
        Some(HoldInfo {
            subject: self.waits.holds.cx.subject_of(server_hold),
            wire: self.waits.holds.cx.wire(number),
            since: guard.since(),
            remaining: server_hold.remaining(now),
            lease: server_hold.lease(),
            is_renewed: server_hold.is_watched(),
            token: server_hold.tokens.present(),
        })
    }

    /// Returns what is known of an acquire that waits or is on its way.
    #[must_use]
    pub fn wait_info(&self, ticket: Id) -> Option<WaitInfo> {
        if let Some(record) = self.lane.of_waiter(ticket) {
            return Some(WaitInfo { subject: record.asked().subject.clone(), since: record.asked_at() });
        }
        let Some(Ticket::Acquire(acquire)) = self.waits.holds.cx.tickets.get(ticket) else { return None };
        acquire.waiter()?;
        Some(WaitInfo { subject: self.waits.holds.cx.subject(acquire), since: acquire.since })
    }

    /// Returns the wire owner of the attempts for this owner, if it is the first that waits. It stays the same until a
    /// grant, because a refused attempt leaves nothing on the server.
    #[must_use]
    pub fn wire_owner_of_wait(&self, subject: &Subject, owner: Owner) -> Option<WireOwner> {
        let cx = &self.waits.holds.cx;
        let id = QueueId { name: cx.names.find(subject)?, side: subject.recipe.side() };
        let queue = cx.names.queue(id)?;
        let Some(Ticket::Acquire(acquire)) = cx.tickets.get(queue.first()?) else { return None };
        let used = queue.tries.wire.as_ref().filter(|_| acquire.owner == owner)?;
        Some(cx.wire(used.number))
    }

    /// Returns the number of channels on which the client listens.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.waits.holds.cx.subscriptions.len()
    }
}
