//! The wait queue of one name: its local waiters, and their attempts at the store.
//!
//! Invariant: only the head of a wait queue makes attempts, except that each waiter makes its own where the server
//! keeps the order, or where its owner has the companion hold. At most one attempt of a waiter is in flight. Unless
//! this client itself holds the name exclusively, a waiter sleeps only after an attempt. Once the waiter listens it
//! tries again, and it never sleeps longer than the polling interval.
//!
//! # How it works
//! A waiter makes an attempt. When it is refused, it listens, and tries again once the subscription is confirmed, since
//! an earlier wake-up is lost. Then it sleeps until a wake-up, the end of the current hold, or the polling interval. A
//! request with `Wait::Once` makes its attempt outside the wait queue. While this client itself holds the name, the
//! head makes no attempts, because the engine sees the release itself. The head still listens. A message may then mean
//! that the hold was taken away by force, so the head makes one attempt.

use std::time::Duration;

use super::release::ReleaseTerms;
use super::state::{Acquiring, Attempt, Cause, Last, Listener, Purpose, Stage, Ticket, WaiterState};
use super::timer::Timer;
use super::{AcquireFailure, CallId, Engine, Grant, Id, Outcome, Request, Subject, Wait};
use crate::backoff;
use crate::call::Reply;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{Applied, FreeWithin, StoreError, StoreErrorKind, Verb};
use crate::owner::{Owner, WireOwner};
use crate::recipe::{Answer, CallArgs, CallContext, Holding, Polling};

/// The longest life of a place in a queue on the server, as a multiple of the interval at which its waiter shows that
/// it is alive.
const PLACE_INTERVALS: u32 = 4;

impl WaiterState {
    /// Notes that an effect of this acquire may be on the server until then, whatever its next attempts return.
    pub(super) fn mark_uncertain_until(&mut self, until: Moment) {
        self.unknown_until = self.unknown_until.max(Some(until));
    }

    /// Returns the failure of the acquire if it ends now.
    fn verdict(&self, now: Moment, request: &Request, arrives_by: Moment) -> AcquireFailure {
        let error = match &self.last {
            Some(Last::Refused) => return AcquireFailure::Contended,
            Some(Last::TooLate(took)) => {
                return AcquireFailure::LeaseTooShort { lease: request.lease, took: *took };
            }
            Some(Last::Failed(error)) => error.clone(),
            // The waiter's turn may have come too late for an answer. Before that another owner held the lock.
            None if self.wire.is_none() || self.waited_for_own_client => return AcquireFailure::Contended,
            None => request.subject.timed_out(Verb::Acquire),
        };
        let in_flight_until = self.call.map(|_| request.subject.gone_by(request.first_lease(), arrives_by));
        match self.unknown_until.max(in_flight_until) {
            Some(until) => AcquireFailure::Unknown { free_within: FreeWithin::until(until, now), error },
            None => AcquireFailure::Failed(error),
        }
    }
}

impl Request {
    /// Returns the lease to begin with, which is no longer than the hold may last.
    pub(super) fn first_lease(&self) -> Lease {
        self.max_hold.map_or(self.lease, |most| self.lease.min(Lease::clamped(most)))
    }
}

impl Engine {
    pub(super) fn acquire(&mut self, now: Moment, id: Id, request: Request) {
        if self.closing.is_some() {
            return self.complete(id, Outcome::Acquired(Err(AcquireFailure::Closed)));
        }
        if let Wait::Until(deadline) = request.wait {
            self.timers.set(Timer::Deadline(id), deadline);
        }
        let held = request.subject.as_held();
        let holder = self.holder(&held, request.owner);
        let deadlock = self.has_blocking_hold(&request.subject, request.owner);
        let Request { subject, owner, wait, reenters, .. } = &request;
        let (subject, owner, once, reenters) = (subject.clone(), *owner, *wait == Wait::Once, *reenters);
        let stage = Stage::Waiting(WaiterState::default());
        self.tickets.insert(id, Ticket::Acquire(Box::new(Acquiring { request, stage })));
        match holder {
            Some(_) if !reenters => self.fail(now, id, AcquireFailure::AlreadyHeld),
            Some(wire) => self.enter(now, id, wire),
            None if deadlock => self.fail(now, id, AcquireFailure::Deadlock),
            None => {
                if held.recipe.policy.counted {
                    self.waiters.insert((held, owner, id));
                }
                if once { self.attempt(now, id) } else { self.enqueue(now, id, &subject, owner) }
            }
        }
    }

