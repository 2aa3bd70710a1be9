//! The line of local waiters of one name, and the questions that its head asks the store.
//!
//! Invariant: of the waiters in a line only the head asks, with at most one question on its way. Unless this client
//! itself holds the name, it sleeps only after it has asked; once it listens it asks again, and never sleeps longer than
//! the polling interval.
//! Called by: the engine's step.
//!
//! # How it works
//! Ask; when refused listen, and ask again once the subscription stands, since a wake-up from before is lost; then
//! sleep until a wake-up, the end of the present hold, or the polling interval. An `Once` request asks beside the line.
//! While this client itself holds the name, the head need not ask: the release comes by here.

use std::time::Duration;

use super::ticket::{AcquireFailure, Acquiring, Settlement, Stage, Ticket};
use super::timer::Timer;
use super::undo::{Cause, Leaving};
use super::{CallId, Engine, Id, Purpose, Request, Subject, Wait};
use crate::backoff;
use crate::call::Reply;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError, StoreErrorKind, Verb};
use crate::owner::WireOwner;
use crate::recipe::{Answer, Ask};

/// What a waiter knows of its own questions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    /// The owner it asks for: one for all its questions, since a refusal wrote nothing and a grant is set, not added.
    wire: Option<WireOwner>,
    /// The question on its way.
    call: Option<CallId>,
    /// A wake-up arrived while the question was on its way, so its answer may be older than the wake-up.
    again: bool,
    /// A question may have been granted without our knowing; by then that has run out.
    unknown_until: Option<Moment>,
    /// Since when, and how often, the store has failed without an answer in between.
    failing_since: Option<Moment>,
    failures: u32,
    /// What the last answer was.
    last: Option<Last>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Last {
    Refused,
    Failed(StoreError),
    TooLate(Duration),
}

/// A question on its way; it is read to the end even when its waiter has gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    id: Id,
    subject: Subject,
    wire: WireOwner,
    lease: Lease,
    sent_at: Moment,
    /// An earlier question of the same owner has an unknown outcome.
    doubtful: bool,
}

impl Asking {
    /// Something of this acquire may stand on the server until then, whatever its next questions come to.
    pub(super) fn doubt_until(&mut self, until: Moment) {
        self.unknown_until = self.unknown_until.max(Some(until));
    }

    /// How the acquire ends if it ends now.
    fn verdict(&self, now: Moment, request: &Request, arrives_by: Moment) -> AcquireFailure {
        let error = match &self.last {
            Some(Last::Refused) => return AcquireFailure::Contended,
            Some(Last::TooLate(took)) => {
                return AcquireFailure::LeaseTooShort { lease: request.lease, took: *took };
            }
            Some(Last::Failed(error)) => error.clone(),
            None if self.wire.is_none() => return AcquireFailure::Contended,
            None => request.subject.timed_out(Verb::Acquire),
        };
        let asking_until = self.call.map(|_| request.first_lease().gone_by(arrives_by));
        match self.unknown_until.max(asking_until) {
            Some(until) => AcquireFailure::Unknown { free_within: until.since(now), error },
            None => AcquireFailure::Failed(error),
        }
    }
}

impl Request {
    /// The lease to begin with: no longer than the hold may last.
    pub(super) fn first_lease(&self) -> Lease {
        self.max_hold.map_or(self.lease, |most| self.lease.min(Lease::clamped(most)))
    }
}

impl Engine {
    pub(super) fn acquire(&mut self, now: Moment, id: Id, request: Request) {
        if self.closing.is_some() {
            return self.settle(id, Settlement::Acquired(Err(AcquireFailure::Closed)));
        }
        if let Wait::Until(deadline) = request.wait {
            self.timers.set(Timer::Deadline(id), deadline);
        }
        let holder = self.holders.get(&(request.subject.clone(), request.owner)).copied();
        let (subject, once) = (request.subject.clone(), request.wait == Wait::Once);
        let stage = Stage::Waiting(Asking::default());
        self.tickets.insert(id, Ticket::Acquire(Box::new(Acquiring { request, stage })));
        if let Some(wire) = holder {
            self.enter(now, id, wire);
        } else if once {
            self.ask(now, id);
        } else {
            let line = self.lines.entry(subject.clone()).or_default();
            line.push_back(id);
            if line.len() == 1 {
                self.ask_unless_held_here(now, &subject);
            }
        }
    }

    /// Lets the head of a line ask, unless this very client holds the name: then it sleeps until that ends.
    pub(super) fn ask_unless_held_here(&mut self, now: Moment, subject: &Subject) {
        let Some(&head) = self.lines.get(subject).and_then(|line| line.front()) else {
            return;
        };
        match self.held_here_for(subject, now) {
            Some(remaining) => self.sleep(now, head, remaining),
            None => self.ask(now, head),
        }
    }

