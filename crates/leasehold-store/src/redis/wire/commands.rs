//! The calls of one server, from their submission to their outcomes.
//!
//! Invariant: a call is written at most once, and is certainly not executed (`Applied::No`) only if it was never
//! written, or if the server says so.
//!
//! # How it works
//! A call behind few others is written at once. Behind many commands in flight, calls gather in a queue until the next
//! reply, and travel in one write. The queue also holds the calls without room or without a connection. When an attempt
//! to connect fails, every queued call fails with it. A later call waits for the next attempt, however many others wait
//! for it too.
//!
//! A reply such as `READONLY` shows that the connection must not be used again, so the next call makes a new one. A
//! call in flight that runs out of time cuts its connection, which fails the calls in flight, and the queue goes on
//! over the next connection. If a connection that has carried calls drops, the client reconnects without waiting for a
//! call, because the locks that were granted over it may be gone.

use std::cell::Cell;

use leasehold_proto::{Applied, Moment, Reply, StoreErrorKind, Verb};

use super::batch::{Outcome, PendingCall, Rows};
use super::connection::CommandConnection;
use super::connections::Connections;
use super::dialing::Dialing;
use super::facts::ServerFacts;
use super::group::{Group, Round};
use super::ids::{CallId, ConnId};
use super::io::Output;
use super::one_server::Fate;
use super::opening::Opened;
use super::queue::Queue;
use super::report::Report;
use super::scripts::Form;
use super::server::Step;
use super::value::Value;
use crate::redis::connect::ConnectOptions;
use crate::redis::error::Failure;
use crate::redis::notices::Carried;

/// The calls of one server and their connections.
#[derive(Debug)]
pub(super) struct Commands {
    connections: Connections,
    dialing: Dialing,
    queue: Queue,
    /// The failure of the last attempt to connect, until the next attempt begins.
    last_failure: Option<Failure>,
    rows_max: usize,
    /// The number of commands in flight behind which calls gather, at most.
    at_once: usize,
    /// True if the outcome of the present attempt is to be reported.
    reports: bool,
    /// True once a connection has opened.
    has_opened: bool,
    /// The calls that replicas confirm, if this part has such calls alone.
    group: Option<Group>,
    is_closed: bool,
    /// True if a connection that was useful has ended, and no other is open. What was granted over it may be gone, and its
    /// client learns of that by the next connection, so that one is made without a call.
    is_missed: bool,
}

impl Commands {
    /// Creates the part for calls that replicas confirm.
    pub(super) fn confirmed(seed: u64, options: &ConnectOptions) -> Self {
        Self { group: Some(Group::new(options.confirmation)), ..Self::new(seed, options) }
    }

    pub(super) fn new(seed: u64, options: &ConnectOptions) -> Self {
        Self {
            connections: Connections::default(),
            dialing: Dialing::new(seed),
            queue: Queue::new(),
            last_failure: None,
            rows_max: options.batch_rows,
            at_once: options.at_once,
            reports: false,
            has_opened: false,
            group: None,
            is_closed: false,
            is_missed: false,
        }
    }

    /// Connects without a call.
    pub(super) fn open(&mut self, step: &mut Step<'_>) {
        self.reports = true;
        self.connect(step);
    }

    /// Takes a call, which may come from another server that has not run it.
    pub(super) fn take(&mut self, step: &mut Step<'_>, call: PendingCall) {
        if self.is_closed {
            return reply(step, call, Err(closed()));
        }
        // A call behind many others waits for the next reply, and travels with those that come until then.
        let flushes = match self.connections.current() {
            Some(current) => self.queue.is_empty() && self.has_room(current),
            None => true,
        };
        if self.queue.is_full() {
            return reply(step, call, Err(timed_out(Applied::No)));
        }
        self.queue.push(call);
        if flushes && !step.gathers {
            self.flush(step);
        }
    }

    /// Sends the calls of one submission, as a call alone is sent.
    pub(super) fn send_gathered(&mut self, step: &mut Step<'_>) {
        if self.connections.current().is_none_or(|current| self.has_room(current)) {
            self.flush(step);
        }
    }

