//! One command connection, from its opening to its end.
//!
//! Invariant: commands are written in the order in which they were given to [`CommandConnection::send`]. There is one
//! exception. A command whose script the server has forgotten (`SCRIPT FLUSH`) was not executed, and is written again
//! behind the commands that came after it, once.

use leasehold_proto::{Call, Moment, Reply, StoreErrorKind};

use super::batch::{PendingCall, Rows};
use super::codec::Decoder;
use super::encode;
use super::facts::ServerFacts;
use super::ids::ConnId;
use super::opening::Opened;
use super::outgoing::Outgoing;
use super::pipeline::{Pipeline, Sent};
use super::round_trip::RoundTrip;
use super::scripts::{Form, Scripts, is_unknown_script};
use super::server::Server;
use super::value::{Value, server_error};
use crate::redis::breach::Breach;
use crate::redis::error::Failure;

/// A call with its outcome.
pub(super) type Outcome = (PendingCall, Result<Reply, Failure>);

/// One command connection.
#[derive(Debug)]
pub(super) struct CommandConnection {
    pub(super) id: ConnId,
    pub(super) outgoing: Outgoing,
    pub(super) pipeline: Pipeline,
    decoder: Decoder,
    scripts: Scripts,
    round_trip: RoundTrip,
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
            round_trip: RoundTrip::default(),
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
        self.ask_for(&rows);
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

    /// Writes ASKING in front of a call whose slot is on its way to the server.
    fn ask_for(&mut self, rows: &Rows) {
        if matches!(rows, Rows::One(row) if row.asks) {
            encode::command(self.outgoing.buffer(), &["ASKING"]);
            self.pipeline.push_own(Form::Own, self.outgoing.end(), Moment::NEVER);
        }
    }

    /// Returns true if a call is written at once, with at most this many commands in flight. A call behind more of them
    /// gathers until the next reply.
    pub(super) fn has_few_in_flight(&self, most: usize) -> bool {
        self.pipeline.commands() < self.round_trip.commands(most)
    }

    /// Returns true if the two calls may share a command, as far as the server goes.
    pub(super) fn join(&self, one: &PendingCall, other: &PendingCall, facts: Option<ServerFacts>) -> bool {
        let Some(facts) = facts else { return false };
        if one.asks || other.asks {
            return false;
        }
        let (one, other) = (&one.call, &other.call);
        let is_certain = |call: &Call| !self.scripts.doubts(call.script().sha1(), facts);
        is_certain(one) && is_certain(other) && (!facts.is_node || one.slot() == other.slot())
    }

    /// Takes bytes, and adds the outcomes that they bring. A breach ends the connection.
    pub(super) fn receive(
        &mut self,
        now: Moment,
        mut bytes: &[u8],
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), Breach> {
        loop {
            match self.decoder.next(&mut bytes)? {
                // No command of this connection requests pushes. RESP3 lets a server send some all the same.
                Some(Value::Push(_)) => {}
                Some(value) => {
                    let sent = self.pipeline.answered(now, self.outgoing.written()).ok_or(Breach::Unasked)?;
                    self.round_trip.answered(now, sent.end);
                    self.answer(sent, value, outcomes);
                }
                None if self.pipeline.is_empty() && self.decoder.is_within_reply() => {
                    return Err(Breach::Unasked);
                }
                None => return Ok(()),
            }
        }
    }

    fn answer(&mut self, sent: Sent, value: Value, outcomes: &mut Vec<Outcome>) {
        let Sent { rows, form, .. } = sent;
        match form {
            Form::Hash if is_unknown_script(&value) => {
                self.ask_for(&rows);
                self.scripts.encode_text(&rows, self.outgoing.buffer());
                self.pipeline.push(rows, Form::Text, self.outgoing.end());
                return;
            }
            Form::Checked if !is_denied(&value) => self.scripts.allow(&rows),
            Form::Wait | Form::Count | Form::Login => return self.own_answers.push((form, value)),
            Form::Checked | Form::Text | Form::Hash | Form::Own => {}
        }
        outcomes.extend(rows.answer(value));
    }
}

fn is_denied(value: &Value) -> bool {
    matches!(value, Value::Error(text) if server_error(text).kind == StoreErrorKind::PermissionDenied)
}
