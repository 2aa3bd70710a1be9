//! The waiters of a name, as all parts see them: who is first in a queue, and who else listens.
//!
//! Invariant: nothing here changes what the client holds, waits for or sends.

use crate::engine::base::context::Context;
use crate::engine::base::keys::QueueId;
use crate::engine::base::subscriptions::Listener;
use crate::engine::holds::hold::ServerHold;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::acquire::Acquire;
use crate::engine::waits::turns::Turns;
use crate::engine::{Id, Subject};

impl Context {
    pub(in crate::engine) fn subject_of(&self, hold: &ServerHold) -> Subject {
        self.names.get(hold.name).subject(hold.recipe())
    }

    /// Returns the first waiter of a queue.
    pub(in crate::engine) fn first_waiter(&self, id: QueueId) -> Option<(Id, &Acquire)> {
        self.names.queue(id)?.waiters(&self.tickets).next()
    }

    /// Returns all waiters of a queue, in their order.
    pub(in crate::engine) fn waiters_in(&self, id: QueueId) -> Vec<Id> {
        let queue = self.names.queue(id);
        queue.into_iter().flat_map(|queue| queue.waiters(&self.tickets)).map(|(id, _)| id).collect()
    }

    pub(in crate::engine) fn subject(&self, acquire: &Acquire) -> Subject {
        self.names.get(acquire.name).subject(acquire.recipe())
    }

    /// Returns the number of others to which a release is left: the other clients that heard it, or one for this client's
    /// other queues on the same channels. These share one subscription, and make their attempts at once, so they need no
    /// time of their own beside that of another client.
    pub(in crate::engine) fn others_of(&self, id: QueueId, listeners: u32) -> u32 {
        let own = u32::from(self.subscriptions.is_listening(Listener::Queue(id)));
        let rivals = u32::from(listeners > 0 && self.has_rivals(id));
        listeners.saturating_sub(own).max(rivals)
    }

    /// Returns true if this client has other listeners for what a queue waits for: a multi-lock beside a lock, readers
    /// beside writers. A queue leaves them their turns as it does with another client's, since they would never get the
    /// name between its own waiters.
    pub(in crate::engine) fn has_rivals(&self, id: QueueId) -> bool {
        let own = Listener::Queue(id);
        let is_in_queue = |waiter: Id| {
            self.acquire_of(waiter).is_some_and(|acquire| acquire.queue() == id && acquire.is_linked())
        };
        let is_rival = |listener: Listener| match listener {
            Listener::Queue(_) => true,
            Listener::Waiter(waiter) => !is_in_queue(waiter),
        };
        let listened = self.subscriptions.channels_of(own);
        if !listened.is_empty() {
            return self.subscriptions.has_beside(own, listened, is_rival);
        }
        self.first_waiter(id).is_some_and(|(_, first)| {
            let channels = self.subject(first).channels(self.no_wire());
            self.subscriptions.has_beside(own, &channels, is_rival)
        })
    }

    /// Returns true if others waited for the name at the last release, or another queue of this client does now.
    pub(in crate::engine) fn leaves_turns(&self, id: QueueId) -> bool {
        self.names.turns(id).is_some_and(Turns::have_others) || self.has_rivals(id)
    }

    /// Notes a request.
    #[inline]
    pub(in crate::engine) fn note_asked(&mut self, ticket: Id, subject: &Subject) {
        self.note(|facts| {
            // The state of a name knows no group.
            if facts.tells_all() || subject.group.is_some() {
                facts.asked(ticket, subject, facts.now());
            }
        });
    }

    /// Notes the request of an acquire that waits or fails, if it is not known yet, as where only what is rare is told.
    #[inline]
    pub(in crate::engine) fn note_known(&mut self, ticket: Id) {
        if self.facts.is_some() {
            self.note_request_of(ticket);
        }
    }

    #[inline(never)]
    fn note_request_of(&mut self, ticket: Id) {
        if let Some(facts) = &mut self.facts
            && !facts.knows(ticket)
            && let Some(Ticket::Acquire(acquire)) = self.tickets.get(ticket)
        {
            facts.asked(ticket, &self.names.get(acquire.name).subject(acquire.recipe()), acquire.since);
        }
    }

    /// Notes that a waiter waits.
    #[inline]
    pub(in crate::engine) fn note_waiting(&mut self, ticket: Id) {
        self.note_known(ticket);
        if let Some(facts) = &mut self.facts {
            let ticket_of = self.tickets.get(ticket);
            let stands_by = matches!(ticket_of, Some(Ticket::Acquire(acquire)) if acquire.terms.stands_by);
            facts.waits(ticket, stands_by);
        }
    }

    /// Notes that the first waiter of a queue waits.
    #[inline]
    pub(in crate::engine) fn note_first_waits(&mut self, queue: QueueId) {
        if self.facts.is_some()
            && let Some((first, _)) = self.first_waiter(queue)
        {
            self.note_waiting(first);
        }
    }
}
