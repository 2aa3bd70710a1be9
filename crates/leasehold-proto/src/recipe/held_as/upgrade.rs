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

use crate::call::Call;
use crate::outcome::Verb;
use crate::recipe::read_write::{READ_LOCK, WRITE_LOCK};
use crate::recipe::rules::{CallArgs, Recipe, Waiters};
use crate::recipe::sides::{SEEN_EVERY, upgrade_mark};
use crate::recipe::write::{self, mark_ms};
use crate::script::Script;
use crate::text::or_empty;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../../scripts/upgrade/acquire.lua"));

/// The script that only this recipe has.
pub static SCRIPTS: [&Script; 1] = [&ACQUIRE];

/// The upgrade's rules. The grant is held by the rules of the write lock.
pub static UPGRADE: Recipe = Recipe {
    kind: "upgrade",
    waiters: Waiters::Queued { seen_every: SEEN_EVERY },
    companion: Some(&READ_LOCK),
    blocked_by: None,
    held_as: Some(&WRITE_LOCK),
    acquire,
    release: |args| write::release(args, upgrade_mark(args.name)),
    ..WRITE_LOCK
};

fn acquire(args: &CallArgs<'_>) -> Call {
    Call::of(&ACQUIRE)
        .key("lock", args.name)
        .key("readers", args.name.tagged_text())
        .key("mark", upgrade_mark(args.name))
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("companion", or_empty(args.companion))
        .arg("mark_ms", mark_ms(true, args))
}
