//! What a command on the wire is for a lock, and what a lock's key looks like.
//!
//! Invariant: what is read here is read from the wire and the keyspace alone; the client's own view has no part in it.
//! Called by: the servers of both modes, for every command that they execute.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::recipe::reentrant;
use leasehold_proto::{Call, Verb};
use leasehold_store::embedded::{Database, Entry, Executed, Frame, Value};

use crate::clock::Clock;
use crate::history::{By, Event, Key, Reply, Wire};
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::workload::foreign;

/// Sees what a server executes, and has it recorded.
#[derive(Clone)]
pub(crate) struct Witness {
    pub(crate) plan: Arc<Plan>,
    pub(crate) recorder: Recorder,
    /// The server's.
    pub(crate) clock: Clock,
}

impl Witness {
    /// What the server's clock says, in unix milliseconds.
    pub(crate) fn now_ms(&self, now: Duration) -> u64 {
        u64::try_from(self.clock.says(now).as_millis()).unwrap_or(u64::MAX)
    }

    /// Executes, and records it when it is a script on a lock.
    pub(crate) fn see(
        &self,
        now: Duration,
        by: By,
        script: Option<Decoded>,
        database: &mut Database,
        execute: impl FnOnce(&mut Database, u64) -> Executed,
    ) -> Executed {
        let now_ms = self.now_ms(now);
        let Some(Decoded { verb, name, wire, .. }) = script else { return execute(database, now_ms) };
        let before = key(&database.entries(now_ms), &name);
        let executed = execute(database, now_ms);
        let entries = database.entries(now_ms);
        let after = key(&entries, &name);
        let known = |entry: &&Entry| self.plan.names.iter().any(|name| name.as_bytes() == entry.key);
        let stray = entries.iter().find(|entry| !known(entry));
        let stray = stray.map(|entry| String::from_utf8_lossy(&entry.key).into_owned());
        let reply = reply(&executed.reply);
        self.recorder.record(now, Event::Executed { verb, name, wire, by, reply, before, after, stray });
        executed
    }
}

/// A script's run on one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) verb: Verb,
    pub(crate) name: Arc<str>,
    pub(crate) wire: Wire,
}

impl From<&Call> for Decoded {
    fn from(call: &Call) -> Self {
        let wire = call.argument("owner").unwrap_or_default().into();
        Self { verb: call.verb(), name: call.subject(), wire }
    }
}

/// Reads `EVAL text 1 key args` and `EVALSHA hash 1 key args`.
pub(crate) fn decode(command: &[Vec<u8>]) -> Option<Decoded> {
    let [verb, script, _count, key, args @ ..] = command else { return None };
    let by_hash = verb.eq_ignore_ascii_case(b"EVALSHA");
    if !by_hash && !verb.eq_ignore_ascii_case(b"EVAL") {
        return None;
    }
    let text = |bytes: &[u8]| Arc::<str>::from(String::from_utf8_lossy(bytes));
    let name = text(key);
    let ours = reentrant::SCRIPTS.iter().find(|known| match by_hash {
        true => known.sha1().as_bytes() == script.as_slice(),
        false => known.source().as_bytes() == script.as_slice(),
    });
    if let Some(script) = ours {
        let place = script.header().args.iter().position(|arg| *arg == "owner");
        let wire = place.and_then(|place| args.get(place)).map_or_else(|| "".into(), |owner| text(owner));
        return Some(Decoded { verb: script.verb, name, wire });
    }
    let verb = foreign::verb_of(script)?;
    let wire = args.get(foreign::OWNER_ARG).map_or_else(|| "".into(), |owner| text(owner));
    Some(Decoded { verb, name, wire })
}

/// What a reply says, as far as it matters for a history.
fn reply(frame: &Frame) -> Reply {
    match frame {
        Frame::Nil | Frame::NilArray => Reply::Nil,
        Frame::Int(number) => Reply::Int(*number),
        Frame::Error(text) => Reply::Error(text.clone()),
        _ => Reply::Other,
    }
}

/// A lock's key as it is now.
fn key(entries: &[Entry], name: &str) -> Key {
    let entry = entries.iter().find(|entry| entry.key == name.as_bytes());
    let Some(Entry { value, expires_at_ms, .. }) = entry else { return Key::default() };
    let Value::Hash(fields) = value else { return Key { foreign_type: true, ..Key::default() } };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = fields.iter().map(|(wire, count)| (text(wire).into(), text(count))).collect();
    Key { fields, expires_at_ms: *expires_at_ms, foreign_type: false }
}

/// The names of all keys.
pub(crate) fn keys(database: &mut Database, now_ms: u64) -> Vec<String> {
    let name = |entry: Entry| String::from_utf8_lossy(&entry.key).into_owned();
    database.entries(now_ms).into_iter().map(name).collect()
}
