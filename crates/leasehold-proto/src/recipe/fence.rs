//! Writes that carry a fencing token, which one script checks before it writes (docs/protocol.md#73-fenced-writes).
//!
//! A token that is lower than an earlier token for the same key writes nothing.

use crate::call::Call;
use crate::name::Name;
use crate::outcome::Verb;
use crate::reply::Reply;
use crate::script::Script;

const CHECK: &str = include_str!("../../scripts/fence/check.lua");
const MARK: &str = include_str!("../../scripts/fence/mark.lua");

static SET: Script = Script::new(
    Verb::Adjust,
    concat!(include_str!("../../scripts/fence/check.lua"), include_str!("../../scripts/fence/set.lua")),
);
static HSET: Script = Script::new(
    Verb::Adjust,
    concat!(include_str!("../../scripts/fence/check.lua"), include_str!("../../scripts/fence/hset.lua")),
);

/// The scripts of this recipe.
pub static SCRIPTS: [&Script; 2] = [&SET, &HSET];

/// The first item of the check's reply when it refuses.
const REFUSED: &[u8] = b"leasehold_fence";

/// The outcome of a fenced write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The write was done, and this is its reply.
    Done(Reply),
    /// A newer token has written to the key.
    Stale {
        /// The newer token.
        newest: u64,
    },
}

/// Sets a key.
#[must_use]
pub fn set(token: u64, key: &Name, value: &[u8]) -> Call {
    checked(&SET, token, key, &[], vec![value.to_vec()])
}

/// Sets a field of a hash.
#[must_use]
pub fn hset(token: u64, key: &Name, field: &[u8], value: &[u8]) -> Call {
    checked(&HSET, token, key, &[], vec![field.to_vec(), value.to_vec()])
}

/// Creates a script of the application behind the check. Its text stays in memory for the life of the process.
#[must_use]
pub fn with_check(source: &str) -> &'static Script {
    let source = Box::leak(format!("{CHECK}{MARK}{source}").into_boxed_str());
    Box::leak(Box::new(Script::new(Verb::Adjust, source).alone()))
}

/// Creates a call of a script behind the check, which is about the script's first key.
#[must_use]
pub fn checked(script: &'static Script, token: u64, key: &Name, others: &[Name], args: Vec<Vec<u8>>) -> Call {
    let fence = key.prefixed("leasehold_fence");
    let keys = std::iter::once(key).chain(others).map(Name::as_str).chain([fence.as_str()]);
    Call::with(script, keys, args.into_iter().chain([token.to_string().into_bytes()]))
}

/// Reads the reply of a fenced write.
#[must_use]
pub fn read(reply: &Reply) -> Option<WriteOutcome> {
    match reply {
        Reply::Array(items) => match items.as_slice() {
            [Reply::Text(word), Reply::Text(newest)] if word == REFUSED => {
                Some(WriteOutcome::Stale { newest: std::str::from_utf8(newest).ok()?.parse().ok()? })
            }
            _ => Some(WriteOutcome::Done(reply.clone())),
        },
        _ => Some(WriteOutcome::Done(reply.clone())),
    }
}