    /// Removes a waiter, granted or leaving, from the waiters that wait for a hold of their own owner.
    pub(super) fn stop_waiting(&mut self, id: Id, request: &Request) {
        self.waiters.remove(&(request.subject.as_held(), request.owner, id));
    }

    /// Returns true if the same owner has a hold that would block this acquire forever. That hold also remains when a
    /// hold of this subject ends.
    pub(super) fn has_blocking_hold(&self, subject: &Subject, owner: Owner) -> bool {
        let held = subject.recipe.blocked_by;
        held.is_some_and(|recipe| self.holder(&subject.with_recipe(recipe), owner).is_some())
    }

    fn enqueue(&mut self, now: Moment, id: Id, subject: &Subject, owner: Owner) {
        let companion = self.companion_holder(subject, owner).is_some();
        let queue = self.queues.entry(subject.clone()).or_default();
        queue.push_back(id);
        match subject.recipe.policy.polling {
            Polling::Head if queue.len() == 1 => self.attempt_unless_held_here(now, subject),
            Polling::Head if !companion => {}
            Polling::Head | Polling::Each => self.attempt(now, id),
        }
    }

    /// Returns the wire owner of the companion hold of the same owner.
    fn companion_holder(&self, subject: &Subject, owner: Owner) -> Option<WireOwner> {
        subject.recipe.companion.and_then(|recipe| self.holder(&subject.with_recipe(recipe), owner))
    }

    /// Makes an attempt for each waiter of an owner that has just acquired the companion. A waiter before it in the
    /// queue may wait for that hold.
    pub(super) fn attempt_companion(&mut self, now: Moment, subject: &Subject, owner: Owner) {
        let other = subject.recipe.companion.map(|recipe| subject.with_recipe(recipe));
        let queue: Vec<Id> =
            other.and_then(|other| self.queues.get(&other)).into_iter().flatten().copied().collect();
        for id in queue {
            if self.waiting(id).is_some_and(|(request, _)| request.owner == owner) {
                self.attempt(now, id);
            }
        }
    }

    /// Makes an attempt for the head of a wait queue, unless this client itself holds the name and no message suggests
    /// otherwise. In that case the head sleeps until that hold ends.
    pub(super) fn attempt_unless_held_here(&mut self, now: Moment, subject: &Subject) {
        let Some(&head) = self.queues.get(subject).and_then(|queue| queue.front()) else {
            return;
        };
        let exclusive = subject.recipe.policy.exclusive;
        let Some(server_hold) = self.held_here(subject, now).filter(|_| exclusive) else {
            return self.attempt(now, head);
        };
        if now >= server_hold.recheck_from {
            server_hold.recheck_from = Moment::NEVER;
            return self.attempt(now, head);
        }
        let nap = server_hold.remaining(now).min(server_hold.recheck_from.since(now));
        if let Some(waiter) = self.waiter_state_mut(head) {
            waiter.waited_for_own_client = true;
        }
        match subject.recipe.policy.seen_every {
            None => self.sleep_for(now, head, nap),
            Some(seen_every) => self.sleep_for(now, head, nap.min(seen_every)),
        }
    }

    /// Handles the end of a waiter's sleep. A waiter that has to show that it is alive makes an attempt whether or not
    /// this client holds the name.
    pub(super) fn attempt_after_sleep(&mut self, now: Moment, id: Id) {
        let Some((Request { subject, .. }, _)) = self.waiting(id) else { return };
        let (subject, policy) = (subject.clone(), subject.recipe.policy);
        let is_head = self.queues.get(&subject).and_then(|queue| queue.front()) == Some(&id);
        if is_head && policy.polling == Polling::Head && policy.seen_every.is_none() {
            self.attempt_unless_held_here(now, &subject);
        } else {
            self.attempt(now, id);
        }
    }

