//! The spin lock: Redisson's spin lock on the wire (docs/protocol.md#8-spin-lock). It has no channel, so waiters try
//! again after growing pauses.
//!
//! The spin lock shares the hash and the rules of the reentrant lock.

use super::reentrant::Reentrant;
use super::rules::{Answer, CallArgs, LockRecipe, Recipe, Renewal};
use crate::call::{Call, Reply};
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::script::Script;

static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/spin/release.lua"));
static FORCE_RELEASE: Script =
    Script::new(Verb::ForceRelease, include_str!("../../scripts/spin/force_release.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 2] = [&RELEASE, &FORCE_RELEASE];

/// The spin lock's rules.
#[derive(Clone, Copy, Debug)]
pub struct Spin;

impl Recipe for Spin {
    fn kind(&self) -> &'static str {
        "spin lock"
    }

    fn channels(&self, _name: &Name, _others: &[Name], _owner: WireOwner) -> Vec<Channel> {
        Vec::new()
    }

    fn acquire(&self, args: &CallArgs<'_>) -> Call {
        Reentrant.acquire(args)
    }

    fn read_acquire(&self, reply: &Reply) -> Option<Answer> {
        Reentrant.read_acquire(reply)
    }

    fn renew(&self, args: &CallArgs<'_>) -> Call {
        Reentrant.renew(args)
    }

    fn read_renew(&self, reply: &Reply) -> Option<Renewal> {
        Reentrant.read_renew(reply)
    }

    fn release(&self, args: &CallArgs<'_>) -> Call {
        Call::of(&RELEASE).key("lock", args.name).arg("owner", args.owner).arg("remaining", args.count)
    }

    fn read_release(&self, reply: &Reply) -> Option<bool> {
        Reentrant.read_release(reply)
    }
}

impl LockRecipe for Spin {
    fn force_release(&self, name: &Name) -> Call {
        Call::of(&FORCE_RELEASE).key("lock", name)
    }

    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call {
        Reentrant.inspect(name, owner)
    }
}
