//! Attempts: the calls that acquire for a waiter, and the handling of their answers.
//!
//! Invariant: every answer is read, even if its waiter is gone (`queue_answer`, `waiter_answer`).
//!
//! # How it works
//! A queue for an exclusive lock makes one attempt at a time. For permits and read holds it makes several:
//! each grant doubles the number of attempts, and a refusal ends that until there is news.

use std::sync::Arc;

use crate::call::Call;
use crate::engine::base::certain::{Certain, OPEN};
use crate::engine::base::context::Purpose;
use crate::engine::base::keys::{NameId, QueueId, Sides};
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::terms::Terms;
use crate::engine::base::timers::Timer;
use crate::engine::holds::hold::Cause;
use crate::engine::holds::tokens::Tokens;
use crate::engine::waits::Waits;
use crate::engine::waits::acquire::Acquire;
use crate::engine::waits::calls::{Attempt, By, WaitCall};
use crate::engine::waits::tries::{Tries, Used};
use crate::engine::{Id, Subject};
use crate::id::CallId;
use crate::moment::Moment;
use crate::outcome::{StoreError, StoreErrorKind, Verb};
use crate::owner::Owner;
use crate::recipe::{Answer, CallArgs, CallContext, Recipe};
use crate::reply::Reply;

impl Waits {
    /// Makes an attempt for the first waiter of a queue, or notes that another attempt must follow the one on its way.
    pub(in crate::engine) fn attempt(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue_mut(id).certain("only an open queue makes attempts")
        else {
            return;
        };
        if queue.tries.call.is_some() {
            queue.tries.again = true;
        } else {
            self.attempt_first(now, id);
        }
        self.attempt_extra(now, id);
    }

    /// Makes an attempt for the first waiter of a queue for which none is on its way.
    pub(in crate::engine) fn attempt_first(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue(id).certain("only an open queue makes attempts") else {
            return;
        };
        let unattempted =
            |acquire: &Acquire| acquire.waiter().is_some_and(|waiter| waiter.attempted.is_none());
        let Some((waiter, acquire)) =
            queue.waiters(&self.holds.cx.tickets).find(|(_, acquire)| unattempted(acquire))
        else {
            return;
        };
        let terms = Arc::clone(&acquire.terms);
        let mut tries = self
            .holds
            .cx
            .names
            .queue_mut(id)
            .map(|queue| std::mem::take(&mut queue.tries))
            .unwrap_or_default();
        tries.alarm.clear(&mut self.holds.cx.timers, Timer::Queue(id));
        tries.shares = false;
        let attempt = self.next_attempt(now, id, (waiter, By::Queue), &mut tries, &terms);
        tries.call = Some(self.send_attempt(attempt));
        if let Some(queue) = self.holds.cx.names.queue_mut(id) {
            queue.tries = tries;
        }
    }

    /// Makes attempts for the next waiters of a queue whose primitive several can have at once, as many as the last
    /// answers suggest.
    pub(in crate::engine) fn attempt_extra(&mut self, now: Moment, id: QueueId) {
        let Some(queue) = self.holds.cx.names.queue(id).certain(OPEN) else { return };
        let room = queue.room_for_extra();
        let Some((_, first)) = queue.waiters(&self.holds.cx.tickets).next() else { return };
        let holding = first.recipe().holding;
        if room == 0 || holding.is_exclusive() || holding.is_event() {
            return;
        }
        let attempted = |acquire: &Acquire| acquire.waiter().is_none_or(|waiter| waiter.attempted.is_some());
        let alike =
            queue.waiters(&self.holds.cx.tickets).take_while(|(_, acquire)| acquire.terms.fit(&first.terms));
        let next: Vec<(Id, Arc<Terms>)> = alike
            .filter(|(_, acquire)| !attempted(acquire))
            .take(room as usize)
            .map(|(id, acquire)| (id, Arc::clone(&acquire.terms)))
            .collect();
        for (waiter, terms) in next {
            let attempt = self.next_attempt(now, id, (waiter, By::Extra), &mut Tries::default(), &terms);
            self.send_attempt(attempt);
            if let Some(queue) = self.holds.cx.names.queue_mut(id) {
                queue.extra_sent();
            }
        }
    }

