//! Waiting: how an acquire begins, sleeps, is woken, and leaves its wait queue.
//!
//! Invariant: a waiter that leaves sends nothing but the undo of what its own attempts may have left. Unless this
//! client itself holds the name exclusively, a queue sleeps only after an attempt. Once it listens it tries again, and
//! it never sleeps longer than the polling interval.
//!
//! # How it works
//! The queue makes an attempt for its first waiter. If that is refused, it listens, and tries again once the
//! subscription is confirmed, since an earlier wake-up is lost. Then it sleeps until a wake-up, the end of the current
//! hold, or the polling interval. While this client itself holds the name, the queue makes no attempt, because the
//! engine sees the release itself. It still listens. A message that is not this client's own then means that the hold
//! was taken away by force, so the queue makes one attempt.
//!
//! A waiter makes its own attempts when its request is not to wait, when its owner has the companion hold, or when the
//! server keeps the order (`keep_alive`).

use std::sync::Arc;
use std::time::Duration;

use crate::backoff;
use crate::engine::base::certain::{Certain, OPEN};
use crate::engine::base::keys::{NameId, Number, QueueId, Side, Sides};
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::terms::Terms;
use crate::engine::base::timers::{Alarm, Timer};
use crate::engine::holds::hold::ServerHold;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::Waits;
use crate::engine::waits::acquire::{Acquire, Asked, Past, Stage, Waiter};
use crate::engine::waits::queue::Queue;
use crate::engine::waits::tries::Last;
use crate::engine::{AcquireFailure, Id, Outcome};
use crate::moment::Moment;
use crate::name::Channel;
use crate::owner::Owner;
use crate::recipe::{Recipe, Waiters};

impl Waits {
    pub(in crate::engine) fn acquire(&mut self, now: Moment, id: Id, asked: Asked) {
        let Asked { subject, owner, wait, terms } = asked;
        let name = self.holds.cx.names.enter(&subject);
        let stage = Stage::Waiting(Waiter::default());
        let acquire = Acquire { name, owner, wait, terms, since: now, stage, deadline: Alarm::default() };
        self.holds.cx.names.add_use(name);
        self.begin_waiting(now, id, Box::new(acquire));
    }

    /// Acquires again for a ticket whose grant is gone. A request with `Wait::Once` fails as unclaimed.
    pub(in crate::engine) fn acquire_again(&mut self, now: Moment, id: Id, hold: Number) {
        let Some(Ticket::Acquire(mut acquire)) = self.holds.cx.tickets.remove(id) else { return };
        if acquire.is_once() {
            let failure = Outcome::Acquired(Err(AcquireFailure::Unclaimed));
            self.holds.cx.note(|facts| facts.completed(id, &failure));
            self.holds.cx.names.end_use(acquire.name);
            return self.holds.cx.actions.push(crate::engine::Action::Complete(id, failure));
        }
        // While the server has not confirmed that the first grant is gone, no failure may say that nothing is locked.
        let release = self.holds.get(hold).and_then(ServerHold::release);
        let past = release.map_or(Past::Nothing, |release| Past::DoubtUntil(release.gone_by));
        acquire.stage = Stage::Waiting(Waiter { past, ..Waiter::default() });
        acquire.since = now;
        self.begin_waiting(now, id, acquire);
    }

    fn begin_waiting(&mut self, now: Moment, id: Id, mut acquire: Box<Acquire>) {
        acquire.set_deadline(&mut self.holds.cx.timers, id);
        let (name, owner, recipe) = (acquire.name, acquire.owner, acquire.recipe());
        let (reenters, once) = (acquire.terms.reenters, acquire.is_once());
        let holder = self.holder(now, name, recipe, owner);
        let deadlock = recipe.blocked_by.is_some() && self.holds.cx.names.reader(name, owner).is_some();
        self.holds.cx.tickets.insert(id, Ticket::Acquire(acquire));
        match holder {
            Some(_) if !reenters => self.fail(now, id, AcquireFailure::AlreadyHeld),
            Some(hold) => self.holds.enter(now, id, hold),
            None if deadlock => self.fail(now, id, AcquireFailure::Deadlock),
            None => {
                if recipe.holding.is_counted() {
                    self.waiters.insert((name, recipe.held_side(), owner, id));
                }
                if once { self.attempt_alone(now, id) } else { self.enqueue(now, id) }
            }
        }
    }

