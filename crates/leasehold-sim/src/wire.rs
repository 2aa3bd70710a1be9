//! The meaning of a command on the wire, and the state of a name on the server.
//!
//! Invariant: this module reads only the wire and the keyspace, never the state of the client.

mod decode;
mod name_keys;

use std::time::Duration;

use leasehold_store::embedded::{Database, Entry, Executed, Frame};

use self::name_keys::NameKeys;
use crate::clock::Clock;
use crate::history::{By, Event, Reply};
use crate::plan::Plan;
use crate::recorder::Recorder;

pub(crate) use self::decode::{Decoded, decode};

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

    /// Returns the time on the server's clock, in Unix milliseconds.
    pub(crate) fn now_ms(&self, now: Duration) -> u64 {
        u64::try_from(self.clock.reading(now).as_millis()).unwrap_or(u64::MAX)
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
        let Some(Decoded { verb, names, wire, units, .. }) = script else { return execute(database, now_ms) };
        let name_keys: Vec<_> =
            self.name_keys.iter().filter(|name_keys| names.contains(&name_keys.name)).collect();
        let entries = database.entries(now_ms);
        let before: Vec<_> = name_keys.iter().map(|name_keys| name_keys.state(&entries)).collect();
        let executed = execute(database, now_ms);
        let entries = database.entries(now_ms);
        let stray =
            entries.iter().find(|entry| !self.name_keys.iter().any(|name_keys| name_keys.has(&entry.key)));
        let stray = stray.map(|entry| String::from_utf8_lossy(&entry.key).into_owned());
        let reply = reply(&executed.reply);
        for (name_keys, before) in name_keys.into_iter().zip(before) {
            let after = name_keys.state(&entries);
            let (name, wire) = (name_keys.name.clone(), wire.clone());
            let (reply, stray) = (reply.clone(), stray.clone());
            let event = Event::Executed { verb, name, wire, units, by, reply, before, after, stray };
            self.recorder.record(now, event);
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