    /// Sends the attempt of a waiter that makes its own, or notes that another one must follow the one on its way.
    pub(in crate::engine) fn attempt_alone(&mut self, now: Moment, id: Id) {
        let Some(acquire) = self.holds.cx.acquire_of_mut(id).certain("only a waiter makes attempts") else {
            return;
        };
        let (queue, terms) = (acquire.queue(), Arc::clone(&acquire.terms));
        let Some(waiter) = acquire.waiter_mut().certain("only a waiter makes attempts") else { return };
        let mut tries = waiter.tries.take().unwrap_or_default();
        if tries.call.is_some() {
            tries.again = true;
        } else {
            tries.alarm.clear(&mut self.holds.cx.timers, Timer::Waiter(id));
            let attempt = self.next_attempt(now, queue, (id, By::Waiter), &mut tries, &terms);
            tries.call = Some(self.send_attempt(attempt));
        }
        if let Some(waiter) = self.holds.cx.acquire_of_mut(id).and_then(Acquire::waiter_mut) {
            waiter.tries = Some(tries);
        }
    }

    /// Creates an attempt under the wire owner of earlier ones, if it was used for the same terms.
    fn next_attempt(
        &mut self,
        now: Moment,
        queue: QueueId,
        (waiter, by): (Id, By),
        tries: &mut Tries,
        terms: &Arc<Terms>,
    ) -> Attempt {
        if tries.wire.as_ref().is_some_and(|used| !used.terms.fit(terms)) {
            self.undo_tries(now, queue.name, tries);
            tries.drop_wire();
        }
        let used = tries.wire.get_or_insert_with(|| {
            let many = (terms.recipe().owners)(terms.units);
            let number = self.holds.cx.next_number(many);
            let waiters = self.holds.cx.names.queue(queue).filter(|_| by == By::Queue);
            let next = waiters.and_then(|queue| queue.waiters(&self.holds.cx.tickets).nth(1));
            let passes_on = |terms: &Terms| !self.holds.cx.hand_off_bound(terms).is_zero();
            let may_pass_on = next.is_some_and(|(_, next)| passes_on(terms) && passes_on(&next.terms));
            let tokens = Tokens::to_reserve(may_pass_on);
            Used { number, terms: Arc::clone(terms), tokens }
        });
        let (number, tokens) = (used.number, used.tokens);
        tries.again = false;
        let once = self.holds.cx.acquire_of(waiter).is_some_and(Acquire::is_once);
        Attempt {
            queue,
            waiter,
            by,
            number,
            tokens,
            terms: Arc::clone(terms),
            lease: terms.first_lease(),
            sent_at: now,
            uncertain: tries.unknown_until.is_some(),
            is_repeated: tries.refusals > 0,
            polls: tries.polls,
            queues: terms.recipe().waiters.are_known() && !once,
        }
    }

    fn send_attempt(&mut self, attempt: Attempt) -> CallId {
        let terms = &attempt.terms;
        let subject = self.subject_of_attempt(&attempt);
        let acquire = self.holds.cx.acquire_of(attempt.waiter);
        let once = acquire.is_some_and(Acquire::is_once);
        let companion =
            acquire.and_then(|acquire| self.companion(acquire)).map(|number| self.holds.cx.wire(number));
        let wire = self.holds.cx.wire(attempt.number);
        let marks = !once
            && (attempt.is_repeated || self.holds.cx.subscriptions.hears(Listener::Queue(attempt.queue)));
        let context = CallContext {
            once,
            uncertain: attempt.uncertain,
            marks,
            polls: attempt.polls,
            ..CallContext::default()
        };
        let args = CallArgs::new(&subject, wire, attempt.lease);
        let call =
            acquire_call(&subject, terms, CallArgs { context, companion, tokens: attempt.tokens, ..args });
        let (by, waiter, name) = (attempt.by, attempt.waiter, attempt.queue.name);
        let call = self.holds.cx.send(call, Purpose::Wait(WaitCall::Attempt(attempt)));
        self.holds.cx.note(|facts| facts.attempted(waiter));
        if by == By::Waiter {
            self.holds.cx.names.add_use(name);
        } else if let Some(waiter) = self.holds.cx.acquire_of_mut(waiter).and_then(Acquire::waiter_mut) {
            waiter.attempted = Some(call);
        }
        call
    }

