//! The write side of the read-write lock: Redisson's write lock on the wire (docs/protocol.md#93-write-acquire).
//!
//! While the lock's mode is `write`, its hash has one writer's field, and at most the same owner's reader besides.

use super::reentrant::{self, REENTRANT};
use super::rules::{CallArgs, LockCalls, Recipe};
use super::sides::{self, CHANNEL, MARK_LASTS, Side, WRITE, writer, writer_mark};
use crate::call::Call;
use crate::outcome::Verb;
use crate::script::Script;
use crate::text::{Text, or_empty};

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/write/acquire.lua"));
static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/write/release.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 2] = [&ACQUIRE, &RELEASE];

const SIDE: Side = WRITE;

/// The write lock's rules but for its companion, which stands above both sides.
pub(super) const ROW: Recipe = Recipe {
    kind: "write lock",
    channels: |name, _, _| vec![name.prefixed(CHANNEL)],
    acquire: |args| acquire(args, false),
    read_acquire: sides::read_acquire,
    renew: |args| reentrant::renew(args, writer(args.owner)),
    release: |args| release(args, writer_mark(args.name)),
    hand_off: None,
    ..REENTRANT
};

/// The calls that inspect and free the write side.
pub static LOCK_CALLS: LockCalls = LockCalls {
    force_release: |name| SIDE.force_release(name),
    inspect: |name, owner| SIDE.inspect(name, owner.map(writer)),
};

/// Creates an acquire, whose waiter goes before yielding readers if it is preferred.
pub(super) fn acquire(args: &CallArgs<'_>, preferred: bool) -> Call {
    Call::of(&ACQUIRE)
        .key("lock", args.name)
        .key("mark", writer_mark(args.name))
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("companion", or_empty(args.companion))
        .arg("mark_ms", mark_ms(preferred, args))
}

/// Creates the call that releases a write hold and removes the mark that its owner left while it waited.
pub(super) fn release(args: &CallArgs<'_>, mark: impl Text) -> Call {
    let call = Call::of(&RELEASE)
        .key("lock", args.name)
        .key("readers", args.name.tagged_text())
        .key("mark", mark)
        .arg("owner", args.owner)
        .arg("remaining", args.count);
    SIDE.telling(call, args.name)
}

/// Returns the lifetime of the mark of this attempt's waiter, in milliseconds. A caller that does not wait leaves no
/// mark.
pub(super) fn mark_ms(marks: bool, args: &CallArgs<'_>) -> u128 {
    if marks && !args.context.once { MARK_LASTS.as_millis() } else { 0 }
}