    /// Returns the terms, shared with the last ones if they are equal, which they mostly are.
    pub(in crate::engine) fn shared_terms(&mut self, terms: Terms) -> Arc<Terms> {
        if let Some(last) = self.last_terms.as_ref().filter(|last| ***last == terms) {
            return Arc::clone(last);
        }
        Arc::clone(self.last_terms.insert(Arc::new(terms)))
    }

    /// Returns the hold of an owner, trusted or lost, if the recipe counts an owner's holds.
    pub(in crate::engine) fn holder(
        &mut self,
        now: Moment,
        name: NameId,
        recipe: &Recipe,
        owner: Owner,
    ) -> Option<Number> {
        if !recipe.holding.is_counted() {
            return None;
        }
        let hold = self.holds.holder_of(name, recipe.held_side(), owner)?;
        // Its timer may be late.
        self.holds.hold_due(now, hold);
        self.holds.holder_of(name, recipe.held_side(), owner)
    }

    /// Returns the companion hold of the same owner: the other side of a read-write lock.
    pub(in crate::engine) fn companion(&self, acquire: &Acquire) -> Option<Number> {
        let companion = acquire.recipe().companion?;
        self.holds.holder_of(acquire.name, companion.held_side(), acquire.owner)
    }

    /// Returns the acquires of one owner that wait to hold one side of a name.
    pub(in crate::engine) fn waiters_of(&self, name: NameId, side: Side, owner: Owner) -> Vec<Id> {
        let same = self.waiters.range((name, side, owner, Id(0))..);
        let same = same.take_while(|(at, on, of, _)| (*at, *on, *of) == (name, side, owner));
        same.map(|(_, _, _, id)| *id).collect()
    }

    fn enqueue(&mut self, now: Moment, id: Id) {
        let Some(acquire) = self.holds.cx.acquire_of(id).certain("only a waiter is queued") else { return };
        let (queue, recipe) = (acquire.queue(), acquire.recipe());
        match recipe.waiters {
            // The meaning of a round's end depends on what each waiter has seen.
            Waiters::Local if recipe.holding.is_event() => self.attempt_alone(now, id),
            Waiters::Local | Waiters::Marked { .. } if self.companion(acquire).is_some() => {
                self.attempt_alone(now, id);
            }
            Waiters::Local | Waiters::Marked { .. } => {
                let waiting = self.holds.cx.names.open_queue(queue);
                waiting.push(&mut self.holds.cx.tickets, id);
                let idle = waiting.tries.call.is_none() && !waiting.tries.alarm.is_set();
                if idle {
                    self.advance(now, queue);
                } else {
                    self.holds.cx.note_waiting(id);
                    self.attempt_extra(now, queue);
                }
                self.holds.plan_probe_of(now, queue.name);
            }
            Waiters::Queued { .. } => {
                self.holds.cx.names.open_queue(queue).push(&mut self.holds.cx.tickets, id);
                self.attempt_alone(now, id);
            }
        }
    }

    /// Lets a queue go ahead, unless its attempt would come before those of others.
    pub(in crate::engine) fn advance(&mut self, now: Moment, id: QueueId) {
        if !self.waits_for_own_release(now, id) {
            self.go_ahead(now, id);
        }
    }

    /// Lets a queue make an attempt for its first waiter, unless this client itself holds the name and no message
    /// suggests otherwise. In that case the queue sleeps until that hold ends.
    pub(in crate::engine) fn go_ahead(&mut self, now: Moment, id: QueueId) {
        let Some((_, first)) = self.holds.cx.first_waiter(id) else { return };
        let Recipe { holding, waiters, .. } = *first.recipe();
        if waiters.are_queued() {
            return self.advance_server_queue(now, id);
        }
        let held_for = self
            .holds
            .held_here(now, id.name)
            .filter(|_| holding.is_exclusive())
            .map(|hold| hold.remaining(now));
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain("a waiter has its queue") else {
            return;
        };
        let nap = held_for.map_or(Duration::ZERO, |held_for| held_for.min(queue.recheck_in(now)));
        if nap.is_zero() {
            return self.attempt(now, id);
        }
        queue.tries.last.get_or_insert(Last::Refused);
        self.holds.cx.note_first_waits(id);
        self.sleep_for(now, id, nap.min(waiters.seen_every().unwrap_or(Duration::MAX)));
    }

