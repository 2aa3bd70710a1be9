//! The meaning of a command on the wire, and the state of a name on the server.
//!
//! Invariant: this module reads only the wire and the keyspace, never the state of the client.

mod decode;
mod name_keys;

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;
use leasehold_store::embedded::{Condition, Database, Entry, Executed, Frame};

use self::decode::Row;
use self::name_keys::NameKeys;
use crate::clock::Clock;
use crate::history::{By, Event, Reply};
use crate::plan::Plan;
use crate::recorder::Recorder;

use self::decode::{Command, Form, decode};
pub(crate) use self::decode::{Decoded, is_script, subject_of};

/// The id of the promise that a batch does what its rows do (docs/protocol.md, section 19.4).
const BATCH: &str = "19.4";

/// Records the scripts that a server executes.
#[derive(Clone)]
pub(crate) struct Witness {
    recorder: Recorder,
    /// The server's clock.
    pub(crate) clock: Clock,
    /// The names of the plan, with the keys that belong to each.
    name_keys: Vec<NameKeys>,
}

impl Witness {
    pub(crate) fn new(plan: &Plan, recorder: Recorder, clock: Clock) -> Self {
        Self { recorder, clock, name_keys: plan.names.iter().map(NameKeys::of).collect() }
    }

    /// Notes that a process reads bytes of the server.
    pub(crate) fn hear(&self, now: Duration, process: usize) {
        self.recorder.hear(now, process);
    }

    /// Returns the time on the server's clock, in Unix milliseconds.
    pub(crate) fn now_ms(&self, now: Duration) -> u64 {
        u64::try_from(self.clock.reading(now).as_millis()).unwrap_or(u64::MAX)
    }

    /// Executes a command of a stream. Records a batch as its rows.
    pub(crate) fn execute(
        &self,
        now: Duration,
        by: By,
        command: &[Vec<u8>],
        database: &mut Database,
    ) -> Executed {
        let execute = |database: &mut Database, now_ms| database.execute(now_ms, command);
        match decode(command) {
            None => self.see(now, by, None, database, execute),
            Some(Command::Script(script)) => self.see(now, by, Some(script), database, execute),
            Some(Command::Batch(rows)) => self.see_batch(now, by, rows, database, command),
        }
    }

    /// Executes a batch, and its rows one after the other on a copy. Both must do the same.
    fn see_batch(
        &self,
        now: Duration,
        by: By,
        rows: Vec<Row>,
        database: &mut Database,
        command: &[Vec<u8>],
    ) -> Executed {
        let mut copy = database.clone();
        let executed = database.execute(self.now_ms(now), command);
        let is_forgotten = matches!(&executed.reply, Frame::Error(text) if text.starts_with("NOSCRIPT"));
        // An error of the command is the reply of each row.
        let replies = match &executed.reply {
            Frame::Array(replies) => replies.clone(),
            error => vec![error.clone(); rows.len()],
        };
        let (mut alone, mut messages) = (Vec::new(), Vec::new());
        for (index, Row { script, call }) in rows.into_iter().enumerate() {
            let run = |database: &mut Database, now_ms| {
                // A server that lacks memory refuses no row behind one that wrote.
                let condition = database.condition();
                let is_spared = condition == Some(Condition::OutOfMemory)
                    && replies.get(index).is_some_and(|reply| !reply.is_error());
                if is_forgotten {
                    return Executed { reply: replies[index].clone(), messages: Vec::new() };
                }
                database.set_condition(condition.filter(|_| !is_spared));
                let executed = database.run(now_ms, &call);
                database.set_condition(condition);
                executed
            };
            let ran = self.see(now, by, Some(script), &mut copy, run);
            alone.push(ran.reply);
            messages.extend(ran.messages);
        }
        let same_replies = replies.len() == alone.len()
            && replies.iter().zip(&alone).all(|(row, alone)| row == alone || both_are_errors(row, alone));
        if !same_replies || messages != executed.messages || copy != *database {
            let what = format!("a batch replies {replies:?}, and its rows one by one {alone:?}");
            self.recorder.violate(now, BATCH, what);
        }
        executed
    }

