//! Several plain locks of one cluster slot in one script: all or none
//! (docs/protocol.md#102-several-names-in-one-script).
//!
//! The owner holds all locks or none after every script.

use super::reentrant::{CHANNEL, MESSAGE, REENTRANT};
use super::rules::{CallArgs, PUBLISH, Recipe};
use crate::call::Call;
use crate::outcome::Verb;
use crate::script::Script;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/multi/acquire.lua"));
static RENEW: Script = Script::new(Verb::Renew, include_str!("../../scripts/multi/renew.lua"));
static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/multi/release.lua"));

/// The scripts of this recipe.
pub static SCRIPTS: [&Script; 3] = [&ACQUIRE, &RENEW, &RELEASE];

/// The rules of several locks at once: the locks of a subject's name and of its other names.
pub static MULTI: Recipe = Recipe {
    kind: "multi-lock",
    channels: |name, others, _| {
        std::iter::once(name).chain(others).map(|name| name.prefixed(CHANNEL)).collect()
    },
    acquire: |args| call(&ACQUIRE, args).arg("lease_ms", args.lease.as_millis()).arg("owner", args.owner),
    renew,
    release: |args| waking(call(&RELEASE, args).arg("owner", args.owner).arg("remaining", args.count)),
    hand_off: None,
    ..REENTRANT
};

fn renew(args: &CallArgs<'_>) -> Call {
    let call = call(&RENEW, args).arg("lease_ms", args.lease.as_millis());
    waking(call.arg("owner", args.owner).arg("count", args.count))
}

fn call(script: &'static Script, args: &CallArgs<'_>) -> Call {
    Call::of(script).key("lock", args.name).more_keys(args.others)
}

/// Adds the arguments with which a script wakes waiters.
fn waking(call: Call) -> Call {
    call.arg("publish", PUBLISH).arg("prefix", CHANNEL).arg("message", MESSAGE)
}
