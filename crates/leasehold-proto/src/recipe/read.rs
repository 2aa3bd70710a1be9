//! The read side of the read-write lock: Redisson's read lock on the wire (docs/protocol.md#92-read-acquire).
//!
//! Each read hold has a key of its own that lives as long as its lease, and the lock lives as long as the longest of
//! them.
//!
//! # How it works
//! A reader that also writes has two wire owners, one for each side. Redisson admits such a reader by its thread id,
//! which is the same on both sides. Here the acquire names the wire owner under which the same owner writes.

use std::fmt;

use super::reentrant::Reentrant;
use super::rules::{Answer, CallArgs, LockRecipe, Policy, Recipe, Renewal};
use super::sides::{self, READ, Side, channel, text, upgrade_mark, writer_mark};
use crate::call::{Call, Reply};
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::script::Script;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/read/acquire.lua"));
static RENEW: Script = Script::new(Verb::Renew, include_str!("../../scripts/read/renew.lua"));
static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/read/release.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 3] = [&ACQUIRE, &RENEW, &RELEASE];

const SIDE: Side = READ;

/// The read lock's rules. Both of its values are one recipe, so a hold under one is a hold under the other.
#[derive(Clone, Copy)]
pub struct Read {
    /// True if readers let a waiting, preferred writer go first.
    pub(super) yields: bool,
    /// The write lock.
    pub(super) companion: &'static dyn Recipe,
}

impl Recipe for Read {
    fn kind(&self) -> &'static str {
        "read lock"
    }

    fn policy(&self) -> Policy {
        Policy { exclusive: false, ..Policy::LOCK }
    }

    fn channels(&self, name: &Name, _others: &[Name], _owner: WireOwner) -> Vec<Channel> {
        vec![channel(name)]
    }

    fn companion(&self) -> Option<&'static dyn Recipe> {
        Some(self.companion)
    }

    fn acquire(&self, args: &CallArgs<'_>) -> Call {
        let first = format!("{}:{}:rwlock_timeout:1", args.name.tagged(), args.owner);
        Call::of(&ACQUIRE)
            .key("lock", args.name)
            .key("timeout", first)
            .key("upgrade", upgrade_mark(args.name).as_str())
            .key("writer", writer_mark(args.name).as_str())
            .arg("lease_ms", args.lease.as_millis())
            .arg("owner", args.owner)
            .arg("companion", text(args.companion))
            .arg("yields", u8::from(self.yields))
    }

    fn read_acquire(&self, reply: &Reply) -> Option<Answer> {
        sides::read_acquire(reply)
    }

    fn renew(&self, args: &CallArgs<'_>) -> Call {
        Call::of(&RENEW)
            .key("lock", args.name)
            .key("readers", args.name.tagged())
            .arg("lease_ms", args.lease.as_millis())
            .arg("owner", args.owner)
            .arg("count", args.count)
    }

    fn read_renew(&self, reply: &Reply) -> Option<Renewal> {
        Reentrant.read_renew(reply)
    }

    fn release(&self, args: &CallArgs<'_>) -> Call {
        let call = Call::of(&RELEASE)
            .key("lock", args.name)
            .key("readers", args.name.tagged())
            .key("upgrade", upgrade_mark(args.name).as_str())
            .arg("owner", args.owner)
            .arg("remaining", args.count);
        SIDE.telling(call, args.name)
    }

    fn read_release(&self, reply: &Reply) -> Option<bool> {
        Reentrant.read_release(reply)
    }
}

impl LockRecipe for Read {
    fn force_release(&self, name: &Name) -> Call {
        SIDE.force_release(name)
    }

    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call {
        SIDE.inspect(name, owner.map(|owner| owner.to_string()))
    }
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The companion is left out, because it has this recipe as its own companion.
        f.debug_struct("Read").field("yields", &self.yields).finish_non_exhaustive()
    }
}