    /// Handles the answer to an attempt.
    pub(in crate::engine) fn attempt_answered(
        &mut self,
        now: Moment,
        call: CallId,
        attempt: &Attempt,
        result: Result<Reply, StoreError>,
    ) {
        let subject = self.subject_of_attempt(attempt);
        let answer = result
            .map_err(|error| mark_unapplied(&subject, error))
            .and_then(|reply| read_acquired(&subject, &reply));
        self.attempt_read(now, call, attempt, answer);
    }

    /// Handles the answer to an attempt, once it is read.
    pub(in crate::engine) fn attempt_read(
        &mut self,
        now: Moment,
        call: CallId,
        attempt: &Attempt,
        answer: Result<Answer, StoreError>,
    ) {
        let failed = answer.is_err();
        if !failed {
            self.deadline_is_over(now, attempt.waiter);
        }
        match attempt.by {
            By::Waiter => self.waiter_answered(now, call, attempt, answer),
            By::Queue | By::Extra => self.queue_answered(now, attempt, answer),
        }
        if failed {
            self.deadline_due(now, attempt.waiter);
        }
        self.close_queue_if_over(now, attempt.queue);
        if attempt.by == By::Waiter {
            self.holds.cx.names.end_use(attempt.queue.name);
        }
    }

    /// Moves the waiters of an owner that has just acquired the companion out of their queue, and makes
    /// attempts for each of them. A waiter before them in the queue may wait for that hold.
    pub(in crate::engine) fn attempt_companion(
        &mut self,
        now: Moment,
        name: NameId,
        granted: &Recipe,
        owner: Owner,
    ) {
        let Some(companion) = granted.companion else { return };
        for id in self.waiters_of(name, companion.held_side(), owner) {
            let Some(acquire) = self.holds.cx.acquire_of(id) else { continue };
            let queue = acquire.queue();
            if acquire.is_once() || queue.side != companion.side() {
                continue;
            }
            if acquire.tries().is_none() {
                self.unlink(id);
            }
            self.attempt_alone(now, id);
            self.close_queue_if_over(now, queue);
        }
    }

    /// Returns what an attempt is for.
    pub(in crate::engine) fn subject_of_attempt(&self, attempt: &Attempt) -> Subject {
        self.holds.cx.names.get(attempt.queue.name).subject(attempt.terms.recipe())
    }

    /// Undoes what an attempt has, or may have, left on the server.
    pub(in crate::engine) fn undo_attempt(&mut self, now: Moment, attempt: &Attempt, cause: Cause) {
        let Attempt { queue, number, terms, lease, queues, .. } = attempt;
        self.holds.undo(now, queue.name, *number, terms, (*lease, *queues, cause));
    }
}

impl Attempt {
    /// Returns true if a grant that arrives now has no validity left.
    pub(in crate::engine) fn is_too_late(&self, now: Moment) -> bool {
        let leased = self.terms.recipe().holding.is_leased();
        leased && now + self.terms.margin >= self.lease.valid_until(self.sent_at)
    }
}

/// Returns the call that acquires under these terms.
pub(in crate::engine) fn acquire_call(subject: &Subject, terms: &Terms, args: CallArgs<'_>) -> Call {
    let args = CallArgs { uptime: terms.uptime, giver: terms.giver, ..args.units(terms.units) };
    let call = (terms.recipe().acquire)(&args).woken_by(subject, args.owner);
    subject.confirmed(call, terms.replicas)
}

/// Marks an error as not applied where that is certain. A script reads its key by a command of the key's type
/// before it writes, so a key of another type is unchanged. A script that only reads changes nothing however it
/// ends.
fn mark_unapplied(subject: &Subject, error: StoreError) -> StoreError {
    let only_reads = subject.recipe.holding.is_event();
    if only_reads || error.kind == StoreErrorKind::WrongType { error.not_applied() } else { error }
}

/// Reads an acquire's reply. A reply that the script cannot give leaves the script's effect unknown.
fn read_acquired(subject: &Subject, reply: &Reply) -> Result<Answer, StoreError> {
    (subject.recipe.read_acquire)(reply).ok_or_else(|| subject.malformed(Verb::Acquire))
}