    /// Sends a waiter's question, or notes that it must be sent once more.
    pub(super) fn ask(&mut self, now: Moment, id: Id) {
        let Some(asking) = self.asking(id) else { return };
        if asking.call.is_some() {
            asking.again = true;
            return;
        }
        let (known, doubtful) = (asking.wire, asking.unknown_until.is_some());
        let wire = known.unwrap_or_else(|| self.next_owner());
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
            return;
        };
        let (subject, lease) = (acquiring.request.subject.clone(), acquiring.request.first_lease());
        let call = subject.recipe.acquire(&Ask { name: &subject.name, owner: wire, lease, count: 1 });
        self.timers.clear(Timer::Ask(id));
        let call =
            self.run(call, Purpose::Ask(Question { id, subject, wire, lease, sent_at: now, doubtful }));
        if let Some(asking) = self.asking(id) {
            asking.wire = Some(wire);
            asking.call = Some(call);
            asking.again = false;
        }
    }

    /// The answer to a question, whether its waiter is still there or not.
    pub(super) fn answered(
        &mut self,
        now: Moment,
        call: CallId,
        question: Question,
        result: Result<Reply, StoreError>,
    ) {
        let answer = result.map_err(surely_untouched).and_then(|reply| question.subject.read(&reply));
        let waits = self.asking(question.id).is_some_and(|asking| asking.call == Some(call));
        if !waits {
            return self.answered_nobody(now, &question, &answer);
        }
        if let Some(asking) = self.asking(question.id) {
            asking.call = None;
        }
        match answer {
            Ok(Answer::Granted) => self.granted(now, &question),
            Ok(Answer::Refused { remaining }) => self.refused(now, &question, remaining),
            Ok(Answer::NoExpiry) => self.fail(now, question.id, AcquireFailure::NoExpiry),
            Err(error) => self.unanswered(now, &question, error),
        }
    }

    /// Nobody waits for it any more: what it may have taken is given back.
    fn answered_nobody(&mut self, now: Moment, question: &Question, answer: &Result<Answer, StoreError>) {
        let cause = match answer {
            Ok(Answer::Granted) => Cause::UnseenGrant,
            Err(error) if error.applied == Applied::Unknown => Cause::UnknownAcquire,
            Ok(_) | Err(_) if question.doubtful => Cause::UnknownAcquire,
            Ok(_) | Err(_) => return,
        };
        self.begin_parting(now, question.wire, &question.subject, Leaving::undo(now, question.lease, cause));
    }

    fn granted(&mut self, now: Moment, question: &Question) {
        if now < question.lease.valid_until(question.sent_at) {
            self.begin_tenure(now, question.id, question.wire, question.lease, question.sent_at);
            return;
        }
        // Nothing is left to trust. The owner is burnt; the next question has another.
        let undo = Leaving::undo(now, question.lease, Cause::UnseenGrant);
        self.begin_parting(now, question.wire, &question.subject, undo);
        let took = now.since(question.sent_at);
        if let Some(asking) = self.asking(question.id) {
            asking.wire = None;
            asking.unknown_until = None;
            asking.last = Some(Last::TooLate(took));
        }
        self.ask_later(now, question);
    }

    fn refused(&mut self, now: Moment, question: &Question, remaining: Duration) {
        let Some(asking) = self.asking(question.id) else {
            return;
        };
        asking.last = Some(Last::Refused);
        asking.failing_since = None;
        asking.failures = 0;
        let again = asking.again;
        if self.is_once(question.id) {
            return self.fail(now, question.id, AcquireFailure::Contended);
        }
        if again {
            return self.ask(now, question.id);
        }
        self.sleep(now, question.id, remaining);
    }

    fn unanswered(&mut self, now: Moment, question: &Question, error: StoreError) {
        let gone_by = question.lease.gone_by(now);
        let Some(asking) = self.asking(question.id) else {
            return;
        };
        if error.applied == Applied::Unknown {
            asking.doubt_until(gone_by);
        }
        let transient = error.kind.is_transient();
        asking.last = Some(Last::Failed(error));
        if transient && !self.is_once(question.id) {
            self.ask_later(now, question);
        } else {
            self.fail_with_verdict(now, question.id);
        }
    }

    /// Asks again after a pause, or gives up when that has gone on for a whole timeout.
    fn ask_later(&mut self, now: Moment, question: &Question) {
        let (timeout, once) = (self.settings.timeout, self.is_once(question.id));
        let Some(asking) = self.asking(question.id) else { return };
        let since = *asking.failing_since.get_or_insert(question.sent_at);
        asking.failures += 1;
        let pause = backoff::after_failures(asking.failures - 1, question.wire.seed());
        let store_failed = matches!(asking.last, Some(Last::Failed(_)));
        match once || now.since(since) >= timeout {
            false => self.timers.set(Timer::Ask(question.id), now + pause),
            true if store_failed && !once => self.fail_line(now, &question.subject),
            true => self.fail_with_verdict(now, question.id),
        }
    }

    fn fail_with_verdict(&mut self, now: Moment, id: Id) {
        let verdict = self.verdict(now, id);
        self.fail(now, id, verdict);
    }

    /// The store has failed for a whole timeout: those behind the head need not find that out one after the other.
    fn fail_line(&mut self, now: Moment, subject: &Subject) {
        let line = self.lines.get(subject).cloned().unwrap_or_default();
        let verdicts: Vec<AcquireFailure> = line.iter().map(|id| self.verdict(now, *id)).collect();
        self.lines.remove(subject);
        self.unlisten(subject);
        for (id, verdict) in line.into_iter().zip(verdicts) {
            self.fail(now, id, verdict);
        }
    }

    /// How a waiting acquire ends if it ends now. One that has not asked yet knows what the head of its line knows.
    pub(super) fn verdict(&self, now: Moment, id: Id) -> AcquireFailure {
        let Some((request, asking)) = self.waiting(id) else {
            return AcquireFailure::Contended;
        };
        // A question on its way may be executed until its connection is closed, a timeout from now at the latest.
        let arrives_by = self.arrives_by(now, true);
        // A grant that came too late has burnt the owner that it was asked for with.
        if asking.wire.is_some() || asking.last.is_some() {
            return asking.verdict(now, request, arrives_by);
        }
        let head = self.lines.get(&request.subject).and_then(|line| line.front());
        match head.and_then(|head| self.waiting(*head)) {
            Some((_, Asking { last: Some(Last::TooLate(_)), .. })) | None => AcquireFailure::Contended,
            Some((_, head)) => head.verdict(now, request, arrives_by).not_applied(),
        }
    }

    /// Sleeps until woken, until the present hold should have ended, or for the polling interval.
    fn sleep(&mut self, now: Moment, id: Id, remaining: Duration) {
        let seed = self.last_owner.wrapping_mul(31).wrapping_add(id.0) ^ self.client.seed();
        let jitter = backoff::spread((remaining / 10).min(Duration::from_millis(20)), seed);
        let nap =
            remaining.saturating_add(Duration::from_millis(1) + jitter).min(self.settings.poll_interval);
        if let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) {
            let subject = acquiring.request.subject.clone();
            self.listen(&subject);
            self.timers.set(Timer::Ask(id), now + nap);
        }
    }

    /// Takes a waiter out of its line, undoes what it may have taken, and lets the next one ask.
    pub(super) fn leave_line(&mut self, now: Moment, id: Id, request: &Request, asking: &Asking) {
        self.timers.clear(Timer::Ask(id));
        self.undo_asked(now, request, asking);
        self.step_out(now, id, &request.subject);
    }

    /// Takes back what a waiter's earlier questions may have taken. A question on its way does that when it is answered.
    pub(super) fn undo_asked(&mut self, now: Moment, request: &Request, asking: &Asking) {
        if let (Some(wire), Some(_), None) = (asking.wire, asking.unknown_until, asking.call) {
            let undo = Leaving::undo(now, request.first_lease(), Cause::UnknownAcquire);
            self.begin_parting(now, wire, &request.subject, undo);
        }
    }

    /// Takes an id out of a line; when it was the head the next one asks.
    pub(super) fn step_out(&mut self, now: Moment, id: Id, subject: &Subject) {
        let Some(line) = self.lines.get_mut(subject) else {
            return;
        };
        let was_head = line.front() == Some(&id);
        line.retain(|waiter| *waiter != id);
        if line.is_empty() {
            self.lines.remove(subject);
            self.unlisten(subject);
        } else if was_head {
            self.ask_unless_held_here(now, subject);
        }
    }

    /// A ticket that stands in line, and what it knows of its questions.
    pub(super) fn waiting(&self, id: Id) -> Option<(&Request, &Asking)> {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
            return None;
        };
        let Stage::Waiting(asking) = &acquiring.stage else {
            return None;
        };
        Some((&acquiring.request, asking))
    }

    pub(super) fn asking(&mut self, id: Id) -> Option<&mut Asking> {
        match self.tickets.get_mut(&id) {
            Some(Ticket::Acquire(acquiring)) => match &mut acquiring.stage {
                Stage::Waiting(asking) => Some(asking),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_once(&self, id: Id) -> bool {
        matches!(self.tickets.get(&id), Some(Ticket::Acquire(acquiring)) if acquiring.request.wait == Wait::Once)
    }
}

/// A script looks at its key by a command of the key's type before it writes: a key of another type is as it was.
fn surely_untouched(error: StoreError) -> StoreError {
    if error.kind == StoreErrorKind::WrongType { error.not_applied() } else { error }
}

impl AcquireFailure {
    /// The same failure for somebody who had sent nothing.
    fn not_applied(self) -> Self {
        match self {
            Self::Failed(error) | Self::Unknown { error, .. } => Self::Failed(error.not_applied()),
            other => other,
        }
    }
}

impl Subject {
    /// What an acquire's reply means; a reply that the script cannot give leaves its effect unknown.
    pub(super) fn read(&self, reply: &Reply) -> Result<Answer, StoreError> {
        self.recipe.read_acquire(reply).ok_or_else(|| self.malformed(Verb::Acquire))
    }

    pub(super) fn malformed(&self, during: Verb) -> StoreError {
        StoreError::new(StoreErrorKind::Malformed, during, self.name.as_str().into(), Applied::Unknown)
    }

    /// The error of a call that was not answered in the time that its caller had.
    pub(super) fn timed_out(&self, during: Verb) -> StoreError {
        StoreError::new(StoreErrorKind::Timeout, during, self.name.as_str().into(), Applied::Unknown)
    }
}
