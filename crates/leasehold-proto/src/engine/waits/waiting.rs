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
use crate::engine::base::keys::{Number, PlaceId, QueueId, Side};
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::terms::Terms;
use crate::engine::base::timers::{Alarm, Timer};
use crate::engine::holds::hold::{Cause, ServerHold};
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::acquire::{Acquire, Past, Stage, Waiter};
use crate::engine::waits::queue::Queue;
use crate::engine::waits::tries::{Last, Tries, Used};
use crate::engine::{AcquireFailure, Engine, Id, Outcome, Request, Subject};
use crate::moment::Moment;
use crate::name::Channel;
use crate::owner::Owner;
use crate::recipe::{Recipe, Waiters};

impl Engine {
    pub(in crate::engine) fn acquire(&mut self, now: Moment, id: Id, request: Request) {
        let (subject, owner, wait, terms) = Terms::of(request);
        self.note_asked(id, &subject);
        if self.closing.is_some() {
            return self.complete(id, Outcome::Acquired(Err(AcquireFailure::Closed)));
        }
        let terms = self.shared_terms(terms);
        let place = self.places.enter(&subject);
        let stage = Stage::Waiting(Waiter::default());
        let acquire = Acquire { place, owner, wait, terms, since: now, stage, deadline: Alarm::default() };
        self.places.add_use(place);
        self.begin_waiting(now, id, Box::new(acquire));
    }

    /// Acquires again for a ticket whose grant is gone. A request with `Wait::Once` fails as unclaimed.
    pub(in crate::engine) fn acquire_again(&mut self, now: Moment, id: Id, hold: Number) {
        let Some(Ticket::Acquire(mut acquire)) = self.tickets.remove(id) else { return };
        if acquire.is_once() {
            let failure = Outcome::Acquired(Err(AcquireFailure::Unclaimed));
            self.cx.note(|facts| facts.completed(id, &failure));
            self.places.end_use(acquire.place);
            return self.cx.actions.push(crate::engine::Action::Complete(id, failure));
        }
        // While the server has not confirmed that the first grant is gone, no failure may say that nothing is locked.
        let release = self.holds.get(hold).and_then(ServerHold::release);
        let past = release.map_or(Past::Nothing, |release| Past::DoubtUntil(release.gone_by));
        acquire.stage = Stage::Waiting(Waiter { past, ..Waiter::default() });
        acquire.since = now;
        self.begin_waiting(now, id, acquire);
    }

    fn begin_waiting(&mut self, now: Moment, id: Id, mut acquire: Box<Acquire>) {
        acquire.set_deadline(&mut self.cx.timers, id);
        let (place, owner, recipe) = (acquire.place, acquire.owner, acquire.recipe());
        let (reenters, once) = (acquire.terms.reenters, acquire.is_once());
        let holder = self.holder(now, place, recipe, owner);
        let deadlock = recipe.blocked_by.is_some() && self.places.reader(place, owner).is_some();
        self.tickets.insert(id, Ticket::Acquire(acquire));
        match holder {
            Some(_) if !reenters => self.fail(now, id, AcquireFailure::AlreadyHeld),
            Some(hold) => self.enter(now, id, hold),
            None if deadlock => self.fail(now, id, AcquireFailure::Deadlock),
            None => {
                if recipe.holding.is_counted() {
                    self.waiters.insert((place, recipe.held_side(), owner, id));
                }
                if once { self.attempt_alone(now, id) } else { self.enqueue(now, id) }
            }
        }
    }

    /// Returns the terms, shared with the last ones if they are equal, which they mostly are.
    fn shared_terms(&mut self, terms: Terms) -> Arc<Terms> {
        if let Some(last) = self.last_terms.as_ref().filter(|last| ***last == terms) {
            return Arc::clone(last);
        }
        Arc::clone(self.last_terms.insert(Arc::new(terms)))
    }

