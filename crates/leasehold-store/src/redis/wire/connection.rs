//! One command connection, from its opening to its end.
//!
//! Invariant: commands are written in the order in which they were given to [`CommandConnection::send`]. There are three
//! exceptions. A command whose script the server has forgotten (`SCRIPT FLUSH`), or that the server does not have, was not
//! executed, and is written again behind the commands that came after it. So is a native command that has deleted nothing,
//! as its script. A batch that the server refused for its slots was not executed either,
//! and its calls go out again, each alone.

use std::time::Duration;

use leasehold_proto::{Call, Channel, Moment, StoreErrorKind};

use super::batch::{Outcome, PendingCall, Rows};
use super::codec::Decoder;
use super::encode;
use super::facts::ServerFacts;
use super::group::Round;
use super::ids::ConnId;
use super::natives::{Next, Place};
use super::one_server::{Fate, Proof};
use super::opening::Opened;
use super::outgoing::Outgoing;
use super::pipeline::{Pipeline, Sent};
use super::round_trip::RoundTrip;
use super::scripts::{Form, Scripts, is_unknown_script};
use super::server::Server;
use super::tracking::{self, Tracking};
use super::value::{Value, server_error};
use crate::redis::breach::Breach;

/// One command connection.
#[derive(Debug)]
pub(super) struct CommandConnection {
    pub(super) id: ConnId,
    pub(super) outgoing: Outgoing,
    pub(super) pipeline: Pipeline,
    decoder: Decoder,
    scripts: Scripts,
    tracking: Tracking,
    round_trip: RoundTrip,
    /// The group of confirmed calls under way. `WAIT` answers for its own connection alone.
    pub(super) round: Round,
    proof: Proof,
    /// The number of the last question about it, whose answers alone count, and the time that each answer has.
    question: u32,
    proof_limit: Duration,
    /// The calls of batches that the server refused for their slots, since the last look.
    refused: Vec<PendingCall>,
    /// The answers to commands of the wire itself, since the last look.
    own_answers: Vec<(Form, Value)>,
    /// The number of the login.
    login: u64,
    was_useful: bool,
}

impl CommandConnection {
    pub(super) fn new(opened: Opened) -> Self {
        Self {
            id: opened.id,
            outgoing: opened.outgoing,
            pipeline: Pipeline::new(),
            decoder: opened.decoder,
            scripts: Scripts::default(),
            tracking: Tracking::default(),
            round_trip: RoundTrip::default(),
            round: Round::default(),
            proof: Proof::default(),
            question: 0,
            proof_limit: Duration::ZERO,
            refused: Vec::new(),
            own_answers: Vec::new(),
            login: opened.login,
            was_useful: false,
        }
    }

    /// Records a useful reply, and returns true if it is the first.
    pub(super) const fn proves_useful(&mut self) -> bool {
        !std::mem::replace(&mut self.was_useful, true)
    }

    /// Returns true if a useful reply has come.
    pub(super) const fn was_useful(&self) -> bool {
        self.was_useful
    }

    /// Writes the calls behind all earlier calls.
    pub(super) fn send(&mut self, now: Moment, rows: Rows, facts: Option<ServerFacts>) {
        self.ask_for(&rows, facts);
        let form = self.scripts.encode(&rows, facts, self.outgoing.buffer());
        self.round_trip.sent(now, self.outgoing.end());
        self.pipeline.push(rows, form, self.outgoing.end());
    }

    /// Writes a command of the wire itself behind all calls. It must be answered until then.
    pub(super) fn send_own(&mut self, form: Form, command: &[&str], until: Moment) {
        encode::command(self.outgoing.buffer(), command);
        self.pipeline.push_own(form, self.outgoing.end(), until);
    }

    /// Waits for the replicas of a group behind all calls.
    pub(super) fn send_wait(&mut self, words: &[String], until: Moment) {
        self.send_own(Form::Wait, &words.iter().map(String::as_str).collect::<Vec<_>>(), until);
    }

    /// Logs in again, if there are later credentials. It must be answered until then.
    pub(super) fn log_in(&mut self, server: &Server, until: Moment) {
        if let Some(login) = server.login_after(self.login) {
            self.login = login.number;
            self.send_own(Form::Login, &login.credentials.command(), until);
        }
    }

