//! The count-down latch: Redisson's `RCountDownLatch` on the wire (docs/protocol.md#14-count-down-latch).
//!
//! Waiting changes nothing. A count-down is applied once, since its marker has the answer.

use std::time::Duration;

use super::rules::{self, Answer, CallArgs, Holding, PUBLISH, Recipe, ReleaseAnswer, Renewal, Waiters};
use crate::call::{Call, Reply};
use crate::marker::Operation;
use crate::name::Name;
use crate::outcome::Verb;
use crate::script::Script;
use crate::text::Text;

static WAIT: Script = Script::new(Verb::Inspect, include_str!("../../scripts/latch/wait.lua"));
static COUNT_DOWN: Script = Script::new(Verb::Adjust, include_str!("../../scripts/latch/count_down.lua"));
static TRY_SET: Script = Script::new(Verb::Adjust, include_str!("../../scripts/latch/try_set.lua"));
static DELETE: Script = Script::new(Verb::Adjust, include_str!("../../scripts/latch/delete.lua"));
static INSPECT: Script = Script::new(Verb::Inspect, include_str!("../../scripts/latch/inspect.lua"));

/// All scripts of this recipe.
pub static SCRIPTS: [&Script; 5] = [&WAIT, &COUNT_DOWN, &TRY_SET, &DELETE, &INSPECT];

/// The time for which waiters can learn of a deletion. They poll at least every polling interval.
const DELETED_TOLD: Duration = Duration::from_secs(60);
/// The messages of an open and of a closed latch (docs/protocol.md#15-messages).
const OPEN: &str = "0";
const CLOSED: &str = "1";

/// The latch's rules, by which a grant says that the latch is open. A latch has no hold to renew or release, so these
/// calls only read.
pub static LATCH: Recipe = Recipe {
    kind: "count-down latch",
    holding: Holding::Event,
    waiters: Waiters::Local,
    channels: |name, _, _| vec![name.latch_channel()],
    companion: None,
    blocked_by: None,
    held_as: None,
    owners: |_| 1,
    acquire: wait,
    read_acquire: read_wait,
    renew: |args| inspect(args.name),
    read_renew: |reply| read_count(reply).map(|_| Renewal::Renewed),
    hand_off: None,
    release: |args| inspect(args.name),
    read_release: |reply| read_count(reply).map(|_| ReleaseAnswer::unheard(true)),
    keep_alive: None,
    read_keep_alive: rules::read_keep_alive,
};

fn wait(args: &CallArgs<'_>) -> Call {
    Call::of(&WAIT)
        .key("latch", args.name)
        .key("deleted", deleted(args.name))
        .arg("refused", u8::from(args.context.refused))
}

fn read_wait(reply: &Reply) -> Option<Answer> {
    match reply {
        Reply::Int(-1) => Some(Answer::Deleted),
        Reply::Int(0) => Some(Answer::GRANTED),
        Reply::Int(1..) => Some(Answer::Refused { remaining: Duration::MAX }),
        _ => None,
    }
}

/// Counts down by one.
#[must_use]
pub fn count_down(name: &Name, operation: &Operation) -> Call {
    let call = Call::of(&COUNT_DOWN).key("latch", name).key("done", operation.marker(name));
    published(call.arg("done_ms", operation.kept_ms()), name, OPEN)
}

/// Sets the count of a latch that has no count.
#[must_use]
pub fn try_set(name: &Name, operation: &Operation, count: u32) -> Call {
    let call = Call::of(&TRY_SET)
        .key("latch", name)
        .key("deleted", deleted(name))
        .key("done", operation.marker(name))
        .arg("count", count)
        .arg("done_ms", operation.kept_ms());
    published(call, name, CLOSED)
}

/// Deletes the latch.
#[must_use]
pub fn delete(name: &Name, operation: &Operation) -> Call {
    let call = Call::of(&DELETE)
        .key("latch", name)
        .key("deleted", deleted(name))
        .key("done", operation.marker(name))
        .arg("deleted_ms", DELETED_TOLD.as_millis())
        .arg("done_ms", operation.kept_ms());
    published(call, name, CLOSED)
}

/// Reads the count.
#[must_use]
pub fn inspect(name: &Name) -> Call {
    Call::of(&INSPECT).key("latch", name)
}

/// Reads a count from a reply. A count that was set below zero by hand is zero.
#[must_use]
pub fn read_count(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Int(count) => Some((*count).try_into().unwrap_or(0)),
        _ => None,
    }
}

fn published(call: Call, name: &Name, message: &str) -> Call {
    call.arg("publish", PUBLISH).arg("channel", name.latch_channel_text()).arg("message", message)
}

fn deleted(name: &Name) -> impl Text {
    name.prefixed_text("leasehold_latch_deleted")
}
