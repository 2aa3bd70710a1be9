//! The write side of the read-write lock: Redisson's write lock on the wire (docs/protocol.md#93-write-acquire).
//!
//! While the lock's mode is `write`, its hash has one writer's field, and at most the same owner's reader besides.

use std::fmt;

use super::reentrant::{self, Reentrant};
use super::rules::{Answer, CallArgs, LockRecipe, Policy, Recipe, Renewal};
use super::sides::{self, MARK_LASTS, SEEN_EVERY, Side, WRITE, channel, text, writer, writer_mark};
use crate::call::{Call, Reply};
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::script::Script;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/write/acquire.lua"));
static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/write/release.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 2] = [&ACQUIRE, &RELEASE];

const SIDE: Side = WRITE;

/// The write lock's rules. Both of its values are one recipe, so a hold under one is a hold under the other.
#[derive(Clone, Copy)]
pub struct Write {
    /// True if the writer goes before yielding readers while it waits.
    pub(super) preferred: bool,
    /// The read lock.
    pub(super) companion: &'static dyn Recipe,
}

/// Creates the call that releases a write hold and removes the mark that its owner left while it waited.
pub(super) fn release(args: &CallArgs<'_>, mark: &Channel) -> Call {
    let call = Call::of(&RELEASE)
        .key("lock", args.name)
        .key("readers", args.name.tagged())
        .key("mark", mark.as_str())
        .arg("owner", args.owner)
        .arg("remaining", args.count);
    SIDE.telling(call, args.name)
}

/// Returns the lifetime of the mark of this attempt's waiter, in milliseconds. A caller that does not wait leaves no
/// mark.
pub(super) fn mark_ms(marks: bool, args: &CallArgs<'_>) -> u128 {
    if marks && !args.context.once { MARK_LASTS.as_millis() } else { 0 }
}

impl Recipe for Write {
    fn kind(&self) -> &'static str {
        "write lock"
    }

    fn policy(&self) -> Policy {
        let seen_every = self.preferred.then_some(SEEN_EVERY);
        Policy { queued: self.preferred, seen_every, ..Policy::LOCK }
    }

    fn channels(&self, name: &Name, _others: &[Name], _owner: WireOwner) -> Vec<Channel> {
        vec![channel(name)]
    }

    /// Returns the read lock, so that a waiter whose owner begins to read learns that it would wait for itself.
    fn companion(&self) -> Option<&'static dyn Recipe> {
        Some(self.companion)
    }

    fn blocked_by(&self) -> Option<&'static dyn Recipe> {
        Some(self.companion)
    }

    fn acquire(&self, args: &CallArgs<'_>) -> Call {
        Call::of(&ACQUIRE)
            .key("lock", args.name)
            .key("mark", writer_mark(args.name).as_str())
            .arg("lease_ms", args.lease.as_millis())
            .arg("owner", args.owner)
            .arg("companion", text(args.companion))
            .arg("mark_ms", mark_ms(self.preferred, args))
    }

    fn read_acquire(&self, reply: &Reply) -> Option<Answer> {
        sides::read_acquire(reply)
    }

    fn renew(&self, args: &CallArgs<'_>) -> Call {
        reentrant::renew(args, &writer(args.owner))
    }

    fn read_renew(&self, reply: &Reply) -> Option<Renewal> {
        Reentrant.read_renew(reply)
    }

    fn release(&self, args: &CallArgs<'_>) -> Call {
        release(args, &writer_mark(args.name))
    }

    fn read_release(&self, reply: &Reply) -> Option<bool> {
        Reentrant.read_release(reply)
    }
}

impl LockRecipe for Write {
    fn force_release(&self, name: &Name) -> Call {
        SIDE.force_release(name)
    }

    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call {
        SIDE.inspect(name, owner.map(writer))
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The companion is left out, because it has this recipe as its own companion.
        f.debug_struct("Write").field("preferred", &self.preferred).finish_non_exhaustive()
    }
}
