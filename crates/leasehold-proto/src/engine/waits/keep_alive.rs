//! Keep-alives: the waiters of this client in a queue that the server keeps, of a fair lock or a FIFO semaphore.
//!
//! Invariant: the server decides who is next. Each waiter has a place of its own there, which it gets by an attempt of
//! its own. After that only a waiter that can be next makes attempts.
//!
//! # How it works
//! One call per queue and interval shows the server that all waiters of the queue are alive, and returns the waiter
//! that can acquire now. A long queue is shown window by window, and its places move while waiters are served. If the
//! calls find fewer waiters than the queue has, the server has lost some of them, and each makes an attempt again. A
//! single waiter makes an attempt instead of the call.
//!
//! The first waiters listen, some at a time, so that a hand-over costs no subscription of its own. While this client
//! itself holds the lock, its waiters need none: the first one's attempt goes out behind the release. Once the lock has
//! been held for a while the first one listens nevertheless, since another client may free the lock by force. If an attempt
//! behind a release was refused, because another client's waiter is before it, the next releases go out alone.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Id;
use crate::engine::base::certain::{Certain, OPEN, WAITING};
use crate::engine::base::context::Purpose;
use crate::engine::base::keys::{Number, QueueId};
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::terms::Terms;
use crate::engine::base::timers::Timer;
use crate::engine::effect::Effect;
use crate::engine::holds::hold::{Cause, ServerHold};
use crate::engine::waits::Waits;
use crate::engine::waits::acquire::{Acquire, Waiter};
use crate::engine::waits::calls::WaitCall;
use crate::engine::waits::queue::Queue;
use crate::engine::waits::server_queue::{KeepAlive, Shown};
use crate::id::CallId;
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::owner::WireOwner;
use crate::recipe::KeepAliveArgs;
use crate::reply::Reply;

/// The number of waiters that begin to listen together: one subscription for 16 hand-overs, and few channels for a long
/// queue.
const LISTENERS: usize = 16;
/// The time after which the first waiter of a queue listens although this client itself holds the lock. Most locks are
/// released before, so a hand-over inside a client costs no subscription.
const LISTEN_AFTER: Duration = Duration::from_millis(50);

impl Waits {
    /// Makes attempts for the first waiters of a queue, unless this client itself holds the lock.
    pub(in crate::engine) fn advance_server_queue(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue(id).certain(OPEN) else { return };
        let mut waiters = queue.waiters(&self.holds.cx.tickets);
        let Some((first, acquire)) = waiters.next() else { return };
        let exclusive = acquire.recipe().holding.is_exclusive();
        let room = if exclusive { 0 } else { queue.room_for_extra() as usize };
        let extra = waiters.take(room).filter(|(_, acquire)| !acquire.is_attempting());
        let extra: Vec<Id> = extra.map(|(id, _)| id).collect();
        if exclusive && self.holds.held_here(now, id.name).is_some() {
            return;
        }
        for id in std::iter::once(first).chain(extra) {
            self.attempt_alone(now, id);
        }
    }

    /// Lets a waiter rest that the server has queued. Returns false if the waiter is in no queue that is kept alive as
    /// a whole.
    pub(in crate::engine) fn rest_in_server_queue(&mut self, now: Moment, id: Id) -> bool {
        let Some(acquire) = self.holds.cx.acquire_of(id).certain(WAITING) else { return false };
        if !acquire.is_linked() || acquire.recipe().keep_alive.is_none() {
            return false;
        }
        let (queue, interval) = (acquire.queue(), self.calls_every(acquire));
        if let Some(waiting) = self.holds.cx.names.queue_mut(queue) {
            waiting.close(now);
            if !waiting.server.has_call() && !waiting.server.alarm.is_set() {
                waiting.server.shows_at = now + interval;
                let at = now + interval.min(LISTEN_AFTER);
                waiting.server.alarm.set(&mut self.holds.cx.timers, Timer::KeepAlive(queue), at);
            }
        }
        self.listen_in_server_queue(now, queue);
        true
    }

    /// Lets the first waiters of a queue listen, if the very first one does not.
    pub(in crate::engine) fn listen_in_server_queue(&mut self, now: Moment, id: QueueId) {
        let Some((first, acquire)) = self.holds.cx.first_waiter(id) else { return };
        if acquire.recipe().keep_alive.is_none() {
            return;
        }
        let shared = self.channels_are_shared(acquire);
        let listener = if shared { Listener::Queue(id) } else { Listener::Waiter(first) };
        let exclusive = acquire.recipe().holding.is_exclusive();
        let held_here = exclusive && self.holds.held_here(now, id.name).is_some();
        let Some(queue) = self.holds.cx.names.queue(id).certain(OPEN) else { return };
        let listens =
            self.holds.cx.subscriptions.is_listening(listener) && (shared || !queue.server.unordered);
        if held_here || listens {
            return;
        }
        let waiters = queue.waiters(&self.holds.cx.tickets).take(if shared { 1 } else { LISTENERS });
        let listeners: Vec<_> = waiters
            .filter_map(|(waiter, acquire)| {
                let number = acquire.tries()?.wire.as_ref()?.number;
                let channels = self.holds.cx.subject(acquire).channels(self.holds.cx.wire(number));
                Some((if shared { listener } else { Listener::Waiter(waiter) }, channels))
            })
            .collect();
        for (listener, channels) in listeners {
            self.listen(now, listener, channels);
        }
    }

