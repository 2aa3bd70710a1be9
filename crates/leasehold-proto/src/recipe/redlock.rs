//! One node's part of Redlock: a plain lock on a server that grants only after enough uptime
//! (docs/protocol.md#104-recently-restarted-nodes).
//!
//! A server that may have forgotten a hold grants nothing until that hold has ended.

use std::time::Duration;

use super::reentrant::Reentrant;
use super::rules::{Answer, CallArgs, LockRecipe, Recipe, Renewal};
use crate::call::{Call, Reply};
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::script::Script;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/redlock/acquire.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 1] = [&ACQUIRE];

/// The rules of one node.
#[derive(Clone, Copy, Debug)]
pub struct Redlock;

impl Recipe for Redlock {
    fn kind(&self) -> &'static str {
        "redlock"
    }

    fn channels(&self, name: &Name, others: &[Name], owner: WireOwner) -> Vec<Channel> {
        Reentrant.channels(name, others, owner)
    }

    fn acquire(&self, args: &CallArgs<'_>) -> Call {
        Call::of(&ACQUIRE)
            .key("lock", args.name)
            .arg("lease_ms", args.lease.as_millis())
            .arg("owner", args.owner)
            .arg("uptime_ms", args.uptime.as_millis())
    }

    fn read_acquire(&self, reply: &Reply) -> Option<Answer> {
        let Reply::Array(items) = reply else { return Reentrant.read_acquire(reply) };
        let [Reply::Int(distrusted_for)] = items.as_slice() else { return None };
        Some(Answer::RecentlyRestarted {
            remaining: Duration::from_millis((*distrusted_for).try_into().ok()?),
        })
    }

    fn renew(&self, args: &CallArgs<'_>) -> Call {
        Reentrant.renew(args)
    }

    fn read_renew(&self, reply: &Reply) -> Option<Renewal> {
        Reentrant.read_renew(reply)
    }

    fn release(&self, args: &CallArgs<'_>) -> Call {
        Reentrant.release(args)
    }

    fn read_release(&self, reply: &Reply) -> Option<bool> {
        Reentrant.read_release(reply)
    }
}

impl LockRecipe for Redlock {
    fn force_release(&self, name: &Name) -> Call {
        Reentrant.force_release(name)
    }

    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call {
        Reentrant.inspect(name, owner)
    }
}
