//! What a command on the wire is for a name, and what belongs to the name on the server.
//!
//! Invariant: what is read here is read from the wire and the keyspace alone; the client's own view has no part in it.
//! Called by: the servers of both modes, for every command that they execute.

mod decode;
mod places;

use std::time::Duration;

use leasehold_store::embedded::{Database, Entry, Executed, Frame};

use self::places::Places;
use crate::clock::Clock;
use crate::history::{By, Event, Reply};
use crate::plan::Plan;
use crate::recorder::Recorder;

pub(crate) use self::decode::{Decoded, decode};

/// Sees what a server executes, and has it recorded.
#[derive(Clone)]
pub(crate) struct Witness {
    recorder: Recorder,
    /// The server's.
    pub(crate) clock: Clock,
    /// The plan's names, with what belongs to each.
    places: Vec<Places>,
}

impl Witness {
    pub(crate) fn new(plan: &Plan, recorder: Recorder, clock: Clock) -> Self {
        Self { recorder, clock, places: plan.names.iter().map(Places::of).collect() }
    }

    /// What the server's clock says, in unix milliseconds.
    pub(crate) fn now_ms(&self, now: Duration) -> u64 {
        u64::try_from(self.clock.says(now).as_millis()).unwrap_or(u64::MAX)
    }

    /// Executes, and records it when it is a script on a name of the plan, once for each name that it is on.
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
        let places: Vec<_> = self.places.iter().filter(|places| names.contains(&places.name)).collect();
        let entries = database.entries(now_ms);
        let before: Vec<_> = places.iter().map(|places| places.key(&entries)).collect();
        let executed = execute(database, now_ms);
        let entries = database.entries(now_ms);
        let stray = entries.iter().find(|entry| !self.places.iter().any(|places| places.has(&entry.key)));
        let stray = stray.map(|entry| String::from_utf8_lossy(&entry.key).into_owned());
        let reply = reply(&executed.reply);
        for (places, before) in places.into_iter().zip(before) {
            let after = places.key(&entries);
            let (name, wire) = (places.name.clone(), wire.clone());
            let (reply, stray) = (reply.clone(), stray.clone());
            let event = Event::Executed { verb, name, wire, units, by, reply, before, after, stray };
            self.recorder.record(now, event);
        }
        executed
    }

    /// The keys that are there and should not be, long after everybody has gone.
    pub(crate) fn left_over(&self, database: &mut Database, now: Duration, plan: &Plan) -> Vec<String> {
        let now_ms = self.now_ms(now);
        let may_stay =
            |entry: &Entry| self.places.iter().any(|places| places.may_stay(entry, plan.timeout, now_ms));
        let mut entries = database.entries(now_ms);
        entries.retain(|entry| !may_stay(entry));
        entries.into_iter().map(|entry| String::from_utf8_lossy(&entry.key).into_owned()).collect()
    }
}

/// What a reply says, as far as it matters for a history. A fenced lock's says what a lock's does, and a token.
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