    /// Returns true if all waiters of a queue listen to the same channels.
    fn channels_are_shared(&self, acquire: &Acquire) -> bool {
        let subject = self.holds.cx.subject(acquire);
        let [one, other] =
            [1, 2].map(|number| subject.channels(WireOwner::new(self.holds.cx.client, number)));
        one == other
    }

    /// Wakes a waiter whose subscription is confirmed. In a queue of the server only the first one makes an attempt,
    /// since it alone can be next, if the order is known.
    pub(in crate::engine) fn wake_waiter(&mut self, now: Moment, id: Id) {
        let Some(acquire) = self.holds.cx.acquire_of(id).certain(WAITING) else { return };
        let queue = acquire.queue();
        let in_server_queue = acquire.recipe().keep_alive.is_some() && acquire.is_linked();
        let is_next = |queue: &Queue| queue.server.unordered || queue.first() == Some(id);
        if !in_server_queue || self.holds.cx.names.queue(queue).is_some_and(is_next) {
            self.attempt_alone(now, id);
        }
    }

    /// Goes on with a queue whose waiter was granted. A grant that leaves permits for the next waiter sends a message, so
    /// no attempt is made before. `heard` is true if a message came before the answer, and may have been that one.
    pub(in crate::engine) fn server_queue_granted(
        &mut self,
        now: Moment,
        id: QueueId,
        sent_at: Moment,
        heard: bool,
    ) {
        let Some(queue) = self.holds.cx.names.queue_mut(id) else { return };
        queue.widen(sent_at);
        self.listen_in_server_queue(now, id);
        if heard {
            self.wake_up(now, Listener::Queue(id));
        }
    }

    /// Listens for the first waiter of a queue whose lock this client itself has held for a while. Only a forced unlock
    /// sends it a message then, and a release of this client is not waited for.
    fn listen_behind_own_hold(&mut self, now: Moment, id: QueueId) {
        let Some((first, acquire)) = self.holds.cx.first_waiter(id) else { return };
        let Some(used) = acquire.tries().and_then(|tries| tries.wire.as_ref()) else { return };
        let channels = self.holds.cx.subject(acquire).channels(self.holds.cx.wire(used.number));
        if !self.channels_are_shared(acquire) {
            self.listen(now, Listener::Waiter(first), channels);
        }
    }

    /// Shows the server that the waiters of a queue are alive.
    pub(in crate::engine) fn keep_alive_due(&mut self, now: Moment, id: QueueId) {
        self.listen_behind_own_hold(now, id);
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain(OPEN) else { return };
        queue.server.alarm.fired();
        if now < queue.server.shows_at {
            let at = queue.server.shows_at;
            return queue.server.alarm.set(&mut self.holds.cx.timers, Timer::KeepAlive(id), at);
        }
        queue.reopen();
        let lone = queue.len() == 1;
        let Some((first, acquire)) = self.holds.cx.first_waiter(id) else { return };
        let at = now + self.calls_every(acquire);
        self.listen_in_server_queue(now, id);
        if let Some(queue) = self.holds.cx.names.queue_mut(id) {
            queue.server.alarm.set(&mut self.holds.cx.timers, Timer::KeepAlive(id), at);
        }
        if lone {
            self.attempt_alone(now, first);
        } else {
            self.keep_alive(id, 0, None);
        }
    }

    fn keep_alive(&mut self, id: QueueId, from: u32, before: Option<KeepAlive>) {
        let Some(queue) = self.holds.cx.names.queue(id).filter(|queue| !queue.server.has_call()) else {
            return;
        };
        let Some((_, first)) = queue.waiters(&self.holds.cx.tickets).next() else { return };
        let Some(keep_alive) = first.recipe().keep_alive else { return };
        let queued = |acquire: &Acquire| acquire.tries().is_some_and(|tries| tries.queued);
        let expected = match before {
            Some(before) => before.expected,
            None => {
                let count =
                    queue.waiters(&self.holds.cx.tickets).filter(|(_, acquire)| queued(acquire)).count();
                u32::try_from(count).unwrap_or(u32::MAX)
            }
        };
        let args = KeepAliveArgs {
            name: self.holds.cx.names.get(id.name).name(),
            client: self.holds.cx.client,
            from,
        };
        let call = keep_alive(&args).confirmed_by(first.terms.replicas);
        let call = self.holds.cx.send(call, Purpose::Wait(WaitCall::KeepAlive(id)));
        let found = before.map_or(0, |before| before.found);
        if let Some(queue) = self.holds.cx.names.queue_mut(id) {
            let left = (before.map_or(queue.server.left, |before| before.left.0), queue.server.left);
            queue.server.call = Some(KeepAlive { call, from, expected, found, left });
        }
    }

