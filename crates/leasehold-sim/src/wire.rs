//! What a command on the wire is for a lock, and what a lock's key looks like.
//!
//! Invariant: what is read here is read from the wire and the keyspace alone; the client's own view has no part in it.
//! Called by: the servers of both modes, for every script that they execute.

use std::sync::Arc;

use leasehold_proto::Verb;
use leasehold_proto::recipe::reentrant;
use leasehold_store::embedded::{Database, Entry, Frame, Value};

use crate::history::{Key, Reply, Wire};
use crate::workload::foreign;

/// A script's run on one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) verb: Verb,
    pub(crate) name: Arc<str>,
    pub(crate) wire: Wire,
    pub(crate) foreign: bool,
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
        return Some(Decoded { verb: script.verb, name, wire, foreign: false });
    }
    let verb = foreign::verb_of(script)?;
    let wire = args.get(foreign::OWNER_ARG).map_or_else(|| "".into(), |owner| text(owner));
    Some(Decoded { verb, name, wire, foreign: true })
}

/// What a reply says, as far as it matters for a history.
pub(crate) fn reply(frame: &Frame) -> Reply {
    match frame {
        Frame::Nil | Frame::NilArray => Reply::Nil,
        Frame::Int(number) => Reply::Int(*number),
        Frame::Error(text) => Reply::Error(text.clone()),
        _ => Reply::Other,
    }
}

/// A lock's key as it is now.
pub(crate) fn key(database: &mut Database, now_ms: u64, name: &str) -> Key {
    let entry = database.entries(now_ms).into_iter().find(|entry| entry.key == name.as_bytes());
    let Some(Entry { value, expires_at_ms, .. }) = entry else { return Key::default() };
    let Value::Hash(fields) = value else { return Key { foreign_type: true, ..Key::default() } };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = fields.iter().map(|(wire, count)| (text(wire).into(), text(count))).collect();
    Key { fields, expires_at_ms, foreign_type: false }
}

/// The names of all keys.
pub(crate) fn keys(database: &mut Database, now_ms: u64) -> Vec<String> {
    let name = |entry: Entry| String::from_utf8_lossy(&entry.key).into_owned();
    database.entries(now_ms).into_iter().map(name).collect()
}