    /// Executes a command. Records a script on names of the plan, once for each name.
    pub(crate) fn see(
        &self,
        now: Duration,
        by: By,
        script: Option<Decoded>,
        database: &mut Database,
        execute: impl FnOnce(&mut Database, u64) -> Executed,
    ) -> Executed {
        let now_ms = self.now_ms(now);
        let Some(Decoded { verb, names, wire, units, form }) = script else {
            return execute(database, now_ms);
        };
        let name_keys: Vec<_> =
            self.name_keys.iter().filter(|name_keys| names.contains(&name_keys.name)).collect();
        let keys: Vec<_> = database.keys(now_ms).collect();
        let before: Vec<_> = name_keys.iter().map(|name_keys| Arc::new(name_keys.state(&keys))).collect();
        let executed = execute(database, now_ms);
        let keys: Vec<_> = database.keys(now_ms).collect();
        let stray = keys.iter().find(|(key, ..)| !self.name_keys.iter().any(|name_keys| name_keys.has(key)));
        let stray = stray.map(|(key, ..)| String::from_utf8_lossy(key).into_owned());
        let Some(reply) = reply_of(form, &executed.reply) else { return executed };
        for (name_keys, before) in name_keys.into_iter().zip(before) {
            let after = Arc::new(name_keys.state(&keys));
            let (name, wire) = (name_keys.name.clone(), wire.clone());
            let reply = if name_keys.is_plain() {
                plain_reply(verb, reply.clone(), (before.is_held_by(&wire), after.is_held_by(&wire)))
            } else {
                reply.clone()
            };
            let stray = stray.clone();
            let event = Event::Executed { verb, name, wire, units, by, reply, before, after, stray };
            let is_apart = matches!(by, By::AtFormer(_));
            self.recorder.record(now, if is_apart { Event::Apart(Box::new(event)) } else { event });
        }
        executed
    }

    /// Returns the keys that are left and should not be, long after all users have ended.
    pub(crate) fn left_over(&self, database: &mut Database, now: Duration, plan: &Plan) -> Vec<String> {
        let now_ms = self.now_ms(now);
        let may_stay = |entry: &Entry| {
            self.name_keys.iter().any(|name_keys| name_keys.may_stay(entry, plan.timeout, now_ms))
        };
        let mut entries = database.entries(now_ms);
        entries.retain(|entry| !may_stay(entry));
        entries.into_iter().map(|entry| String::from_utf8_lossy(&entry.key).into_owned()).collect()
    }
}

/// Returns true if both replies are errors. Their texts name scripts and lines of their own.
fn both_are_errors(one: &Frame, other: &Frame) -> bool {
    one.is_error() && other.is_error()
}

/// Returns the reply of a command as its script would give it, or `None` if the script is still to run.
fn reply_of(form: Form, frame: &Frame) -> Option<Reply> {
    match (form, frame) {
        (Form::Set { .. } | Form::Delete, Frame::Error(text)) if is_refusal(text) => None,
        (Form::Delete, Frame::Int(0)) => None,
        (Form::Set { gets: false }, Frame::Nil) => Some(Reply::Other),
        (Form::Set { gets: false }, Frame::Simple(_)) => Some(Reply::Nil),
        _ => Some(reply(frame)),
    }
}

/// Returns true if the error says that the server does not have the command.
fn is_refusal(text: &str) -> bool {
    text.starts_with("ERR unknown command") || text.starts_with("ERR syntax error")
}

/// Returns a plain lock's reply as another lock would give it: a refusal with a time, and a release that sends no message
/// as one that does.
fn plain_reply(verb: Verb, reply: Reply, (was_held, is_held): (bool, bool)) -> Reply {
    match (verb, &reply) {
        (Verb::Acquire, Reply::Other) => Reply::Int(1),
        (Verb::Release, Reply::Int(_)) if was_held && !is_held => Reply::Int(1),
        _ => reply,
    }
}

/// Reduces a reply to the part that matters for a history. A fenced lock's reply contains a plain lock's reply and a
/// token.
fn reply(frame: &Frame) -> Reply {
    match frame {
        Frame::Nil | Frame::NilArray => Reply::Nil,
        Frame::Int(number) => Reply::Int(*number),
        Frame::Error(text) => Reply::Error(text.clone()),
        Frame::Array(items) => match items.first() {
            Some(Frame::Int(-2)) => Reply::Nil,
            Some(Frame::Int(pttl)) => Reply::Int(*pttl),
            _ => Reply::Other,
        },
        _ => Reply::Other,
    }
}
