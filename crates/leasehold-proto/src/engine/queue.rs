//! The line of local waiters of one name, and the questions that its head asks the store.
//!
//! Invariant: of the waiters in a line only the head asks, or each for itself where the server keeps the order or its
//! owner holds the other side, with at most one question apiece on its way. Unless this client itself holds the name
//! exclusively, a waiter sleeps only after it has asked; once it listens it asks again, and never sleeps longer than the
//! polling interval.
//! Called by: the engine's step.
//!
//! # How it works
//! Ask; when refused listen, and ask again once the subscription stands, since a wake-up from before is lost; then
//! sleep until a wake-up, the end of the present hold, or the polling interval. An `Once` request asks beside the line.
//! While this client itself holds the name, the head does not ask: the release comes by here. It listens all the same: a
//! message then may mean that the hold was taken away by force, so the head asks once.

use std::time::Duration;

use super::ticket::{AcquireFailure, Acquiring, Settlement, Stage, Ticket};
use super::timer::Timer;
use super::undo::{Cause, Leaving};
use super::wakeup::Listener;
use super::{CallId, Engine, Grant, Id, Purpose, Request, Subject, Wait};
use crate::backoff;
use crate::call::Reply;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{Applied, FreeWithin, StoreError, StoreErrorKind, Verb};
use crate::owner::{Owner, WireOwner};
use crate::recipe::{Answer, Ask, Holding, Line, Standing};

