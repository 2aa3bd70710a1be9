//! The upgrade from reading to writing: a write hold together with the read hold of the same owner, which Redisson
//! lacks (docs/protocol.md#98-marks-and-upgrade).
//!
//! On the wire it is the same as a writer that also reads. At most one of the readers waits to write.
//!
//! # How it works
//! Two readers that each wait for the other to stop reading would wait forever. So the first reader leaves a mark,
//! which keeps new readers out, and the second reader learns at once that it would wait forever. The mark contains the
//! owner's reader and the wire owner of the waiting attempt. So a second attempt of the same owner is not blocked by
//! the mark, and a waiter that leaves removes only its own mark.

use super::read_write::{READ_LOCK, WRITE_LOCK};
use super::rules::{Answer, CallArgs, LockRecipe, Policy, Polling, Recipe, Renewal};
use super::sides::{self, SEEN_EVERY, channel, text, upgrade_mark};
use super::write::{self, mark_ms};
use crate::call::{Call, Reply};
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::script::Script;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/upgrade/acquire.lua"));

/// The script that only this recipe has.
pub static SCRIPTS: [&Script; 1] = [&ACQUIRE];

/// The upgrade's rules. The grant is held by the rules of the write lock.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade;

impl Recipe for Upgrade {
    fn kind(&self) -> &'static str {
        "upgrade"
    }

    fn policy(&self) -> Policy {
        Policy { polling: Polling::Each, queued: true, seen_every: Some(SEEN_EVERY), ..Policy::LOCK }
    }

    fn channels(&self, name: &Name, _others: &[Name], _owner: WireOwner) -> Vec<Channel> {
        vec![channel(name)]
    }

    fn companion(&self) -> Option<&'static dyn Recipe> {
        Some(&READ_LOCK)
    }

    fn held_as(&self) -> Option<&'static dyn Recipe> {
        Some(&WRITE_LOCK)
    }

    fn acquire(&self, args: &CallArgs<'_>) -> Call {
        Call::of(&ACQUIRE)
            .key("lock", args.name)
            .key("readers", args.name.tagged())
            .key("mark", upgrade_mark(args.name).as_str())
            .arg("lease_ms", args.lease.as_millis())
            .arg("owner", args.owner)
            .arg("companion", text(args.companion))
            .arg("mark_ms", mark_ms(true, args))
    }

    fn read_acquire(&self, reply: &Reply) -> Option<Answer> {
        sides::read_acquire(reply)
    }

    fn renew(&self, args: &CallArgs<'_>) -> Call {
        WRITE_LOCK.renew(args)
    }

    fn read_renew(&self, reply: &Reply) -> Option<Renewal> {
        WRITE_LOCK.read_renew(reply)
    }

    fn release(&self, args: &CallArgs<'_>) -> Call {
        write::release(args, &upgrade_mark(args.name))
    }

    fn read_release(&self, reply: &Reply) -> Option<bool> {
        WRITE_LOCK.read_release(reply)
    }
}

impl LockRecipe for Upgrade {
    fn force_release(&self, name: &Name) -> Call {
        WRITE_LOCK.force_release(name)
    }

    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call {
        WRITE_LOCK.inspect(name, owner)
    }
}