    /// Returns true if calls have gathered that a flush would send. Behind many commands, the next reply flushes, and so
    /// does the answer that the first call waits for.
    pub(super) fn wants_flush(&self) -> bool {
        let is_ready = |current: &CommandConnection| {
            let waits = |first| current.is_asking() && matches!(current.fate(first, None), Fate::Waits);
            current.outgoing.is_empty()
                && self.has_room(current)
                && !self.queue.iter().next().is_some_and(waits)
        };
        !self.queue.is_empty() && self.connections.current().is_some_and(is_ready)
    }

    /// Returns true if a call is written at once. A group waits for the group before it.
    fn has_room(&self, current: &CommandConnection) -> bool {
        match self.group {
            Some(_) => current.pipeline.is_empty(),
            None => current.has_few_in_flight(self.at_once),
        }
    }

    /// Writes the calls of the queue, as far as there is room. Connects if there is no connection for them, or if the last
    /// one is missed.
    pub(super) fn flush(&mut self, step: &mut Step<'_>) {
        if self.queue.is_empty() {
            if self.is_missed {
                self.connect(step);
            }
            return;
        }
        let Some(connection) = self.connections.current_mut() else { return self.connect(step) };
        if !connection.outgoing.is_empty() || (self.group.is_some() && !connection.pipeline.is_empty()) {
            return;
        }
        let room = connection.pipeline.room();
        let next = self.queue.iter().take(room);
        if self.group.as_ref().is_some_and(|group| group.must_count(step.now, next)) {
            connection.send_own(Form::Count, &["INFO", "replication"], step.now + step.server.limit());
            return connection.outgoing.announce(step, connection.id);
        }
        let mut round = Round::default();
        let (facts, publish) = (step.server.facts(), step.server.channels().publish());
        while let Some(mut rows) = next_rows(&mut self.queue, self.rows_max, connection, step) {
            // Recipes do not know the kind of the server, so a script that publishes, or counts the listeners, receives the
            // command to use by an argument of this name.
            for row in rows.as_mut_slice() {
                row.call.set_arg("publish", publish);
                if let Some(group) = &self.group {
                    group.expect(step.now, row, &mut round);
                }
                // Of the acquires only that of a fair lock counts listeners, and it has the keys of a queue.
                let counts = match row.call.verb() {
                    Verb::HandOff | Verb::KeepAlive | Verb::Inspect => true,
                    Verb::Acquire => row.call.key_count() > 1,
                    _ => false,
                };
                if counts {
                    row.call.set_arg("numsub", facts.map_or("", ServerFacts::numsub));
                }
            }
            connection.send(step.now, rows, facts);
        }
        connection.forget_failed_proof();
        if let Some(group) = &self.group {
            connection.round = round;
            wait_for_replicas(group, connection, step);
        }
        connection.outgoing.announce(step, connection.id);
    }

    /// Notes that the submitter of a call has left. Returns true if the call is here.
    pub(super) fn abandon(&mut self, step: &mut Step<'_>, id: CallId) -> bool {
        if self.queue.abandon(id) {
            return true;
        }
        let is_in_flight = self.connections.abandon(id);
        if is_in_flight {
            self.flush(step);
        }
        is_in_flight
    }

    /// Takes a call back that was not sent, with the reason.
    pub(super) fn withdraw(&mut self, id: CallId) -> Option<(PendingCall, Failure)> {
        let call = self.queue.withdraw(id)?;
        let is_open = self.connections.current().is_some();
        let failure = self.last_failure.clone().unwrap_or_else(|| Failure::unsent(is_open));
        Some((call, failure))
    }

    fn connect(&mut self, step: &mut Step<'_>) {
        if self.dialing.begin(step) {
            self.last_failure = None;
        }
    }

    /// Returns the attempts to connect.
    pub(super) const fn dialing_mut(&mut self) -> &mut Dialing {
        &mut self.dialing
    }

    pub(super) fn connected(&mut self, step: &mut Step<'_>, id: ConnId) {
        self.dialing.connected(step, id);
    }

    /// Notes that an attempt got no stream, or that a stream has ended.
    pub(super) fn closed(&mut self, step: &mut Step<'_>, id: ConnId, failure: Failure) {
        if let Some(failure) = self.dialing.ended(step, id, &failure) {
            // A credentials error does not trigger reconnects. Only the next call does.
            self.is_missed &=
                !matches!(failure.kind, StoreErrorKind::Credentials | StoreErrorKind::Certificate);
            self.failed(step, failure.of_unsent());
        } else {
            self.end(step, id, &failure);
        }
        self.flush(step);
    }