    /// Returns the hold of an owner, trusted or lost, if the recipe counts an owner's holds.
    pub(in crate::engine) fn holder(
        &mut self,
        now: Moment,
        place: PlaceId,
        recipe: &Recipe,
        owner: Owner,
    ) -> Option<Number> {
        if !recipe.holding.is_counted() {
            return None;
        }
        let hold = self.holder_of(place, recipe.held_side(), owner)?;
        // Its timer may be late.
        self.hold_due(now, hold);
        self.holder_of(place, recipe.held_side(), owner)
    }

    pub(in crate::engine) fn holder_of(&self, place: PlaceId, side: Side, owner: Owner) -> Option<Number> {
        if side == Side::Read {
            return self.places.reader(place, owner);
        }
        let owned = |number: &Number| self.holds.get(*number).is_some_and(|hold| hold.owner == owner);
        self.places.get(place).exclusives().find(owned)
    }

    /// Returns the companion hold of the same owner: the other side of a read-write lock.
    pub(in crate::engine) fn companion(&self, acquire: &Acquire) -> Option<Number> {
        let companion = acquire.recipe().companion?;
        self.holder_of(acquire.place, companion.held_side(), acquire.owner)
    }

    /// Returns true if this recipe is for the write side and the owner reads too. The renewals of its read hold keep the
    /// key of the lock, and a write hold is a field of that key without an end of its own.
    pub(in crate::engine) fn has_reader_beside(&self, place: PlaceId, recipe: &Recipe, owner: Owner) -> bool {
        let writes = recipe.companion.is_some() && recipe.held_side() == Side::Main;
        writes && self.places.reader(place, owner).is_some()
    }

    /// Removes a waiter, granted or leaving, from the waiters that wait for a hold of their own owner.
    pub(in crate::engine) fn forget_waiter_of_owner(&mut self, id: Id, acquire: &Acquire) {
        if acquire.recipe().holding.is_counted() {
            self.waiters.remove(&(acquire.place, acquire.recipe().held_side(), acquire.owner, id));
        }
    }

    /// Returns the acquires of one owner that wait to hold one side of a place.
    pub(in crate::engine) fn waiters_of(&self, place: PlaceId, side: Side, owner: Owner) -> Vec<Id> {
        let same = self.waiters.range((place, side, owner, Id(0))..);
        let same = same.take_while(|(at, on, of, _)| (*at, *on, *of) == (place, side, owner));
        same.map(|(_, _, _, id)| *id).collect()
    }

    /// Returns the first waiter of a queue.
    pub(in crate::engine) fn first_waiter(&self, id: QueueId) -> Option<(Id, &Acquire)> {
        self.places.queue(id)?.waiters(&self.tickets).next()
    }

    /// Returns all waiters of a queue, in their order.
    pub(in crate::engine) fn waiters_in(&self, id: QueueId) -> Vec<Id> {
        let queue = self.places.queue(id);
        queue.into_iter().flat_map(|queue| queue.waiters(&self.tickets)).map(|(id, _)| id).collect()
    }