    /// Handles the end of a queue's sleep. A queue whose waiter has to show that it is alive makes an attempt
    /// even if this client holds the name.
    pub(in crate::engine) fn queue_due(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain("only an open queue has a timer") else {
            return;
        };
        queue.tries.alarm.fired();
        queue.tries.shares = false;
        queue.reopen();
        // The messages of own releases have come by the end of a pause, so none of another client is taken for them.
        queue.forget_echoes();
        let seen_every =
            self.holds.cx.first_waiter(id).and_then(|(_, first)| first.recipe().waiters.seen_every());
        if seen_every.is_some() { self.attempt(now, id) } else { self.advance(now, id) }
    }

    /// Handles the end of the sleep of a waiter that makes its own attempts.
    pub(in crate::engine) fn waiter_due(&mut self, now: Moment, id: Id) {
        if let Some(tries) = self.holds.cx.acquire_of_mut(id).and_then(Acquire::tries_mut) {
            tries.alarm.fired();
            self.attempt_alone(now, id);
        }
    }

    /// Sleeps until a wake-up, until the current hold should have ended, or for the polling interval.
    pub(in crate::engine) fn sleep(&mut self, now: Moment, id: QueueId, remaining: Duration) {
        let Some(refusals) = self.holds.cx.names.queue(id).map(|queue| queue.tries.refusals) else { return };
        let Some((first, acquire)) = self.holds.cx.first_waiter(id) else { return };
        let nap = self.nap(first, acquire, refusals, remaining);
        self.sleep_for(now, id, nap);
    }

    /// Returns the longest time between two calls of a waiter: the polling interval, or less if it has to show that it
    /// is alive.
    pub(in crate::engine) fn calls_every(&self, acquire: &Acquire) -> Duration {
        let seen_every = acquire.recipe().waiters.seen_every().unwrap_or(Duration::MAX);
        self.holds.cx.settings.poll_interval.min(seen_every)
    }

    /// Returns the time until the next attempt of a waiter that was refused.
    pub(in crate::engine) fn nap(
        &self,
        id: Id,
        acquire: &Acquire,
        refusals: u32,
        remaining: Duration,
    ) -> Duration {
        let seed = self.holds.cx.varying_seed(id);
        match acquire.terms.backoff {
            Some(backoff) => backoff.after(refusals.saturating_sub(1), seed),
            None => {
                let jitter = backoff::spread((remaining / 10).min(Duration::from_millis(20)), seed);
                let longest = self.calls_every(acquire);
                remaining.saturating_add(Duration::from_millis(1) + jitter).min(longest)
            }
        }
    }

    /// Sleeps for `nap` unless a wake-up comes first.
    pub(in crate::engine) fn sleep_for(&mut self, now: Moment, id: QueueId, nap: Duration) {
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain(OPEN) else { return };
        if queue.is_empty() {
            return;
        }
        queue.tries.alarm.set(&mut self.holds.cx.timers, Timer::Queue(id), now + nap);
        let listener = Listener::Queue(id);
        if !self.holds.cx.subscriptions.is_listening(listener)
            && let Some((_, first)) = self.holds.cx.first_waiter(id)
        {
            let channels = self.holds.cx.subject(first).channels(self.holds.cx.no_wire());
            self.listen(now, listener, channels);
        }
    }

    /// Subscribes a listener. One that joins a confirmed subscription tries again at once, because no confirmation will
    /// wake it, and a message that arrived while its attempt was on its way reached only the other listeners.
    pub(in crate::engine) fn listen(&mut self, now: Moment, listener: Listener, channels: Vec<Channel>) {
        if channels.is_empty() || self.holds.cx.subscriptions.is_listening(listener) {
            return;
        }
        if self.holds.cx.listen(listener, channels) {
            self.wake_up(now, listener);
        }
    }

