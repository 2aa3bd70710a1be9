//! The fair lock: Redisson's fair `RLock` on the wire (docs/protocol.md#6-fair-lock), with waiters that prove they are
//! alive.
//!
//! Each waiter in the queue's list is also in its set of deadlines. A waiter of this client that has not called for
//! [`GONE_AFTER`] is removed.
//!
//! # How it works
//! Redisson gives each waiter a deadline of minutes, and every script removes heads whose deadline has passed. Waiters
//! of this client call every [`SEEN_EVERY`] and note the server's time in a set that Redisson does not have. A waiter
//! that has not called for [`GONE_AFTER`] is removed from any place in the queue. The waiter's deadline in Redisson's
//! set is as short. It is longer only by the time that Redisson's waiters before this waiter may subtract when they are
//! granted. A Java waiter that does not take a free lock has its deadline cut to the same [`GONE_AFTER`].

use std::time::Duration;

use super::reentrant::{self, CHANNEL, MESSAGE, REENTRANT};
use super::rules::{CallArgs, KeepAliveArgs, LockCalls, NUMSUB, PUBLISH, Recipe, Waiters};
use crate::call::Call;
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::script::Script;
use crate::text::{Text, joined};

macro_rules! script {
    ($verb:ident, $file:literal) => {
        Script::new(
            Verb::$verb,
            concat!(
                include_str!("../../scripts/fair/queue.lua"),
                include_str!("../../scripts/fair/purge.lua"),
                include_str!("../../scripts/fair/hurry.lua"),
                include_str!(concat!("../../scripts/fair/", $file))
            ),
        )
    };
}

static ACQUIRE: Script = Script::new(
    Verb::Acquire,
    concat!(
        include_str!("../../scripts/fair/queue.lua"),
        include_str!("../../scripts/fair/purge.lua"),
        include_str!("../../scripts/fair/hurry.lua"),
        include_str!("../../scripts/fair/deadline.lua"),
        include_str!("../../scripts/fair/enter.lua"),
        include_str!("../../scripts/fair/acquire.lua")
    ),
);
static KEEP_ALIVE: Script = Script::new(
    Verb::KeepAlive,
    concat!(
        include_str!("../../scripts/fair/queue.lua"),
        include_str!("../../scripts/fair/purge.lua"),
        include_str!("../../scripts/fair/hurry.lua"),
        include_str!("../../scripts/fair/deadline.lua"),
        include_str!("../../scripts/keep_alive/window.lua"),
        include_str!("../../scripts/keep_alive/fair.lua")
    ),
);
static RELEASE: Script = script!(Release, "release.lua");
static FORCE_RELEASE: Script = script!(ForceRelease, "force_release.lua");

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 4] = [&ACQUIRE, &KEEP_ALIVE, &RELEASE, &FORCE_RELEASE];

/// The longest interval between two calls with which a waiter shows that it is alive. It is less than a third of
/// [`GONE_AFTER`], so a waiter keeps its place when two calls are lost.
pub const SEEN_EVERY: Duration = Duration::from_millis(1_500);
/// The time without a call after which a waiter counts as gone. The scripts have a copy of the number. A waiter
/// that died keeps those behind it waiting for that long.
pub const GONE_AFTER: Duration = Duration::from_secs(5);

/// The fair lock's rules.
pub static FAIR: Recipe = Recipe {
    kind: "fair lock",
    waiters: Waiters::Queued { seen_every: SEEN_EVERY },
    channels: |name, _, owner| vec![Channel::new(&format!("{}:{owner}", name.prefixed_text(CHANNEL)))],
    acquire,
    release,
    keep_alive: Some(keep_alive),
    hand_off: None,
    ..REENTRANT
};

/// The calls that inspect and free a fair lock.
pub static LOCK_CALLS: LockCalls =
    LockCalls { force_release: |name| publishing(call(&FORCE_RELEASE, name), name), ..reentrant::LOCK_CALLS };

fn acquire(args: &CallArgs<'_>) -> Call {
    let call = call(&ACQUIRE, args.name)
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("once", u8::from(args.context.once));
    publishing(call, args.name).arg("numsub", NUMSUB)
}

fn release(args: &CallArgs<'_>) -> Call {
    let call = call(&RELEASE, args.name).arg("owner", args.owner).arg("remaining", args.count);
    publishing(call, args.name)
}

fn keep_alive(args: &KeepAliveArgs<'_>) -> Call {
    let call = call(&KEEP_ALIVE, args.name).arg("client", joined([&args.client, &":"]));
    publishing(call.arg("from", args.from), args.name).arg("numsub", NUMSUB)
}

/// Begins a call with the keys that all scripts of this recipe have.
fn call(script: &'static Script, name: &Name) -> Call {
    let [queue, timeout, seen] = queue_keys(name);
    Call::of(script).key("lock", name).key("queue", queue).key("timeout", timeout).key("seen", seen)
}

/// Returns the keys of the queue: the waiters, their deadlines, and their last calls.
pub(crate) fn queue_keys(name: &Name) -> [impl Text; 3] {
    ["redisson_lock_queue", "redisson_lock_timeout", "leasehold_lock_seen"]
        .map(|prefix| name.prefixed_text(prefix))
}

/// Adds the arguments with which all scripts of this recipe wake waiters.
fn publishing(call: Call, name: &Name) -> Call {
    call.arg("publish", PUBLISH).arg("channel", name.prefixed_text(CHANNEL)).arg("message", MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waiter_timeout_of_the_scripts_matches_this_file() {
        let first = format!("local GONE_AFTER = {}\n", GONE_AFTER.as_millis());
        assert!(SCRIPTS.iter().all(|script| script.source().contains(&first)));
        assert!(GONE_AFTER > 3 * SEEN_EVERY, "two signs may be lost");
    }
}