    fn enqueue(&mut self, now: Moment, id: Id) {
        let Some(acquire) = self.acquire_of(id).certain("only a waiter is queued") else { return };
        let (queue, recipe) = (acquire.queue(), acquire.recipe());
        match recipe.waiters {
            // The meaning of a round's end depends on what each waiter has seen.
            Waiters::Local if recipe.holding.is_event() => self.attempt_alone(now, id),
            Waiters::Local | Waiters::Marked { .. } if self.companion(acquire).is_some() => {
                self.attempt_alone(now, id);
            }
            Waiters::Local | Waiters::Marked { .. } => {
                let waiting = self.places.open_queue(queue);
                waiting.push(&mut self.tickets, id);
                let idle = waiting.tries.call.is_none() && !waiting.tries.alarm.is_set();
                if idle {
                    self.advance(now, queue);
                } else {
                    self.note_waiting(id);
                    self.attempt_extra(now, queue);
                }
                self.plan_question_of(now, queue.place);
            }
            Waiters::Queued { .. } => {
                self.places.open_queue(queue).push(&mut self.tickets, id);
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
        let Some((_, first)) = self.first_waiter(id) else { return };
        let Recipe { holding, waiters, .. } = *first.recipe();
        if waiters.are_queued() {
            return self.advance_server_queue(now, id);
        }
        let held_for =
            self.held_here(now, id.place).filter(|_| holding.is_exclusive()).map(|hold| hold.remaining(now));
        let Some(queue) = self.places.queue_mut(id).certain("a waiter has its queue") else { return };
        let nap = held_for.map_or(Duration::ZERO, |held_for| held_for.min(queue.recheck_in(now)));
        if nap.is_zero() {
            return self.attempt(now, id);
        }
        queue.tries.last.get_or_insert(Last::Refused);
        self.note_first_waits(id);
        self.sleep_for(now, id, nap.min(waiters.seen_every().unwrap_or(Duration::MAX)));
    }

    /// Handles the end of a queue's sleep. A queue whose waiter has to show that it is alive makes an attempt
    /// even if this client holds the name.
    pub(in crate::engine) fn queue_due(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.places.queue_mut(id).certain("only an open queue has a timer") else { return };
        queue.tries.alarm.fired();
        queue.tries.shares = false;
        queue.reopen();
        // The messages of own releases have come by the end of a pause, so none of another client is taken for them.
        queue.forget_echoes();
        let seen_every = self.first_waiter(id).and_then(|(_, first)| first.recipe().waiters.seen_every());
        if seen_every.is_some() { self.attempt(now, id) } else { self.advance(now, id) }
    }

    /// Handles the end of the sleep of a waiter that makes its own attempts.
    pub(in crate::engine) fn waiter_due(&mut self, now: Moment, id: Id) {
        if let Some(tries) = self.acquire_of_mut(id).and_then(Acquire::tries_mut) {
            tries.alarm.fired();
            self.attempt_alone(now, id);
        }
    }

    /// Returns the hold that this client itself trusts and that keeps all others out.
    pub(in crate::engine) fn held_here(&mut self, now: Moment, place: PlaceId) -> Option<&mut ServerHold> {
        let number = self.places.get(place).exclusive()?;
        self.holds.get_mut(number).filter(|hold| !hold.remaining(now).is_zero())
    }

    /// Sleeps until a wake-up, until the current hold should have ended, or for the polling interval.
    pub(in crate::engine) fn sleep(&mut self, now: Moment, id: QueueId, remaining: Duration) {
        let Some(refusals) = self.places.queue(id).map(|queue| queue.tries.refusals) else { return };
        let Some((first, acquire)) = self.first_waiter(id) else { return };
        let nap = self.nap(first, acquire, refusals, remaining);
        self.sleep_for(now, id, nap);
    }

    /// Returns the longest time between two calls of a waiter: the polling interval, or less if it has to show that it
    /// is alive.
    pub(in crate::engine) fn calls_every(&self, acquire: &Acquire) -> Duration {
        let seen_every = acquire.recipe().waiters.seen_every().unwrap_or(Duration::MAX);
        self.cx.settings.poll_interval.min(seen_every)
    }

    /// Returns the time until the next attempt of a waiter that was refused.
    pub(in crate::engine) fn nap(
        &self,
        id: Id,
        acquire: &Acquire,
        refusals: u32,
        remaining: Duration,
    ) -> Duration {
        let seed = self.cx.varying_seed(id);
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
        let Some(queue) = self.places.queue_mut(id).certain(OPEN) else { return };
        if queue.is_empty() {
            return;
        }
        queue.tries.alarm.set(&mut self.cx.timers, Timer::Queue(id), now + nap);
        let listener = Listener::Queue(id);
        if !self.subscriptions.is_listening(listener)
            && let Some((_, first)) = self.first_waiter(id)
        {
            let channels = self.subject(first).channels(self.cx.no_wire());
            self.listen(now, listener, channels);
        }
    }

    pub(in crate::engine) fn subject(&self, acquire: &Acquire) -> Subject {
        self.places.get(acquire.place).subject(acquire.recipe())
    }

    /// Subscribes a listener. One that joins a confirmed subscription tries again at once, because no confirmation will
    /// wake it, and a message that arrived while its attempt was on its way reached only the other listeners.
    pub(in crate::engine) fn listen(&mut self, now: Moment, listener: Listener, channels: Vec<Channel>) {
        if channels.is_empty() || self.subscriptions.is_listening(listener) {
            return;
        }
        let cx = &mut self.cx;
        if self.subscriptions.listen(listener, channels, |channel| cx.subscribe(channel)) {
            self.wake_up(now, listener);
        }
    }

    pub(in crate::engine) fn unlisten(&mut self, listener: Listener) {
        let cx = &mut self.cx;
        self.subscriptions.unlisten(listener, |channel| cx.unsubscribe(channel));
    }

    /// Handles the first or a later confirmation of a subscription. Messages sent before it are lost, so every listener
    /// tries again.
    pub(in crate::engine) fn listening(&mut self, now: Moment, channel: &Channel) {
        let (listeners, again) = self.subscriptions.confirm(channel);
        for listener in listeners {
            let queue = match listener {
                Listener::Queue(id) => Some(id),
                Listener::Waiter(id) => self.acquire_of(id).map(Acquire::queue),
            };
            if let Some(queue) = queue.and_then(|id| self.places.queue_mut(id)) {
                queue.forget_echoes();
                if again {
                    queue.server.mark_unordered();
                }
            }
            self.wake_up(now, listener);
        }
    }

    pub(in crate::engine) fn wake_up(&mut self, now: Moment, listener: Listener) {
        match listener {
            Listener::Queue(id) => {
                if let Some(queue) = self.places.queue_mut(id) {
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
        let share = self.first_waiter(id).and_then(|(first, acquire)| Some((first, acquire.terms.share?)));
        let queue = self.places.queue_mut(id).filter(|queue| queue.makes_no_attempt());
        let (Some((first, share)), Some(queue)) = (share, queue) else { return false };
        // A message during the pause does not prolong it, or those of a busy lock would do so without end.
        let pauses = std::mem::replace(&mut queue.tries.shares, true) && queue.tries.alarm.is_set();
        if !pauses {
            let seed = self.cx.varying_seed(first).wrapping_add(u64::from(queue.tries.refusals));
            self.sleep_for(now, id, backoff::spread(share, seed).min(self.cx.settings.poll_interval));
        }
        true
    }

    /// Handles a message, which says that a holder has released or that the lock was force-released.
    pub(in crate::engine) fn message(&mut self, now: Moment, channel: &Channel) {
        for listener in self.subscriptions.listeners(channel) {
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
        let Some(queue) = self.places.queue_mut(id).certain("only an open queue listens") else { return };
        let is_echo = queue.takes_echo(now);
        self.queue_heard(now, id, is_echo);
    }

    /// Handles news for a queue: a message, or one that was not this client's own after all.
    pub(in crate::engine) fn queue_heard(&mut self, now: Moment, id: QueueId, is_echo: bool) {
        let rest = match is_echo {
            true => Duration::ZERO,
            false => self.places.turns_mut(id).note_release(now),
        };
        if self.held_here(now, id.place).is_some() {
            if let Some(queue) = self.places.queue_mut(id) {
                queue.note_message(now, is_echo);
            }
            self.advance(now, id);
        } else if !rest.is_zero() && self.places.queue(id).is_some_and(Queue::makes_no_attempt) {
            self.sleep_for(now, id, rest);
        } else if !is_echo {
            self.wake_up(now, Listener::Queue(id));
        }
    }

    /// Fails the whole wait queue after the store has failed for a whole timeout, so that each waiter does not have to
    /// find that out in turn.
    pub(in crate::engine) fn fail_queue(&mut self, now: Moment, id: QueueId) {
        let waiters = self.waiters_in(id);
        let verdicts: Vec<AcquireFailure> = waiters.iter().map(|id| self.verdict(now, *id)).collect();
        for (id, verdict) in waiters.into_iter().zip(verdicts) {
            self.fail(now, id, verdict);
        }
    }

    pub(in crate::engine) fn fail_with_verdict(&mut self, now: Moment, id: Id) {
        let verdict = self.verdict(now, id);
        self.fail(now, id, verdict);
    }

    /// Returns the failure of a waiting acquire if it ends now. A waiter for which nothing was sent uses what its queue
    /// knows.
    pub(in crate::engine) fn verdict(&self, now: Moment, id: Id) -> AcquireFailure {
        let Some((acquire, waiter)) =
            self.acquire_of(id).and_then(|acquire| Some((acquire, acquire.waiter()?)))
        else {
            return AcquireFailure::Contended;
        };
        // An attempt on its way may run until its connection is closed.
        let arrives_by = self.cx.arrives_by(now, true);
        let subject = self.subject(acquire);
        let of_attempt = waiter.attempted.map(|_| subject.gone_by(acquire.terms.first_lease(), arrives_by));
        let doubt_until = waiter.past.doubt_until().max(of_attempt);
        let bounds = (arrives_by, doubt_until);
        let terms = (&*acquire.terms, acquire.bound());
        let queue = self.places.queue(acquire.queue());
        match (&waiter.tries, queue) {
            (Some(tries), _) => {
                let verdict = tries.verdict(now, &subject, terms, bounds);
                let reads = self.has_reader_beside(acquire.place, acquire.recipe(), acquire.owner);
                if reads { verdict.without_bound() } else { verdict }
            }
            (None, Some(queue)) => {
                let verdict = queue.tries.verdict(now, &subject, terms, bounds);
                let is_attempted = queue.first() == Some(id) || doubt_until.is_some();
                if is_attempted { verdict } else { verdict.without_doubt() }
            }
            (None, None) => AcquireFailure::Contended,
        }
    }

    /// Takes a leaving acquire out of its wait queue, and undoes what its own attempts may have left.
    pub(in crate::engine) fn leave_queue(&mut self, now: Moment, id: Id, acquire: Acquire) {
        let queue = acquire.queue();
        if let Stage::Waiting(waiter) = acquire.stage {
            self.leave_waiting(now, id, queue, waiter);
        }
    }

    /// Takes what a waiter had out of its wait queue.
    pub(in crate::engine) fn leave_waiting(&mut self, now: Moment, id: Id, queue: QueueId, waiter: Waiter) {
        let Waiter { tries, linked, .. } = waiter;
        if let Some(mut tries) = tries {
            tries.alarm.clear(&mut self.cx.timers, Timer::Waiter(id));
            self.unlisten(Listener::Waiter(id));
            self.undo_tries(now, queue.place, &mut tries);
        }
        if let Some(links) = linked
            && let Some(waiting) = self.places.queue_mut(queue)
        {
            waiting.unlink(&mut self.tickets, links);
            if self.closing.is_none() {
                self.listen_in_server_queue(now, queue);
            }
            self.close_queue_if_over(now, queue);
        }
    }

    /// Undoes what earlier attempts may have acquired, and their place in a queue on the server. An attempt on its way
    /// does that when it is answered.
    pub(in crate::engine) fn undo_tries(&mut self, now: Moment, place: PlaceId, tries: &mut Tries) {
        let cause = match tries.unknown_until {
            Some(_) => Cause::UnknownAcquire,
            None if tries.queued => Cause::UnseenGrant,
            None => return,
        };
        if tries.call.is_none() {
            let queued = tries.queued;
            if let Some(Used { number, terms, .. }) = tries.drop_wire() {
                self.undo(now, place, number, &terms, (terms.first_lease(), queued, cause));
            }
        }
    }

    /// Closes a queue without waiters. What its attempts may have left is undone, at once or when the attempt on its
    /// way is answered.
    pub(in crate::engine) fn close_queue_if_over(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.places.queue_mut(id).filter(|queue| queue.is_empty()) else { return };
        queue.tries.alarm.clear(&mut self.cx.timers, Timer::Queue(id));
        queue.server.stop(&mut self.cx.timers, id);
        let mut tries = std::mem::take(&mut queue.tries);
        self.unlisten(Listener::Queue(id));
        self.undo_tries(now, id.place, &mut tries);
        if let Some(queue) = self.places.queue_mut(id) {
            queue.tries = tries;
            if queue.is_over() {
                self.places.close_queue(id);
            }
        }
    }
}