/// For how many times as long as a waiter has to show itself its place in a queue lasts at most.
const PLACE_LASTS: u32 = 4;

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
    /// How often in a row it was refused.
    refusals: u32,
    /// It was refused under its present wire owner, where that leaves it in a queue on the server.
    queued: bool,
    /// What the last answer was.
    last: Option<Last>,
    /// It has waited for a hold of this very client.
    behind: bool,
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
    units: u32,
    /// An earlier question of the same owner has an unknown outcome.
    doubtful: bool,
    /// Somebody who is refused stands in a queue on the server.
    queues: bool,
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
            // Its turn may have come too late for an answer; before that the lock was somebody else's.
            None if self.wire.is_none() || self.behind => return AcquireFailure::Contended,
            None => request.subject.timed_out(Verb::Acquire),
        };
        let asking_until = self.call.map(|_| request.subject.gone_by(request.first_lease(), arrives_by));
        match self.unknown_until.max(asking_until) {
            Some(until) => AcquireFailure::Unknown { free_within: FreeWithin::until(until, now), error },
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
        let held = request.subject.as_held();
        let holder = self.holder(&held, request.owner);
        let deadlock = self.holds_what_blocks(&request.subject, request.owner);
        let Request { subject, owner, wait, reenters, .. } = &request;
        let (subject, owner, once, reenters) = (subject.clone(), *owner, *wait == Wait::Once, *reenters);
        let stage = Stage::Waiting(Asking::default());
        self.tickets.insert(id, Ticket::Acquire(Box::new(Acquiring { request, stage })));
        match holder {
            Some(_) if !reenters => self.fail(now, id, AcquireFailure::AlreadyHeld),
            Some(wire) => self.enter(now, id, wire),
            None if deadlock => self.fail(now, id, AcquireFailure::Deadlock),
            None => {
                if held.recipe.manner().counted {
                    self.waiters.insert((held, owner, id));
                }
                if once { self.ask(now, id) } else { self.stand_in_line(now, id, &subject, owner) }
            }
        }
    }

    /// The waiter is granted, or leaves: it does not wait for a hold of its owner any more.
    pub(super) fn stop_waiting(&mut self, id: Id, request: &Request) {
        self.waiters.remove(&(request.subject.as_held(), request.owner, id));
    }

    /// Whether the same owner holds what keeps it from ever being granted, and stays when it goes.
    pub(super) fn holds_what_blocks(&self, subject: &Subject, owner: Owner) -> bool {
        let held = subject.recipe.blocked_by();
        held.is_some_and(|recipe| self.holder(&subject.by(recipe), owner).is_some())
    }

    fn stand_in_line(&mut self, now: Moment, id: Id, subject: &Subject, owner: Owner) {
        let beside = self.holder_beside(subject, owner).is_some();
        let line = self.lines.entry(subject.clone()).or_default();
        line.push_back(id);
        match subject.recipe.manner().line {
            Line::Head if line.len() == 1 => self.ask_unless_held_here(now, subject),
            Line::Head if !beside => {}
            Line::Head | Line::Each => self.ask(now, id),
        }
    }

    /// The wire owner of what the same owner holds beside it.
    fn holder_beside(&self, subject: &Subject, owner: Owner) -> Option<WireOwner> {
        subject.recipe.beside().and_then(|recipe| self.holder(&subject.by(recipe), owner))
    }

    /// An owner has got what matters to its own waiters for the other side: whoever is before them may wait for it.
    pub(super) fn ask_beside(&mut self, now: Moment, subject: &Subject, owner: Owner) {
        let other = subject.recipe.beside().map(|recipe| subject.by(recipe));
        let line: Vec<Id> =
            other.and_then(|other| self.lines.get(&other)).into_iter().flatten().copied().collect();
        for id in line {
            if self.waiting(id).is_some_and(|(request, _)| request.owner == owner) {
                self.ask(now, id);
            }
        }
    }

    /// Lets the head of a line ask, unless this very client holds the name and nothing speaks against it: then it sleeps
    /// until that ends.
    pub(super) fn ask_unless_held_here(&mut self, now: Moment, subject: &Subject) {
        let Some(&head) = self.lines.get(subject).and_then(|line| line.front()) else {
            return;
        };
        let exclusive = subject.recipe.manner().exclusive;
        let Some(tenure) = self.held_here(subject, now).filter(|_| exclusive) else {
            return self.ask(now, head);
        };
        if now >= tenure.doubt_from {
            tenure.doubt_from = Moment::NEVER;
            return self.ask(now, head);
        }
        let nap = tenure.remaining(now).min(tenure.doubt_from.since(now));
        if let Some(asking) = self.asking(head) {
            asking.behind = true;
        }
        match subject.recipe.manner().seen_every {
            None => self.sleep_for(now, head, nap),
            Some(seen_every) => self.sleep_for(now, head, nap.min(seen_every)),
        }
    }

    /// A waiter's sleep is over. One that has to show itself asks, whoever holds the name.
    pub(super) fn ask_in_turn(&mut self, now: Moment, id: Id) {
        let Some((Request { subject, .. }, _)) = self.waiting(id) else { return };
        let (subject, manner) = (subject.clone(), subject.recipe.manner());
        let is_head = self.lines.get(&subject).and_then(|line| line.front()) == Some(&id);
        if is_head && manner.line == Line::Head && manner.seen_every.is_none() {
            self.ask_unless_held_here(now, &subject);
        } else {
            self.ask(now, id);
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
        // Whatever happened since: a failed question does not undo what an earlier one has seen.
        let refused = asking.refusals > 0;
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
            return;
        };
        let Request { subject, owner, units, wait, .. } = &acquiring.request;
        let (subject, owner, units, once) = (subject.clone(), *owner, *units, *wait == Wait::Once);
        let (lease, uptime) = (acquiring.request.first_lease(), acquiring.request.uptime);
        let wire = known.unwrap_or_else(|| self.next_owner(subject.recipe.owners(units)));
        let standing = Standing { once, refused, granted: false, doubtful };
        let beside = self.holder_beside(&subject, owner);
        let ask = Ask { standing, beside, uptime, ..Ask::new(&subject, wire, lease).units(units) };
        let call = subject.recipe.acquire(&ask).woken_by(subject.recipe.channels(&subject, wire));
        let queues = subject.recipe.manner().queued && !once;
        self.timers.clear(Timer::Ask(id));
        let question = Question { id, subject, wire, lease, sent_at: now, units, doubtful, queues };
        let call = self.run(call, Purpose::Ask(question));
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
        let subject = &question.subject;
        let answer =
            result.map_err(|error| subject.surely_untouched(error)).and_then(|reply| subject.read(&reply));
        let waits = self.asking(question.id).is_some_and(|asking| asking.call == Some(call));
        if !waits {
            return self.answered_nobody(now, &question, &answer);
        }
        if let Some(asking) = self.asking(question.id) {
            asking.call = None;
            // Whatever it was told, unless it failed: its script may have put it into the queue.
            asking.queued |= question.queues && answer.is_ok();
        }
        match answer {
            Ok(Answer::Granted { token }) => self.granted(now, &question, token),
            Ok(Answer::Refused { remaining }) => self.refused(now, &question, remaining),
            Ok(Answer::NoExpiry) => self.fail(now, question.id, AcquireFailure::NoExpiry),
            Ok(Answer::Deadlock) => self.fail(now, question.id, AcquireFailure::Deadlock),
            Ok(Answer::Deleted) => self.fail(now, question.id, AcquireFailure::Deleted),
            Ok(Answer::Young { remaining }) if self.is_once(question.id) => {
                self.fail(now, question.id, AcquireFailure::Young { remaining });
            }
            Ok(Answer::Young { remaining }) => self.refused(now, &question, remaining),
            Err(error) => self.unanswered(now, &question, error),
        }
    }

    /// Nobody waits for it any more: what it may have taken is given back.
    fn answered_nobody(&mut self, now: Moment, question: &Question, answer: &Result<Answer, StoreError>) {
        let cause = match answer {
            Ok(_) if question.subject.recipe.manner().holding == Holding::Nothing => return,
            Ok(Answer::Granted { .. }) => Cause::UnseenGrant,
            Err(error) if error.applied == Applied::Unknown => Cause::UnknownAcquire,
            Ok(_) | Err(_) if question.doubtful => Cause::UnknownAcquire,
            Ok(_) | Err(_) if question.queues => Cause::UnseenGrant,
            Ok(_) | Err(_) => return,
        };
        self.begin_parting(now, question.wire, &question.subject, question.undo(now, cause));
    }

    fn granted(&mut self, now: Moment, question: &Question, token: Option<u64>) {
        let Question { id, subject, wire, .. } = question;
        let grant = Grant { wire: *wire, token };
        match subject.recipe.manner().holding {
            Holding::Nothing => return self.happened(now, *id, grant, subject),
            Holding::Leased if now >= question.lease.valid_until(question.sent_at) => {}
            Holding::Leased | Holding::Unending => {
                return self.begin_tenure(now, *id, grant, question.lease, question.sent_at);
            }
        }
        // Nothing is left to trust. The owner is burnt; the next question has another.
        self.begin_parting(now, *wire, subject, question.undo(now, Cause::UnseenGrant));
        let took = now.since(question.sent_at);
        self.unlisten(&Listener::One(*id));
        if let Some(asking) = self.asking(*id) {
            asking.wire = None;
            asking.unknown_until = None;
            asking.queued = false;
            asking.last = Some(Last::TooLate(took));
        }
        self.ask_later(now, question);
    }

    /// What was waited for has happened; nothing is held.
    fn happened(&mut self, now: Moment, id: Id, grant: Grant, subject: &Subject) {
        self.timers.clear(Timer::Ask(id));
        self.timers.clear(Timer::Deadline(id));
        self.settle(id, Settlement::Acquired(Ok(grant)));
        self.step_out(now, id, subject);
    }

    fn refused(&mut self, now: Moment, question: &Question, remaining: Duration) {
        let Some(asking) = self.asking(question.id) else {
            return;
        };
        asking.last = Some(Last::Refused);
        asking.failing_since = None;
        asking.failures = 0;
        asking.refusals = asking.refusals.saturating_add(1);
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
        let gone_by = question.subject.gone_by(question.lease, now);
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
        let head_asks = question.subject.recipe.manner().line == Line::Head;
        match once || now.since(since) >= timeout {
            false => self.timers.set(Timer::Ask(question.id), now + pause),
            true if store_failed && !once && head_asks => self.fail_line(now, &question.subject),
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
        self.unlisten(&Listener::Line(subject.clone()));
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
        let Some((request, asking)) = self.waiting(id) else { return };
        let nap = match request.backoff {
            Some(backoff) => backoff.after(asking.refusals.saturating_sub(1), seed),
            None => {
                let jitter = backoff::spread((remaining / 10).min(Duration::from_millis(20)), seed);
                let seen_every = request.subject.recipe.manner().seen_every.unwrap_or(Duration::MAX);
                let longest = self.settings.poll_interval.min(seen_every);
                remaining.saturating_add(Duration::from_millis(1) + jitter).min(longest)
            }
        };
        self.sleep_for(now, id, nap);
    }

    /// Sleeps for so long unless woken.
    fn sleep_for(&mut self, now: Moment, id: Id, nap: Duration) {
        let Some((request, asking)) = self.waiting(id) else { return };
        let subject = request.subject.clone();
        let (listener, wire) = match subject.recipe.manner().line {
            Line::Head => (Listener::Line(subject.clone()), asking.wire),
            Line::Each => (Listener::One(id), asking.wire),
        };
        self.timers.set(Timer::Ask(id), now + nap);
        // Nobody can have been refused without having asked, as somebody; who sleeps while this client holds the name
        // listens for nobody yet.
        let wire = wire.unwrap_or_else(|| WireOwner::new(self.client, 0));
        self.listen(now, listener, subject.recipe.channels(&subject, wire));
    }

    /// Takes a waiter out of its line, undoes what it may have taken, and lets the next one ask.
    pub(super) fn leave_line(&mut self, now: Moment, id: Id, request: &Request, asking: &Asking) {
        self.timers.clear(Timer::Ask(id));
        self.stop_waiting(id, request);
        self.undo_asked(now, request, asking);
        self.step_out(now, id, &request.subject);
    }

    /// Takes back what a waiter's earlier questions may have taken, and its place in a queue on the server. A question
    /// on its way does that when it is answered.
    fn undo_asked(&mut self, now: Moment, request: &Request, asking: &Asking) {
        let cause = match asking.unknown_until {
            Some(_) => Cause::UnknownAcquire,
            None if asking.queued => Cause::UnseenGrant,
            None => return,
        };
        if let (Some(wire), None) = (asking.wire, asking.call) {
            let gone_by = request.subject.left_by(request.first_lease(), now, asking.queued);
            let undo = Leaving::undo(request.first_lease(), request.units, gone_by, cause);
            self.begin_parting(now, wire, &request.subject, undo);
        }
    }

    /// Takes an id out of a line; when it was the head the next one asks.
    pub(super) fn step_out(&mut self, now: Moment, id: Id, subject: &Subject) {
        self.unlisten(&Listener::One(id));
        let Some(line) = self.lines.get_mut(subject) else {
            return;
        };
        let place = line.iter().position(|waiter| *waiter == id);
        let was_head = place == Some(0);
        // Those who leave a long line, as those who were granted, are mostly near its front.
        place.and_then(|place| line.remove(place));
        if line.is_empty() {
            self.lines.remove(subject);
            self.unlisten(&Listener::Line(subject.clone()));
        } else if was_head && subject.recipe.manner().line == Line::Head {
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

impl Question {
    /// How what it may have taken is given back.
    fn undo(&self, now: Moment, cause: Cause) -> Leaving {
        let gone_by = self.subject.left_by(self.lease, now, self.queues);
        Leaving::undo(self.lease, self.units, gone_by, cause)
    }
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
    /// When a hold has certainly gone if nothing arrived at the server after `now`.
    pub(super) fn gone_by(&self, lease: Lease, now: Moment) -> Moment {
        match self.recipe.manner().holding {
            Holding::Leased => lease.gone_by(now),
            Holding::Unending => Moment::NEVER,
            Holding::Nothing => now,
        }
    }

    /// When whatever an acquire has left has gone if nothing arrived at the server after `now`: a place in a queue there
    /// may outlive the lease.
    fn left_by(&self, lease: Lease, now: Moment, queued: bool) -> Moment {
        let place = self.recipe.manner().seen_every.filter(|_| queued);
        self.gone_by(lease, now).max(now + place.unwrap_or_default() * PLACE_LASTS)
    }

    /// A script looks at its key by a command of the key's type before it writes: a key of another type is as it was.
    /// What only looks changes nothing however it ends.
    fn surely_untouched(&self, error: StoreError) -> StoreError {
        let only_looks = self.recipe.manner().holding == Holding::Nothing;
        if only_looks || error.kind == StoreErrorKind::WrongType { error.not_applied() } else { error }
    }

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
