//! The write side of the read-write lock: Redisson's write lock on the wire (docs/protocol.md#93-write-acquire).
//!
//! Invariant: while the lock's mode is `write` it has one writer's field, and beside it at most the same owner's reader.
//! Called by: the engine, as a `Recipe`; the public lock, to look and to force; the upgrade, which is held as a write.

use super::read_write::{self, MARK_LASTS, SEEN_EVERY, Side, WRITE, channel, text, writer, writer_mark};
use super::reentrant::{self, Reentrant};
use super::{Answer, Ask, LockRecipe, Manner, Recipe, Renewal, read};
use crate::call::{Call, Reply};
use crate::engine::Subject;
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::script::Script;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/write/acquire.lua"));
static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/write/release.lua"));

/// The scripts of this recipe that are its own.
pub static SCRIPTS: [&Script; 2] = [&ACQUIRE, &RELEASE];

const SIDE: Side = WRITE;

/// The write lock's rules. Both values are one recipe: a hold under the one is a hold under the other.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Whether it goes before readers of [`read::YIELDING`] while it waits.
    preferred: bool,
}

/// Writers who wait until nobody reads, as Redisson's.
pub static WRITE_LOCK: Write = Write { preferred: false };
/// Writers who go before readers who let them.
pub static PREFERRED: Write = Write { preferred: true };

/// What one writes to give back what it holds, and to take away the mark that it left while it waited.
pub(super) fn release(ask: &Ask<'_>, mark: &Channel) -> Call {
    let call = Call::of(&RELEASE)
        .key("lock", ask.name)
        .key("readers", ask.name.tagged())
        .key("mark", mark.as_str())
        .arg("owner", ask.owner)
        .arg("remaining", ask.count);
    SIDE.telling(call, ask.name)
}

/// How long the mark of one stands who asks now, in milliseconds: one who does not wait leaves none.
pub(super) fn mark_ms(marks: bool, ask: &Ask<'_>) -> u128 {
    if marks && !ask.standing.once { MARK_LASTS.as_millis() } else { 0 }
}

impl Recipe for Write {
    fn kind(&self) -> &'static str {
        "write lock"
    }

    fn manner(&self) -> Manner {
        let seen_every = self.preferred.then_some(SEEN_EVERY);
        Manner { queued: self.preferred, seen_every, ..Manner::LOCK }
    }

    fn channels(&self, subject: &Subject, _owner: WireOwner) -> Vec<Channel> {
        vec![channel(&subject.name)]
    }

    /// So that a waiter whose owner begins to read learns that it would wait for itself.
    fn beside(&self) -> Option<&'static dyn Recipe> {
        Some(&read::READ_LOCK)
    }

    fn blocked_by(&self) -> Option<&'static dyn Recipe> {
        Some(&read::READ_LOCK)
    }

    fn acquire(&self, ask: &Ask<'_>) -> Call {
        Call::of(&ACQUIRE)
            .key("lock", ask.name)
            .key("mark", writer_mark(ask.name).as_str())
            .arg("lease_ms", ask.lease.as_millis())
            .arg("owner", ask.owner)
            .arg("companion", text(ask.beside))
            .arg("mark_ms", mark_ms(self.preferred, ask))
    }

    fn read_acquire(&self, reply: &Reply) -> Option<Answer> {
        read_write::read_acquire(reply)
    }

    fn renew(&self, ask: &Ask<'_>) -> Call {
        reentrant::renew(ask, &writer(ask.owner))
    }

    fn read_renew(&self, reply: &Reply) -> Option<Renewal> {
        Reentrant.read_renew(reply)
    }

    fn release(&self, ask: &Ask<'_>) -> Call {
        release(ask, &writer_mark(ask.name))
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
