//! The read side of the read-write lock: Redisson's read lock on the wire (docs/protocol.md#92-read-acquire).
//!
//! Each read hold has a key of its own that lives as long as its lease, and the lock lives as long as the longest of
//! them.
//!
//! # How it works
//! A reader that also writes has two wire owners, one for each side. Redisson admits such a reader by its thread id,
//! which is the same on both sides. Here the acquire names the wire owner under which the same owner writes.

use super::reentrant::REENTRANT;
use super::rules::{CallArgs, Holding, LockCalls, Recipe};
use super::sides::{self, CHANNEL, READ, Side, upgrade_mark, writer_mark};
use crate::call::Call;
use crate::outcome::Verb;
use crate::script::Script;
use crate::text::{joined, or_empty};

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/read/acquire.lua"));
static RENEW: Script = Script::new(Verb::Renew, include_str!("../../scripts/read/renew.lua"));
static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/read/release.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 3] = [&ACQUIRE, &RENEW, &RELEASE];

const SIDE: Side = READ;

/// The read lock's rules but for its companion, which stands above both sides.
pub(super) const ROW: Recipe = Recipe {
    kind: "read lock",
    holding: Holding::Shared,
    channels: |name, _, _| vec![name.prefixed(CHANNEL)],
    acquire: |args| acquire(args, false),
    read_acquire: sides::read_acquire,
    renew,
    release,
    hand_off: None,
    ..REENTRANT
};

/// The calls that inspect and free the read side.
pub static LOCK_CALLS: LockCalls = LockCalls {
    force_release: |name| SIDE.force_release(name),
    inspect: |name, owner| SIDE.inspect(name, owner),
};

/// Creates an acquire, which yields to a waiting, preferred writer if asked to.
pub(super) fn acquire(args: &CallArgs<'_>, yields: bool) -> Call {
    Call::of(&ACQUIRE)
        .key("lock", args.name)
        .key("timeout", joined([&args.name.tagged_text(), &":", &args.owner, &":rwlock_timeout:1"]))
        .key("upgrade", upgrade_mark(args.name))
        .key("writer", writer_mark(args.name))
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("companion", or_empty(args.companion))
        .arg("yields", u8::from(yields))
}

fn renew(args: &CallArgs<'_>) -> Call {
    Call::of(&RENEW)
        .key("lock", args.name)
        .key("readers", args.name.tagged_text())
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("count", args.count)
}

fn release(args: &CallArgs<'_>) -> Call {
    let call = Call::of(&RELEASE)
        .key("lock", args.name)
        .key("readers", args.name.tagged_text())
        .key("upgrade", upgrade_mark(args.name))
        .arg("owner", args.owner)
        .arg("remaining", args.count);
    SIDE.telling(call, args.name)
}