    /// Notes that an attempt to connect has failed.
    fn failed(&mut self, step: &mut Step<'_>, failure: Failure) {
        step.report(Report::Unfit);
        self.fail(step, failure);
    }

    /// Fails the calls that wait for a connection.
    fn fail(&mut self, step: &mut Step<'_>, failure: Failure) {
        for call in self.queue.drain() {
            reply(step, call, Err(failure.clone()));
        }
        self.report(step, Err(failure.clone()));
        self.last_failure = Some(failure);
    }

    /// Goes on with another server under the same name: ends all connections, and keeps the calls that were not sent.
    pub(super) fn move_on(&mut self, step: &mut Step<'_>) {
        for id in self.connections.ids() {
            self.end(step, id, &lost());
        }
        self.dialing.stop(step);
        self.dialing.was_useful();
        (self.last_failure, self.is_missed) = (None, false);
        self.flush(step);
        if self.reports {
            self.connect(step);
        }
    }

    /// Notes that the address of the server could not be found out.
    pub(super) fn not_found(&mut self, step: &mut Step<'_>, failure: Failure) {
        if step.server.address().is_none() {
            self.fail(step, failure);
        }
    }

    /// Takes the calls that were not sent.
    pub(super) fn give_up(&mut self) -> Vec<PendingCall> {
        self.queue.drain().collect()
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns true if the server has neither calls nor an attempt to connect.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.reports && self.connections.are_idle()
    }

    fn report(&mut self, step: &mut Step<'_>, outcome: Result<(), Failure>) {
        if std::mem::take(&mut self.reports) {
            step.output(Output::Opened(outcome.map_err(|failure| failure.during(Verb::Connect, "".into()))));
        }
    }

    /// Takes the bytes of a connection.
    pub(super) fn receive(&mut self, step: &mut Step<'_>, id: ConnId, bytes: &[u8]) {
        match self.dialing.receive(step, id, bytes) {
            Some(Ok(opened)) => self.opened(step, opened),
            Some(Err(failure)) => {
                // A server that refuses the client is not asked again without a call.
                self.is_missed = false;
                self.failed(step, failure);
            }
            None => self.receive_replies(step, id, bytes),
        }
        self.flush(step);
    }

    fn opened(&mut self, step: &mut Step<'_>, opened: Opened) {
        self.report(step, opened.greeted.greeting.clone());
        let again = std::mem::replace(&mut self.has_opened, true);
        let part = if self.group.is_some() { Carried::Confirmed } else { Carried::Commands };
        step.serves(opened.id, part, again);
        step.report(Report::Opened { channels: step.server.facts().map(|facts| facts.channels), again });
        self.connections.set_current(CommandConnection::new(opened));
        self.is_missed = false;
        self.log_in(step);
    }

    /// Logs in again on the open connection, if there are later credentials.
    pub(super) fn log_in(&mut self, step: &mut Step<'_>) {
        if let Some(current) = self.connections.current_mut() {
            current.log_in(step.server, step.now + step.server.limit());
            let id = current.id;
            current.outgoing.announce(step, id);
        }
    }

    fn receive_replies(&mut self, step: &mut Step<'_>, id: ConnId, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let mut outcomes = Vec::new();
        let received = connection.receive(step.now, step.server.facts(), bytes, &mut outcomes);
        connection.outgoing.announce(step, id);
        let was_silent = connection.pipeline.ends_silence();
        let changed = connection.take_changed();
        if !changed.is_empty() {
            step.report(Report::Changed(changed));
        }
        let (answers, refused) = (connection.take_own_answers(), connection.take_refused());
        let outcomes = if self.group.is_some() { connection.round.keep(outcomes) } else { outcomes };
        self.deliver(step, id, outcomes);
        refused.into_iter().for_each(|call| self.put_back(step, call));
        for (form, answer) in answers {
            match form {
                Form::Login => step.report(Report::LoggedIn(answer.is_text("OK"))),
                form => self.confirm(step, id, form, &answer),
            }
        }
        if was_silent {
            step.report(Report::Silent);
        }
        if let Err(breach) = received {
            self.end(step, id, &Failure::breach(breach));
        }
        self.connections.close_idle(step);
    }

