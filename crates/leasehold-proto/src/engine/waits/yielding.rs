//! Yielding: what a queue does beside a release of this client, with other clients in mind.
//!
//! Invariant: an attempt goes out before the answer to the own release only if no other client has waited for the name.
//!
//! # How it works
//! When the client's own waiters are next, their attempt goes out right behind the release, and no second round trip
//! separates them. If other clients listened to the release, the client stands back instead: it leaves the lock to them
//! for some milliseconds, or until one of them has released it (`turns`). A release of a primitive without
//! wake-ups has no listeners. The client pauses after each of them, so that the clients that poll find the lock free.

use std::time::Duration;

use crate::backoff;
use crate::engine::base::certain::{Certain, OPEN};
use crate::engine::base::keys::{Number, QueueId, Side};
use crate::engine::base::subscriptions::Listener;
use crate::engine::effect::Released;
use crate::engine::holds::hold::ServerHold;
use crate::engine::waits::Waits;
use crate::engine::waits::acquire::Acquire;
use crate::engine::waits::queue::Queue;
use crate::engine::{CallId, Id};
use crate::moment::Moment;

/// The time within which the message of an own release is expected. One that is lost hides another client's message for
/// that long, and one that comes later costs an attempt in vain.
const ECHO_WITHIN: Duration = Duration::from_millis(500);
/// The grants in a row after which a client without wake-ups pauses for as long as the waiters of other clients do, so
/// that each of those polls once while the lock is free.
const RUN: u32 = 16;

impl Waits {
    /// Goes on behind a release that was just sent.
    pub(in crate::engine) fn go_on_behind(
        &mut self,
        now: Moment,
        (id, number): (QueueId, Number),
        units: u32,
        speaks: bool,
    ) {
        if self.goes_on_behind_release(now, id, units) && speaks {
            self.expect_echoes(now, id, number);
        }
    }

    /// Goes on after a release that is answered, with an attempt for the next waiter, if none was sent behind the release.
    pub(in crate::engine) fn go_on_after(&mut self, now: Moment, released: Released) {
        let Released { queue: id, call, sent_at, confirmed_at, listeners } = released;
        let others = self.holds.cx.others_of(id, listeners);
        let attempted = self.has_attempt_behind(id, call);
        if let Some(queue) = self.holds.cx.names.queue_mut(id) {
            let leaves_alone = queue.server.leaves_alone() && !queue.server.takes_overtaking_of(call);
            self.holds.cx.names.turns_mut(id).note_listeners(others);
            if others > 0 && !attempted {
                self.stand_back(now, id, (sent_at, sent_at.since(confirmed_at)), others);
            } else if !attempted
                && !leaves_alone
                && !self.pause_after_release(now, id)
                && !self.leaves_share(now, id)
            {
                self.advance(now, id);
            }
        }
        self.holds.cx.names.end_use(id.name);
    }

    /// Expects no messages of a release that has sent none. One that was taken for them meanwhile was another client's, and
    /// an attempt that left before it may have been refused.
    pub(in crate::engine) fn expect_silence(&mut self, now: Moment, id: QueueId, messages: u32) {
        if self.holds.cx.names.queue_mut(id).is_some_and(|queue| queue.unexpect_echoes(messages)) {
            self.queue_heard(now, id, false);
        }
    }

    /// Notes that the client's own subscription will hear a release that was just sent.
    fn expect_echoes(&mut self, now: Moment, id: QueueId, number: Number) {
        let until = now + ECHO_WITHIN.min(self.holds.cx.settings.poll_interval);
        let messages = self.messages_of_release(id);
        if self.holds.cx.subscriptions.hears(Listener::Queue(id))
            && let Some(queue) = self.holds.cx.names.queue_mut(id)
        {
            queue.expect_echoes(now, messages, until);
            self.holds.expect_echoes(number, messages);
        }
    }

    /// Returns the number of messages of a release, one for each name.
    fn messages_of_release(&self, id: QueueId) -> u32 {
        u32::try_from(self.holds.cx.names.get(id.name).names()).unwrap_or(u32::MAX)
    }