    /// Takes the answers to commands of the wire itself.
    pub(super) fn take_own_answers(&mut self) -> Vec<(Form, Value)> {
        std::mem::take(&mut self.own_answers)
    }

    /// Writes what has to stand in front of a call: ASKING, if its slot is on its way to the server, or else the request to
    /// tell of the next change of its key.
    fn ask_for(&mut self, rows: &Rows, facts: Option<ServerFacts>) {
        let Rows::One(row) = rows else { return };
        if row.asks {
            self.send_own(Form::Own, &["ASKING"], Moment::NEVER);
        } else if row.call.script().is_tracked() && facts.is_some_and(|facts| facts.resp3) {
            let (is_tracked, begins) = self.tracking.expect(&row.call);
            if begins {
                self.send_own(Form::Tracking, &tracking::BEGIN, Moment::NEVER);
            }
            if is_tracked {
                self.send_own(Form::Own, &tracking::NEXT, Moment::NEVER);
            }
        }
    }

    /// Takes the channels of the waiters for keys that have changed.
    pub(super) fn take_changed(&mut self) -> Vec<Channel> {
        self.tracking.take_changed()
    }

    /// Returns true if a call is written at once, with at most this many commands in flight. A call behind more of them
    /// gathers until the next reply.
    pub(super) fn has_few_in_flight(&self, most: usize) -> bool {
        self.pipeline.commands() < self.round_trip.commands(most)
    }

    /// Returns true if the two calls may share a command, as far as the server goes and but for their slots.
    pub(super) fn may_join(
        &self,
        one: &PendingCall,
        other: &PendingCall,
        facts: Option<ServerFacts>,
    ) -> bool {
        let is_certain = |call: &PendingCall| {
            let is_known = |facts| !self.scripts.doubts(call.call.script().sha1(), facts);
            let is_native = self.scripts.is_native(call.call.script());
            !call.asks && !call.goes_alone && !is_native && facts.is_some_and(is_known)
        };
        is_certain(one) && is_certain(other)
    }

    /// Returns true if the slots of the two calls may share a command.
    pub(super) fn slots_join(
        &self,
        one: &PendingCall,
        other: &PendingCall,
        facts: Option<ServerFacts>,
    ) -> bool {
        facts.is_some_and(|facts| self.proof.joins(&one.call, &other.call, facts))
    }

    /// Returns the fate of a call that may have keys of several slots.
    pub(super) fn fate(&self, call: &PendingCall, facts: Option<ServerFacts>) -> Fate {
        self.proof.fate(&call.call, facts)
    }

    /// Returns true if the connection has asked who is behind it, and has no answer yet.
    pub(super) const fn is_asking(&self) -> bool {
        matches!(self.proof, Proof::Asked(_))
    }

    /// Returns true if the connection does not know whether one server is behind it, and has not asked.
    pub(super) fn lacks_proof(&self, facts: Option<ServerFacts>) -> bool {
        self.proof.is_wanted() && facts.is_none_or(|facts| !facts.is_node)
    }

    /// Asks whether one server is behind the connection, unless it was asked. Each round trip must be answered within
    /// the limit.
    pub(super) fn ask_if_one(&mut self, like: &PendingCall, (now, limit): (Moment, Duration)) {
        if let Some(question) = self.proof.ask(&like.call) {
            self.proof_limit = limit;
            self.question += 1;
            self.send_question(&question, now + limit);
        }
    }

    /// Lets the next call ask again, after those that waited for a server that could not answer have failed.
    pub(super) fn forget_failed_proof(&mut self) {
        self.proof.forget_failure();
    }

    fn send_question(&mut self, question: &Call, until: Moment) {
        encode::call(self.outgoing.buffer(), ("EVAL", question.script().source()), question);
        self.pipeline.push_own(Form::Proof(self.question), self.outgoing.end(), until);
    }

    /// Takes the calls of batches that the server refused for their slots. None of them has run.
    pub(super) fn take_refused(&mut self) -> Vec<PendingCall> {
        std::mem::take(&mut self.refused)
    }