    /// Lets a call go out again, which a server has certainly not run.
    fn put_back(&mut self, step: &mut Step<'_>, call: PendingCall) {
        if self.queue.is_full() {
            return reply(step, call, Err(timed_out(Applied::No)));
        }
        self.queue.push(call);
    }

    /// Takes the answer to a command for a group.
    fn confirm(&mut self, step: &mut Step<'_>, id: ConnId, form: Form, answer: &Value) {
        let (Some(group), Some(connection)) = (&mut self.group, self.connections.get_mut(id)) else { return };
        if form == Form::Count {
            if let Err(failure) = group.counted(step.now, answer) {
                for call in self.queue.take(|call| group.counts_connected(call)) {
                    reply(step, call, Err(failure.clone()));
                }
            }
            return;
        }
        if connection.pipeline.has_calls() {
            // A script that the server had forgotten is executed behind the WAIT that was to cover it.
            connection.send_wait(&group.wait(&connection.round), connection.round.until());
            return connection.outgoing.announce(step, id);
        }
        let (outcomes, is_short) = group.answered(answer, &mut connection.round);
        if is_short {
            step.report(Report::Unconfirmed);
        }
        self.deliver(step, id, outcomes);
        // A server that cannot wait is no master any more.
        if matches!(answer, Value::Error(_)) {
            step.report(Report::Unfit);
            self.end(step, id, &lost());
        }
    }

    /// Reports the outcomes that a connection brought.
    fn deliver(&mut self, step: &mut Step<'_>, id: ConnId, outcomes: Vec<Outcome>) {
        let mut is_spoiled = false;
        for (call, outcome) in outcomes {
            if let Some(report) = outcome.as_ref().err().and_then(Report::of) {
                step.report(report);
            }
            if outcome.as_ref().is_err_and(Failure::spoils_connection) {
                is_spoiled = true;
            } else if let Some(current) = self.connections.current_mut()
                && current.id == id
                && step.server.facts().is_some()
                && current.proves_useful()
            {
                self.dialing.was_useful();
            }
            if step.server.facts().is_none() && outcome.is_ok() {
                // A server that was busy when the connection opened serves now, and says on the next one what it is. Its
                // cluster needs to know, and another call may never come.
                (is_spoiled, self.is_missed) = (true, true);
            }
            reply(step, call, outcome);
        }
        if is_spoiled
            && self.connections.is_current(id)
            && let Some(oldest) = self.connections.retire_current()
        {
            self.end(step, oldest, &lost());
        }
    }

    /// Ends a connection with a reset. Its calls have an unknown outcome, or have run out of time.
    fn end(&mut self, step: &mut Step<'_>, id: ConnId, failure: &Failure) {
        let is_useful = |current: &CommandConnection| current.id == id && current.was_useful();
        self.is_missed |= self.connections.current().is_some_and(is_useful);
        let Some(mut connection) = self.connections.remove(id) else { return };
        step.output(Output::Reset(id));
        let executed = connection.round.end();
        for (call, is_over) in connection.pipeline.end(step.now) {
            let failure = if is_over { timed_out(Applied::Unknown) } else { failure.clone() };
            reply(step, call, Err(failure));
        }
        for call in executed {
            reply(step, call, Err(failure.clone().of_executed()));
        }
        if let Some(group) = &mut self.group {
            group.forget_count();
        }
    }

    pub(super) fn wrote(&mut self, step: &mut Step<'_>, id: ConnId, count: usize) {
        if let Some(outgoing) = self.dialing.outgoing(id) {
            outgoing.wrote(count);
        } else if let Some(connection) = self.connections.get_mut(id) {
            connection.outgoing.wrote(count);
            self.flush(step);
        }
    }

    pub(super) fn tick(&mut self, step: &mut Step<'_>) {
        if let Some(failure) = self.dialing.tick(step) {
            self.failed(step, failure);
        }
        for id in self.connections.overdue(step.now) {
            // A server that does not answer may have been replaced.
            step.report(Report::Unfit);
            self.end(step, id, &lost());
        }
        if self.connections.are_silent(step.now) {
            step.report(Report::Silent);
        }
        let last_reply = self.connections.current().and_then(|current| current.pipeline.last_reply());
        for call in self.queue.overdue(step.now, last_reply) {
            let failure = self.last_failure.clone().unwrap_or(timed_out(Applied::No));
            reply(step, call, Err(failure));
        }
        self.flush(step);
    }