    /// Handles the first or a later confirmation of a subscription. Messages sent before it are lost, so every listener
    /// tries again.
    pub(in crate::engine) fn listening(&mut self, now: Moment, channel: &Channel) {
        let (listeners, again) = self.holds.cx.subscriptions.confirm(channel);
        for listener in listeners {
            let queue = match listener {
                Listener::Queue(id) => Some(id),
                Listener::Waiter(id) => self.holds.cx.acquire_of(id).map(Acquire::queue),
            };
            if let Some(queue) = queue.and_then(|id| self.holds.cx.names.queue_mut(id)) {
                queue.forget_echoes();
                if again {
                    queue.server.mark_unordered();
                }
            }
            self.wake_up(now, listener);
        }
    }

    /// Notes that a server may have lost places of a queue.
    pub(in crate::engine) fn distrust_order(&mut self, id: QueueId) {
        if let Some(queue) = self.holds.cx.names.queue_mut(id) {
            queue.server.mark_unordered();
        }
    }

    pub(in crate::engine) fn wake_up(&mut self, now: Moment, listener: Listener) {
        match listener {
            Listener::Queue(id) => {
                if let Some(queue) = self.holds.cx.names.queue_mut(id) {
                    queue.reopen();
                }
                if !self.leaves_share(now, id) {
                    self.advance(now, id);
                }
            }
            Listener::Waiter(id) => self.wake_waiter(now, id),
        }
    }

    /// Lets a queue sleep for a random part of the time that its first waiter leaves to clients that poll. Returns false if
    /// that waiter leaves none, or if an attempt is on its way.
    pub(in crate::engine) fn leaves_share(&mut self, now: Moment, id: QueueId) -> bool {
        let share =
            self.holds.cx.first_waiter(id).and_then(|(first, acquire)| Some((first, acquire.terms.share?)));
        let queue = self.holds.cx.names.queue_mut(id).filter(|queue| queue.makes_no_attempt());
        let (Some((first, share)), Some(queue)) = (share, queue) else { return false };
        // A message during the pause does not prolong it, or those of a busy lock would do so without end.
        let refusals = u64::from(queue.tries.refusals);
        let pauses = std::mem::replace(&mut queue.tries.shares, true) && queue.tries.alarm.is_set();
        if !pauses {
            let seed = self.holds.cx.varying_seed(first).wrapping_add(refusals);
            self.sleep_for(now, id, backoff::spread(share, seed).min(self.holds.cx.settings.poll_interval));
        }
        true
    }

    /// Handles a message, which says that a holder has released or that the lock was force-released.
    pub(in crate::engine) fn message(&mut self, now: Moment, channel: &Channel) {
        for listener in self.holds.cx.subscriptions.listeners(channel) {
            match listener {
                Listener::Queue(id) => self.queue_message(now, id),
                Listener::Waiter(id) => self.attempt_alone(now, id),
            }
        }
    }

    /// Handles a message for a queue. If this client holds the name, its own last release may have sent the message.
    /// Any other message means that the lock was taken away. An attempt on its way may be refused although the lock is
    /// free since, so another one follows it even while the client leaves releases to others.
    fn queue_message(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain("only an open queue listens") else {
            return;
        };
        let is_echo = queue.takes_echo(now);
        self.queue_heard(now, id, is_echo);
    }

    /// Handles news for a queue: a message, or one that was not this client's own after all.
    pub(in crate::engine) fn queue_heard(&mut self, now: Moment, id: QueueId, is_echo: bool) {
        let rest = match is_echo {
            true => Duration::ZERO,
            false => self.holds.cx.names.turns_mut(id).note_release(now),
        };
        if self.holds.held_here(now, id.name).is_some() {
            if let Some(queue) = self.holds.cx.names.queue_mut(id) {
                queue.note_message(now, is_echo);
            }
            self.advance(now, id);
        } else if !rest.is_zero() && self.holds.cx.names.queue(id).is_some_and(Queue::makes_no_attempt) {
            self.sleep_for(now, id, rest);
        } else if !is_echo {
            self.wake_up(now, Listener::Queue(id));
        }
    }
}
