//! One node's part of Redlock: a plain lock on a server that grants only after enough uptime
//! (docs/protocol.md#104-recently-restarted-nodes).
//!
//! A server that may have forgotten a hold grants nothing until that hold has ended.

use std::time::Duration;

use super::reentrant::{self, REENTRANT};
use super::rules::{Answer, CallArgs, Recipe};
use crate::call::Call;
use crate::outcome::Verb;
use crate::reply::Reply;
use crate::script::Script;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/redlock/acquire.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 1] = [&ACQUIRE];

/// The rules of one node.
pub static REDLOCK: Recipe = Recipe { kind: "redlock", acquire, read_acquire, hand_off: None, ..REENTRANT };

fn acquire(args: &CallArgs<'_>) -> Call {
    Call::of(&ACQUIRE)
        .key("lock", args.name)
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("uptime_ms", args.uptime.as_millis())
}

pub(super) fn read_acquire(reply: &Reply) -> Option<Answer> {
    let Reply::Array(items) = reply else { return reentrant::read_acquire(reply) };
    let [Reply::Int(distrusted_for)] = items.as_slice() else { return None };
    Some(Answer::RecentlyRestarted { remaining: Duration::from_millis((*distrusted_for).try_into().ok()?) })
}