    /// Handles the answer to a keep-alive.
    pub(in crate::engine) fn kept_alive(
        &mut self,
        now: Moment,
        call: CallId,
        id: QueueId,
        result: Result<Reply, StoreError>,
    ) {
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain(OPEN) else { return };
        let Some(sent) = queue.server.call.take_if(|sent| sent.call == call) else { return };
        let Some((first, acquire)) = self.holds.cx.first_waiter(id) else {
            return self.close_queue_if_over(now, id);
        };
        let Some(kept) = result.ok().and_then(|reply| (acquire.recipe().read_keep_alive)(&reply)) else {
            // The first waiter finds out what is wrong, for all of them.
            return self.attempt_alone(now, first);
        };
        let mut found = sent.found + kept.found;
        let terms = Arc::clone(&acquire.terms);
        if let Some(number) = kept.next.and_then(|number| self.holds.cx.given(number)) {
            // A place of no waiter does not show that a waiter has one.
            if !self.attempt_as(now, id, number, &terms) {
                found = found.saturating_sub(1);
            }
        }
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain(OPEN) else { return };
        let next = sent.next(queue.server.left);
        if next < kept.length {
            return self.keep_alive(id, next, Some(KeepAlive { found, ..sent }));
        }
        match queue.server.judge(&sent, found) {
            Shown::Lost => self.attempt_all(now, id),
            Shown::Unordered => {
                queue.server.mark_unordered();
                self.holds.cx.raise(Effect::Strays(id.name));
            }
            Shown::Alive => {}
        }
    }

    /// Makes an attempt for the waiter that is next on the server, unless one is on its way. A place that belongs to no
    /// waiter is released, because it blocks the queue until the server passes it by. Returns false for such a place.
    fn attempt_as(&mut self, now: Moment, id: QueueId, number: Number, terms: &Terms) -> bool {
        let is_it = |acquire: &Acquire| {
            let wire = acquire.tries().and_then(|tries| tries.wire.as_ref());
            wire.is_some_and(|used| used.number == number)
        };
        let queue = self.holds.cx.names.queue(id);
        let next =
            queue.and_then(|queue| queue.waiters(&self.holds.cx.tickets).find(|(_, acquire)| is_it(acquire)));
        match next {
            Some((id, acquire)) if !acquire.is_attempting() => self.attempt_alone(now, id),
            Some(_) => {}
            None if self.holds.get(number).is_some_and(ServerHold::is_undone) => {
                self.holds.undo_again(now, number);
                return false;
            }
            None if self.holds.get(number).is_some() || self.is_attempting(number) => {}
            None => {
                self.holds.undo(now, id.name, number, terms, (terms.first_lease(), true, Cause::UnseenGrant));
                return false;
            }
        }
        true
    }

    /// Returns true if an attempt under this wire owner is on its way.
    fn is_attempting(&self, number: Number) -> bool {
        self.holds.cx.has_call(|purpose| {
            matches!(purpose, Purpose::Wait(WaitCall::Attempt(attempt)) if attempt.number == number)
        })
    }

    /// Makes attempts for all waiters of a queue, after the server has lost some of their places.
    fn attempt_all(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain(OPEN) else { return };
        queue.server.mark_unordered();
        for id in self.holds.cx.waiters_in(id) {
            self.attempt_alone(now, id);
        }
    }

    /// Fails all waiters of a queue after the store has failed for a whole timeout. The places of those without an
    /// attempt on its way are given up like that of the first one.
    pub(in crate::engine) fn fail_server_queue(&mut self, now: Moment, first: Id, id: QueueId) {
        let verdict = self.verdict(now, first);
        let Some(queue) = self.holds.cx.names.queue(id).certain(OPEN) else { return };
        let others: Vec<(Id, Option<Moment>)> = queue
            .waiters(&self.holds.cx.tickets)
            .filter(|(id, acquire)| *id != first && !acquire.is_attempting())
            .map(|(id, acquire)| (id, acquire.waiter().and_then(Waiter::left_until)))
            .collect();
        self.fail(now, first, verdict.clone());
        for (id, left_until) in others {
            self.fail(now, id, verdict.clone().of_another(left_until, now));
        }
    }
}
