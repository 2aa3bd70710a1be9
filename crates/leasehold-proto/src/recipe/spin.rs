//! The spin lock: Redisson's spin lock on the wire (docs/protocol.md#8-spin-lock). It has no channel, so waiters try
//! again after growing pauses.
//!
//! The spin lock shares the hash and the rules of the reentrant lock.

use super::reentrant::{self, REENTRANT};
use super::rules::{CallArgs, LockCalls, Recipe};
use crate::call::Call;
use crate::outcome::Verb;
use crate::script::Script;

static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/spin/release.lua"));
static FORCE_RELEASE: Script =
    Script::new(Verb::ForceRelease, include_str!("../../scripts/spin/force_release.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 2] = [&RELEASE, &FORCE_RELEASE];

/// The spin lock's rules.
pub static SPIN: Recipe =
    Recipe { kind: "spin lock", channels: |_, _, _| Vec::new(), release, hand_off: None, ..REENTRANT };

/// The calls that inspect and free a spin lock.
pub static LOCK_CALLS: LockCalls =
    LockCalls { force_release: |name| Call::of(&FORCE_RELEASE).key("lock", name), ..reentrant::LOCK_CALLS };

fn release(args: &CallArgs<'_>) -> Call {
    Call::of(&RELEASE).key("lock", args.name).arg("owner", args.owner).arg("remaining", args.count)
}
