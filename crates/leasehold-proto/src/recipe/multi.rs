//! Several plain locks of one cluster slot in one script: all or none
//! (docs/protocol.md#102-several-names-in-one-script).
//!
//! The owner holds all locks or none after every script.

use super::reentrant::{CHANNEL, MESSAGE, Reentrant, channel};
use super::rules::{Answer, CallArgs, PUBLISH, Recipe, Renewal};
use crate::call::{Call, Reply};
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::script::Script;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/multi/acquire.lua"));
static RENEW: Script = Script::new(Verb::Renew, include_str!("../../scripts/multi/renew.lua"));
static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/multi/release.lua"));

/// The scripts of this recipe.
pub static SCRIPTS: [&Script; 3] = [&ACQUIRE, &RENEW, &RELEASE];

/// The rules of several locks at once: the locks of a subject's name and of its other names.
#[derive(Clone, Copy, Debug)]
pub struct Multi;

fn call(script: &'static Script, args: &CallArgs<'_>) -> Call {
    Call::of(script).key("lock", args.name).more_keys(args.others).arg("owner", args.owner)
}

/// Adds the arguments with which a script wakes waiters.
fn waking(call: Call) -> Call {
    call.arg("publish", PUBLISH).arg("prefix", CHANNEL).arg("message", MESSAGE)
}

impl Recipe for Multi {
    fn kind(&self) -> &'static str {
        "multi-lock"
    }

    fn channels(&self, name: &Name, others: &[Name], _owner: WireOwner) -> Vec<Channel> {
        std::iter::once(name).chain(others).map(channel).collect()
    }

    fn acquire(&self, args: &CallArgs<'_>) -> Call {
        call(&ACQUIRE, args).arg("lease_ms", args.lease.as_millis())
    }

    fn read_acquire(&self, reply: &Reply) -> Option<Answer> {
        Reentrant.read_acquire(reply)
    }

    fn renew(&self, args: &CallArgs<'_>) -> Call {
        waking(call(&RENEW, args)).arg("lease_ms", args.lease.as_millis()).arg("count", args.count)
    }

    fn read_renew(&self, reply: &Reply) -> Option<Renewal> {
        Reentrant.read_renew(reply)
    }

    fn release(&self, args: &CallArgs<'_>) -> Call {
        waking(call(&RELEASE, args)).arg("remaining", args.count)
    }

    fn read_release(&self, reply: &Reply) -> Option<bool> {
        Reentrant.read_release(reply)
    }
}
