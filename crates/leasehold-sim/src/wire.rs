//! What a command on the wire is for a lock, and what a lock's key looks like.
//!
//! Invariant: what is read here is read from the wire and the keyspace alone; the client's own view has no part in it.
//! Called by: the servers of both modes, for every script that they execute.

use std::sync::Arc;

use leasehold_proto::Verb;
use leasehold_proto::recipe::reentrant;
use leasehold_store::embedded::{Database, Frame};

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
    let mut ask = |verb: &str| database.execute(now_ms, &[verb.into(), name.into()]).reply;
    let fields = match ask("HGETALL") {
        Frame::Array(items) => items,
        Frame::Error(_) => return Key { foreign_type: true, ..Key::default() },
        _ => Vec::new(),
    };
    if fields.is_empty() {
        return Key::default();
    }
    let text = |frame: &Frame| match frame {
        Frame::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    let fields = fields.chunks(2).map(|pair| (text(&pair[0]).into(), text(&pair[1]))).collect();
    let expires_at_ms = match ask("PEXPIRETIME") {
        Frame::Int(at) => u64::try_from(at).ok(),
        _ => None,
    };
    Key { fields, expires_at_ms, foreign_type: false }
}

/// How many keys there are.
pub(crate) fn keys(database: &mut Database, now_ms: u64) -> Vec<String> {
    match database.execute(now_ms, &["KEYS".into(), "*".into()]).reply {
        Frame::Array(keys) => keys
            .iter()
            .filter_map(|key| match key {
                Frame::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}