    pub(super) fn close(&mut self, step: &mut Step<'_>) {
        self.is_closed = true;
        self.queue.drain().for_each(|call| reply(step, call, Err(closed())));
        for id in self.connections.ids() {
            self.end(step, id, &lost());
        }
        self.is_missed = false;
        self.dialing.stop(step);
    }

    /// Returns the earliest time at which [`tick`](Self::tick) may have something to do.
    pub(super) fn timer(&self) -> Moment {
        self.dialing.timer().min(self.connections.timer()).min(self.queue.timer())
    }

    pub(super) fn connection(&self) -> Option<ConnId> {
        self.connections.current().map(|current| current.id)
    }

    pub(super) fn awaits_replies(&self, id: ConnId) -> bool {
        self.connections.get(id).is_some_and(|connection| !connection.pipeline.is_empty())
    }

    pub(super) fn unwritten(&self, id: ConnId) -> Option<&[u8]> {
        let connection = || self.connections.get(id).map(|connection| connection.outgoing.unwritten());
        self.dialing.unwritten(id).or_else(connection)
    }
}

/// Takes the next calls that travel as one command. A call with keys of several slots goes out, or is refused, once it is
/// known whether one server is behind the connection.
fn next_rows(
    queue: &mut Queue,
    rows_max: usize,
    connection: &mut CommandConnection,
    step: &mut Step<'_>,
) -> Option<Rows> {
    let (facts, within) = (step.server.facts(), (step.now, step.server.limit()));
    loop {
        let first = queue.iter().next()?;
        let fate = connection.fate(first, facts);
        match fate {
            Fate::Runs => break,
            Fate::Waits => {
                connection.ask_if_one(first, within);
                return None;
            }
            Fate::Fails(failure) => reply(step, queue.pop()?, Err(failure)),
        }
    }
    let parts_slots = Cell::new(false);
    let join = |one: &PendingCall, other: &PendingCall| {
        let may_join = connection.may_join(one, other, facts);
        let joins = may_join && connection.slots_join(one, other, facts);
        parts_slots.set(parts_slots.get() || (may_join && !joins));
        joins
    };
    let rows = queue.next(connection.pipeline.room(), rows_max, join)?;
    if parts_slots.get() && connection.lacks_proof(facts) {
        connection.ask_if_one(&rows.as_slice()[0], within);
    }
    Some(rows)
}

/// Waits for the replicas of the group that was written, and warns of missing ones.
fn wait_for_replicas(group: &Group, connection: &mut CommandConnection, step: &mut Step<'_>) {
    if !connection.round.needs_replicas() {
        return;
    }
    connection.send_wait(&group.wait(&connection.round), connection.round.until());
    if let Some((connected, wanted)) = group.warns_of(&connection.round)
        && step.server.note_missing(connected, wanted)
    {
        step.output(Output::Missing { connected, wanted });
    }
}

fn reply(step: &mut Step<'_>, call: PendingCall, outcome: Result<Reply, Failure>) {
    if call.is_abandoned {
        return;
    }
    if step.server.redirects()
        && let Err(failure) = &outcome
        && let Some(redirection) = failure.redirection().cloned()
    {
        return step.report(Report::Redirected(call, redirection, failure.clone()));
    }
    let outcome = outcome.map_err(|failure| failure.during(call.call.verb(), call.call.subject()));
    step.output(Output::Reply(call.id, outcome));
}

/// Reports the failure of a call that no server has.
pub(super) fn refuse(outputs: &mut Vec<Output>, call: PendingCall, failure: Failure) {
    if !call.is_abandoned {
        let outcome = Err(failure.during(call.call.verb(), call.call.subject()));
        outputs.push(Output::Reply(call.id, outcome));
    }
}

const fn timed_out(applied: Applied) -> Failure {
    Failure::new(StoreErrorKind::Timeout, applied)
}

const fn closed() -> Failure {
    Failure::new(StoreErrorKind::Closed, Applied::No)
}

const fn lost() -> Failure {
    Failure::new(StoreErrorKind::ConnectionLost, Applied::Unknown)
}

#[cfg(test)]
mod tests;