    /// Sends a waiter's attempt, or notes that another attempt must follow the attempt in flight.
    pub(super) fn attempt(&mut self, now: Moment, id: Id) {
        let Some(waiter) = self.waiter_state_mut(id) else { return };
        if waiter.call.is_some() {
            waiter.again = true;
            return;
        }
        let (known, uncertain) = (waiter.wire, waiter.unknown_until.is_some());
        // A later failure changes nothing, because it does not undo what an earlier attempt has seen.
        let refused = waiter.refusals > 0;
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
            return;
        };
        let Request { subject, owner, units, wait, .. } = &acquiring.request;
        let (subject, owner, units, once) = (subject.clone(), *owner, *units, *wait == Wait::Once);
        let (lease, uptime) = (acquiring.request.first_lease(), acquiring.request.uptime);
        let wire = known.unwrap_or_else(|| self.next_owner((subject.recipe.owners)(units)));
        let context = CallContext { once, refused, granted: false, uncertain };
        let companion = self.companion_holder(&subject, owner);
        let args =
            CallArgs { context, companion, uptime, ..CallArgs::new(&subject, wire, lease).units(units) };
        let call = (subject.recipe.acquire)(&args).woken_by(subject.channels(wire));
        let queues = subject.recipe.policy.queued && !once;
        self.timers.clear(Timer::Attempt(id));
        let attempt = Attempt { id, subject, wire, lease, sent_at: now, units, uncertain, queues };
        let call = self.run(call, Purpose::Attempt(attempt));
        if let Some(waiter) = self.waiter_state_mut(id) {
            waiter.wire = Some(wire);
            waiter.call = Some(call);
            waiter.again = false;
        }
    }

    /// Handles the answer to an attempt, even if its waiter is gone.
    pub(super) fn attempt_answered(
        &mut self,
        now: Moment,
        call: CallId,
        attempt: Attempt,
        result: Result<Reply, StoreError>,
    ) {
        let subject = &attempt.subject;
        let answer =
            result.map_err(|error| subject.mark_unapplied(error)).and_then(|reply| subject.read(&reply));
        let waits = self.waiter_state_mut(attempt.id).is_some_and(|waiter| waiter.call == Some(call));
        if !waits {
            return self.answered_after_leaving(now, &attempt, &answer);
        }
        if let Some(waiter) = self.waiter_state_mut(attempt.id) {
            waiter.call = None;
            // The script may have put the waiter into the queue, unless the answer is an error.
            waiter.queued |= attempt.queues && answer.is_ok();
        }
        match answer {
            Ok(Answer::Granted { token }) => self.granted(now, &attempt, token),
            Ok(Answer::Refused { remaining }) => self.refused(now, &attempt, remaining),
            Ok(Answer::NoExpiry) => self.fail(now, attempt.id, AcquireFailure::NoExpiry),
            Ok(Answer::Deadlock) => self.fail(now, attempt.id, AcquireFailure::Deadlock),
            Ok(Answer::Deleted) => self.fail(now, attempt.id, AcquireFailure::Deleted),
            Ok(Answer::RecentlyRestarted { remaining }) if self.is_once(attempt.id) => {
                self.fail(now, attempt.id, AcquireFailure::RecentlyRestarted { remaining });
            }
            Ok(Answer::RecentlyRestarted { remaining }) => self.refused(now, &attempt, remaining),
            Err(error) => self.attempt_unanswered(now, &attempt, error),
        }
    }

    /// Handles an answer whose waiter is gone, and undoes what the attempt may have acquired.
    fn answered_after_leaving(
        &mut self,
        now: Moment,
        attempt: &Attempt,
        answer: &Result<Answer, StoreError>,
    ) {
        let cause = match answer {
            Ok(_) if attempt.subject.recipe.policy.holding == Holding::Nothing => return,
            Ok(Answer::Granted { .. }) => Cause::UnseenGrant,
            Err(error) if error.applied == Applied::Unknown => Cause::UnknownAcquire,
            Ok(_) | Err(_) if attempt.uncertain => Cause::UnknownAcquire,
            Ok(_) | Err(_) if attempt.queues => Cause::UnseenGrant,
            Ok(_) | Err(_) => return,
        };
        self.begin_release(now, attempt.wire, &attempt.subject, attempt.undo(now, cause));
    }

    fn granted(&mut self, now: Moment, attempt: &Attempt, token: Option<u64>) {
        let Attempt { id, subject, wire, .. } = attempt;
        let grant = Grant { wire: *wire, token };
        match subject.recipe.policy.holding {
            Holding::Nothing => return self.event_happened(now, *id, grant, subject),
            Holding::Leased if now >= attempt.lease.valid_until(attempt.sent_at) => {}
            Holding::Leased | Holding::Unending => {
                return self.begin_server_hold(now, *id, grant, attempt.lease, attempt.sent_at);
            }
        }
        // The grant has no validity left. The wire owner is not used again, and the next attempt has another.
        self.begin_release(now, *wire, subject, attempt.undo(now, Cause::UnseenGrant));
        let took = now.since(attempt.sent_at);
        self.unlisten(&Listener::Waiter(*id));
        if let Some(waiter) = self.waiter_state_mut(*id) {
            waiter.wire = None;
            waiter.unknown_until = None;
            waiter.queued = false;
            waiter.last = Some(Last::TooLate(took));
        }
        self.attempt_later(now, attempt);
    }

    /// Completes a wait whose event has happened. Nothing is held.
    fn event_happened(&mut self, now: Moment, id: Id, grant: Grant, subject: &Subject) {
        self.timers.clear(Timer::Attempt(id));
        self.timers.clear(Timer::Deadline(id));
        self.complete(id, Outcome::Acquired(Ok(grant)));
        self.remove_from_queue(now, id, subject);
    }

    fn refused(&mut self, now: Moment, attempt: &Attempt, remaining: Duration) {
        let Some(waiter) = self.waiter_state_mut(attempt.id) else {
            return;
        };
        waiter.last = Some(Last::Refused);
        waiter.failing_since = None;
        waiter.failures = 0;
        waiter.refusals = waiter.refusals.saturating_add(1);
        let again = waiter.again;
        if self.is_once(attempt.id) {
            return self.fail(now, attempt.id, AcquireFailure::Contended);
        }
        if again {
            return self.attempt(now, attempt.id);
        }
        self.sleep(now, attempt.id, remaining);
    }

    fn attempt_unanswered(&mut self, now: Moment, attempt: &Attempt, error: StoreError) {
        let gone_by = attempt.subject.gone_by(attempt.lease, now);
        let Some(waiter) = self.waiter_state_mut(attempt.id) else {
            return;
        };
        if error.applied == Applied::Unknown {
            waiter.mark_uncertain_until(gone_by);
        }
        let transient = error.kind.is_transient();
        waiter.last = Some(Last::Failed(error));
        if transient && !self.is_once(attempt.id) {
            self.attempt_later(now, attempt);
        } else {
            self.fail_with_verdict(now, attempt.id);
        }
    }

    /// Schedules the next attempt after a pause, or gives up when the failures have lasted for a whole timeout.
    fn attempt_later(&mut self, now: Moment, attempt: &Attempt) {
        let (timeout, once) = (self.settings.timeout, self.is_once(attempt.id));
        let Some(waiter) = self.waiter_state_mut(attempt.id) else { return };
        let since = *waiter.failing_since.get_or_insert(attempt.sent_at);
        waiter.failures += 1;
        let pause = backoff::after_failures(waiter.failures - 1, attempt.wire.seed());
        let store_failed = matches!(waiter.last, Some(Last::Failed(_)));
        let head_polls = attempt.subject.recipe.policy.polling == Polling::Head;
        match once || now.since(since) >= timeout {
            false => self.timers.set(Timer::Attempt(attempt.id), now + pause),
            true if store_failed && !once && head_polls => self.fail_queue(now, &attempt.subject),
            true => self.fail_with_verdict(now, attempt.id),
        }
    }

    fn fail_with_verdict(&mut self, now: Moment, id: Id) {
        let verdict = self.verdict(now, id);
        self.fail(now, id, verdict);
    }

    /// Fails the whole wait queue after the store has failed for a whole timeout, so that each waiter does not have to
    /// find that out in turn.
    fn fail_queue(&mut self, now: Moment, subject: &Subject) {
        let queue = self.queues.get(subject).cloned().unwrap_or_default();
        let verdicts: Vec<AcquireFailure> = queue.iter().map(|id| self.verdict(now, *id)).collect();
        self.queues.remove(subject);
        self.unlisten(&Listener::Queue(subject.clone()));
        for (id, verdict) in queue.into_iter().zip(verdicts) {
            self.fail(now, id, verdict);
        }
    }

    /// Returns the failure of a waiting acquire if it ends now. A waiter without an attempt of its own uses what the
    /// head of its wait queue knows.
    pub(super) fn verdict(&self, now: Moment, id: Id) -> AcquireFailure {
        let Some((request, waiter)) = self.waiting(id) else {
            return AcquireFailure::Contended;
        };
        // An in-flight attempt may run until its connection is closed, a timeout from now at the latest.
        let arrives_by = self.arrives_by(now, true);
        // A waiter whose grant came too late has an answer, but no wire owner any more.
        if waiter.wire.is_some() || waiter.last.is_some() {
            return waiter.verdict(now, request, arrives_by);
        }
        let head = self.queues.get(&request.subject).and_then(|queue| queue.front());
        match head.and_then(|head| self.waiting(*head)) {
            Some((_, WaiterState { last: Some(Last::TooLate(_)), .. })) | None => AcquireFailure::Contended,
            Some((_, head)) => head.verdict(now, request, arrives_by).without_doubt(),
        }
    }

    /// Sleeps until a wake-up, until the current hold should have ended, or for the polling interval.
    fn sleep(&mut self, now: Moment, id: Id, remaining: Duration) {
        let seed = self.last_owner.wrapping_mul(31).wrapping_add(id.0) ^ self.client.seed();
        let Some((request, waiter)) = self.waiting(id) else { return };
        let nap = match request.backoff {
            Some(backoff) => backoff.after(waiter.refusals.saturating_sub(1), seed),
            None => {
                let jitter = backoff::spread((remaining / 10).min(Duration::from_millis(20)), seed);
                let seen_every = request.subject.recipe.policy.seen_every.unwrap_or(Duration::MAX);
                let longest = self.settings.poll_interval.min(seen_every);
                remaining.saturating_add(Duration::from_millis(1) + jitter).min(longest)
            }
        };
        self.sleep_for(now, id, nap);
    }

    /// Sleeps for `nap` unless a wake-up comes first.
    fn sleep_for(&mut self, now: Moment, id: Id, nap: Duration) {
        let Some((request, waiter)) = self.waiting(id) else { return };
        let subject = request.subject.clone();
        let (listener, wire) = match subject.recipe.policy.polling {
            Polling::Head => (Listener::Queue(subject.clone()), waiter.wire),
            Polling::Each => (Listener::Waiter(id), waiter.wire),
        };
        self.timers.set(Timer::Attempt(id), now + nap);
        // A refused waiter has made an attempt and so has a wire owner. A waiter that sleeps while this client holds
        // the name has no wire owner yet, and listens with the number 0, which no wire owner has.
        let wire = wire.unwrap_or_else(|| WireOwner::new(self.client, 0));
        self.listen(now, listener, subject.channels(wire));
    }

    /// Removes a waiter from its wait queue, undoes what it may have acquired, and lets the next waiter try.
    pub(super) fn leave_queue(&mut self, now: Moment, id: Id, request: &Request, waiter: &WaiterState) {
        self.timers.clear(Timer::Attempt(id));
        self.stop_waiting(id, request);
        self.undo_attempt(now, request, waiter);
        self.remove_from_queue(now, id, &request.subject);
    }

    /// Undoes what a waiter's earlier attempts may have acquired, and its place in a queue on the server. An in-flight
    /// attempt does that when it is answered.
    fn undo_attempt(&mut self, now: Moment, request: &Request, waiter: &WaiterState) {
        let cause = match waiter.unknown_until {
            Some(_) => Cause::UnknownAcquire,
            None if waiter.queued => Cause::UnseenGrant,
            None => return,
        };
        if let (Some(wire), None) = (waiter.wire, waiter.call) {
            let gone_by = request.subject.left_by(request.first_lease(), now, waiter.queued);
            let undo = ReleaseTerms::undo(request.first_lease(), request.units, gone_by, cause);
            self.begin_release(now, wire, &request.subject, undo);
        }
    }

    /// Removes an id from a wait queue. If it was the head, the next waiter tries.
    pub(super) fn remove_from_queue(&mut self, now: Moment, id: Id, subject: &Subject) {
        self.unlisten(&Listener::Waiter(id));
        let Some(queue) = self.queues.get_mut(subject) else {
            return;
        };
        let place = queue.iter().position(|waiter| *waiter == id);
        let was_head = place == Some(0);
        // Waiters that leave a long queue, like granted waiters, are mostly near its front.
        place.and_then(|place| queue.remove(place));
        if queue.is_empty() {
            self.queues.remove(subject);
            self.unlisten(&Listener::Queue(subject.clone()));
        } else if was_head && subject.recipe.policy.polling == Polling::Head {
            self.attempt_unless_held_here(now, subject);
        }
    }

    /// Returns a waiting ticket's request and its waiter state.
    pub(super) fn waiting(&self, id: Id) -> Option<(&Request, &WaiterState)> {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
            return None;
        };
        let Stage::Waiting(waiter) = &acquiring.stage else {
            return None;
        };
        Some((&acquiring.request, waiter))
    }

    pub(super) fn waiter_state_mut(&mut self, id: Id) -> Option<&mut WaiterState> {
        match self.tickets.get_mut(&id) {
            Some(Ticket::Acquire(acquiring)) => match &mut acquiring.stage {
                Stage::Waiting(waiter) => Some(waiter),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_once(&self, id: Id) -> bool {
        matches!(self.tickets.get(&id), Some(Ticket::Acquire(acquiring)) if acquiring.request.wait == Wait::Once)
    }
}

impl Attempt {
    /// Returns the terms of the undo of what the attempt may have acquired.
    fn undo(&self, now: Moment, cause: Cause) -> ReleaseTerms {
        let gone_by = self.subject.left_by(self.lease, now, self.queues);
        ReleaseTerms::undo(self.lease, self.units, gone_by, cause)
    }
}

impl AcquireFailure {
    /// Returns the same failure for a waiter that had sent nothing.
    fn without_doubt(self) -> Self {
        match self {
            Self::Failed(error) | Self::Unknown { error, .. } => Self::Failed(error.not_applied()),
            other => other,
        }
    }
}

impl Subject {
    /// Returns the time by which a hold is certainly gone if nothing arrives at the server after `now`.
    pub(super) fn gone_by(&self, lease: Lease, now: Moment) -> Moment {
        match self.recipe.policy.holding {
            Holding::Leased => lease.gone_by(now),
            Holding::Unending => Moment::NEVER,
            Holding::Nothing => now,
        }
    }

    /// Returns the time by which all effects of an acquire are gone if nothing arrives at the server after `now`. A
    /// place in a queue there may outlive the lease.
    fn left_by(&self, lease: Lease, now: Moment, queued: bool) -> Moment {
        let place = self.recipe.policy.seen_every.filter(|_| queued);
        self.gone_by(lease, now).max(now + place.unwrap_or_default() * PLACE_INTERVALS)
    }

    /// Marks an error as not applied where that is certain. A script reads its key by a command of the key's type
    /// before it writes, so a key of another type is unchanged. A script that only reads changes nothing however it
    /// ends.
    fn mark_unapplied(&self, error: StoreError) -> StoreError {
        let only_reads = self.recipe.policy.holding == Holding::Nothing;
        if only_reads || error.kind == StoreErrorKind::WrongType { error.not_applied() } else { error }
    }

    /// Reads an acquire's reply. A reply that the script cannot give leaves the script's effect unknown.
    pub(super) fn read(&self, reply: &Reply) -> Result<Answer, StoreError> {
        (self.recipe.read_acquire)(reply).ok_or_else(|| self.malformed(Verb::Acquire))
    }

    pub(super) fn malformed(&self, during: Verb) -> StoreError {
        StoreError::new(StoreErrorKind::Malformed, during, self.name.as_str().into(), Applied::Unknown)
    }

    /// Returns the error of a call that was not answered in the time that its caller had.
    pub(super) fn timed_out(&self, during: Verb) -> StoreError {
        StoreError::new(StoreErrorKind::Timeout, during, self.name.as_str().into(), Applied::Unknown)
    }
}