    /// Sends the attempt of the next local waiter right behind the release, unless another client is likely to be next.
    /// Returns true if the queue does not need to hear of the release.
    fn goes_on_behind_release(&mut self, now: Moment, id: QueueId, units: u32) -> bool {
        let held_here = self.holds.held_here(now, id.name).is_some();
        let pauses =
            |(_, first): (Id, &Acquire)| first.terms.backoff.is_some() || first.terms.share.is_some();
        let polls = self.holds.cx.first_waiter(id).is_some_and(pauses);
        if polls || self.holds.cx.names.queue(id).is_none_or(Queue::is_empty) {
            return false;
        }
        let leaves_turns = self.holds.cx.leaves_turns(id);
        if leaves_turns || held_here || id.side == Side::Read {
            return leaves_turns;
        }
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain(OPEN) else { return false };
        queue.admit(units);
        if !queue.server.goes_behind_release() {
            // Another client is likely to be next. The server wakes this one's first waiter when it is next.
            self.listen_in_server_queue(now, id);
            return false;
        }
        // After an attempt that left before the release, the next one goes out when the release is answered.
        if queue.tries.call.is_some() || self.own_call_of_first(id).is_some() {
            return false;
        }
        self.go_ahead(now, id);
        let behind = self.own_call_of_first(id);
        if let Some(queue) = self.holds.cx.names.queue_mut(id) {
            queue.server.behind = behind;
        }
        true
    }

    /// Lets a queue whose first waiter came behind the own release sleep until that release is answered, if others wait
    /// too: the attempt would reach the server before theirs. Returns false if it need not.
    pub(in crate::engine) fn waits_for_own_release(&mut self, now: Moment, id: QueueId) -> bool {
        let leaving = self.holds.cx.names.leaving(id.name).filter(|_| id.side == Side::Main);
        // A release that has failed once may fail for as long as the store does, which the waiters have to find out.
        let is_first_call = |hold: &ServerHold| hold.failures == 0 && hold.call.is_some();
        let leaving = leaving.filter(|number| self.holds.get(*number).is_some_and(is_first_call));
        // The server orders the waiters of its own queues.
        let is_local = |(_, first): (Id, &Acquire)| !first.recipe().waiters.are_queued();
        let leaving = leaving.filter(|_| self.holds.cx.first_waiter(id).is_some_and(is_local));
        let Some(number) = leaving.filter(|_| self.holds.cx.leaves_turns(id)) else { return false };
        self.sleep_for(now, id, self.holds.cx.settings.poll_interval);
        let expected = self.holds.get(number).and_then(ServerHold::release).map(|release| release.echoes);
        if expected == Some(0) {
            self.expect_echoes(now, id, number);
        }
        true
    }

    /// Returns true if an attempt for the next waiter was sent after this call.
    fn has_attempt_behind(&self, id: QueueId, call: CallId) -> bool {
        let Some(queue) = self.holds.cx.names.queue(id) else { return false };
        queue.tries.call.max(self.own_call_of_first(id)) > Some(call)
    }

    /// Returns the attempt on its way that the first waiter of a queue makes for itself.
    fn own_call_of_first(&self, id: QueueId) -> Option<CallId> {
        self.holds.cx.first_waiter(id)?.1.tries()?.call
    }

    /// Pauses after a release if the first waiter can only poll. Returns false if it need not.
    fn pause_after_release(&mut self, now: Moment, id: QueueId) -> bool {
        let first = self.holds.cx.first_waiter(id).and_then(|(id, first)| Some((id, first.terms.backoff?)));
        let Some((first, backoff)) = first else { return false };
        let at_length = self.holds.cx.names.extend_run(id.name).is_multiple_of(RUN);
        let pause =
            if at_length { backoff.longest } else { backoff.after(0, self.holds.cx.varying_seed(first)) };
        self.sleep_for(now, id, pause);
        true
    }

    /// Leaves the name to the others after a release that they heard. A server tells its listeners in a fixed
    /// order, so two clients would take the lock alternately and the others never. So each other client gets a turn first,
    /// for at most the time that its turn takes if its section is as long as the last one here, or a few milliseconds.
    fn stand_back(&mut self, now: Moment, id: QueueId, (sent_at, section): (Moment, Duration), others: u32) {
        let trip = now.since(sent_at);
        let seed = self.holds.cx.varying_seed(Id(0));
        let others_take = (trip * 2 + section).saturating_mul(others - 1);
        let nap =
            (others_take + trip * 2 + backoff::spread(trip, seed)).min(self.holds.cx.settings.poll_interval);
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain(OPEN) else { return };
        queue.close(now);
        let until = self.holds.cx.names.turns_mut(id).begin(now, others - 1, now + nap);
        self.sleep_for(now, id, until.since(now));
    }
}