    /// Takes bytes, and adds the outcomes that they bring. A breach ends the connection.
    pub(super) fn receive(
        &mut self,
        now: Moment,
        facts: Option<ServerFacts>,
        mut bytes: &[u8],
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), Breach> {
        loop {
            match self.decoder.next(&mut bytes)? {
                Some(Value::Push(push)) => self.tracking.pushed(&push),
                Some(value) => {
                    let sent = self.pipeline.answered(now, self.outgoing.written()).ok_or(Breach::Unasked)?;
                    self.round_trip.answered(now, sent.end);
                    self.answer((now, facts), sent, value, outcomes);
                }
                None if self.pipeline.is_empty() && self.decoder.is_within_reply() => {
                    return Err(Breach::Unasked);
                }
                None => return Ok(()),
            }
        }
    }

    /// Returns what follows the answer to a call.
    fn next(&mut self, rows: &Rows, form: Form, value: &Value) -> Next {
        let natives = &mut self.scripts.natives;
        match (form, rows.as_slice()) {
            (Form::Native(place), [row]) => natives.answered(&row.call, place, value),
            (Form::Checked | Form::Text | Form::Hash, [row]) => {
                natives.script_answered(row.call.script(), value).map_or(Next::Answer, Next::Command)
            }
            _ => Next::Answer,
        }
    }

    /// Writes a call again that has not run, or has changed nothing: as a native command, or as its script.
    fn send_again(&mut self, rows: Rows, facts: Option<ServerFacts>, place: Option<Place>) {
        self.ask_for(&rows, facts);
        let out = self.outgoing.buffer();
        let form = match place {
            Some(place) => self.scripts.encode_native(&rows, place, out),
            None => self.scripts.encode_script(&rows, facts, out),
        };
        self.pipeline.push(rows, form, self.outgoing.end());
    }

    fn answer(
        &mut self,
        (now, facts): (Moment, Option<ServerFacts>),
        sent: Sent,
        value: Value,
        outcomes: &mut Vec<Outcome>,
    ) {
        let Sent { rows, form, .. } = sent;
        let value = match self.next(&rows, form, &value) {
            Next::Answer => value,
            Next::Earlier(value) => value,
            Next::Reply(reply) => {
                let calls = rows.into_calls().into_iter();
                return outcomes.extend(calls.map(|call| (call, Ok(reply.clone()))));
            }
            Next::Command(place) => return self.send_again(rows, facts, Some(place)),
            Next::Script => return self.send_again(rows, facts, None),
        };
        match form {
            Form::Hash if is_unknown_script(&value) => {
                self.ask_for(&rows, facts);
                self.scripts.encode_text(&rows, self.outgoing.buffer());
                self.pipeline.push(rows, Form::Text, self.outgoing.end());
                return;
            }
            Form::Checked if !is_denied(&value) => self.scripts.allow(&rows),
            Form::Tracking => return self.tracking.answered(&value),
            Form::Wait | Form::Count | Form::Login => return self.own_answers.push((form, value)),
            Form::Proof(question) => {
                let questions =
                    if question == self.question { self.proof.answered(value) } else { Vec::new() };
                let until = now + self.proof_limit;
                return questions.iter().for_each(|question| self.send_question(question, until));
            }
            Form::Checked | Form::Text | Form::Hash | Form::Native(_) | Form::Own => {}
        }
        if matches!(rows, Rows::Many(..))
            && let Some(kind) = refusal_of_slots(&value)
        {
            if kind == StoreErrorKind::CrossSlot {
                self.proof = Proof::Slots;
            }
            let calls = rows.into_calls().into_iter().filter(|call| !call.is_abandoned);
            return self.refused.extend(calls.map(|call| PendingCall { goes_alone: true, ..call }));
        }
        outcomes.extend(rows.answer(value));
    }
}

/// Returns the kind of an error that refuses a command for the slots of its keys. The server says it before the script.
fn refusal_of_slots(value: &Value) -> Option<StoreErrorKind> {
    let Value::Error(text) = value else { return None };
    let kind = server_error(text).kind;
    matches!(kind, StoreErrorKind::CrossSlot | StoreErrorKind::TryAgain).then_some(kind)
}

fn is_denied(value: &Value) -> bool {
    matches!(value, Value::Error(text) if server_error(text).kind == StoreErrorKind::PermissionDenied)
}
