//! The count-down latch: Redisson's `RCountDownLatch` on the wire (docs/protocol.md#14-count-down-latch).
//!
//! Waiting changes nothing. A count-down is applied once, since its marker has the answer. A note tells how the last
//! rounds have ended, so a waiter learns of the end of its round after the count is set again.

use std::time::Duration;

use super::event::EventState;
use super::rules::{self, Answer, CallArgs, Holding, PUBLISH, Recipe, ReleaseAnswer, Renewal, Waiters};
use crate::call::Call;
use crate::marker::Operation;
use crate::name::Name;
use crate::outcome::Verb;
use crate::reply::Reply;
use crate::script::Script;
use crate::text::Text;

/// A script of the folder, behind the helpers for the note.
macro_rules! script {
    ($verb:ident, $file:literal) => {
        Script::new(
            Verb::$verb,
            concat!(
                include_str!("../../scripts/latch/ended.lua"),
                include_str!(concat!("../../scripts/latch/", $file))
            ),
        )
    };
}

static WAIT: Script = script!(Inspect, "wait.lua");
static COUNT_DOWN: Script = script!(Adjust, "count_down.lua");
static TRY_SET: Script = Script::new(Verb::Adjust, include_str!("../../scripts/latch/try_set.lua"));
static DELETE: Script = script!(Adjust, "delete.lua");
static INSPECT: Script = Script::new(Verb::Inspect, include_str!("../../scripts/latch/inspect.lua"));

/// All scripts of this recipe.
pub static SCRIPTS: [&Script; 5] = [&WAIT, &COUNT_DOWN, &TRY_SET, &DELETE, &INSPECT];

/// The prefix of the key of the note.
pub(super) const NOTE: &str = "leasehold_latch_ended";
/// The time for which waiters can learn of the end of a round. They poll at least every polling interval.
const NOTED: Duration = Duration::from_secs(60);
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
    expire: None,
    release: |args| inspect(args.name),
    read_release: |reply| read_count(reply).map(|_| ReleaseAnswer::unheard(true)),
    keep_alive: None,
    read_keep_alive: rules::read_keep_alive,
};

fn wait(args: &CallArgs<'_>) -> Call {
    Call::of(&WAIT).key("latch", args.name).key("note", note(args.name))
}

fn read_wait(reply: &Reply) -> Option<Answer> {
    let Reply::Array(items) = reply else { return None };
    let [count, Reply::Int(opened), Reply::Int(deleted)] = items.as_slice() else { return None };
    let (opened, deleted) = ((*opened).try_into().ok()?, (*deleted).try_into().ok()?);
    Some(Answer::Event(EventState { is_now: read_count(count)? == 0, happened: opened, deleted }))
}

/// Counts down by one.
#[must_use]
pub fn count_down(name: &Name, operation: &Operation) -> Call {
    published(ended(Call::of(&COUNT_DOWN), name, operation), name, OPEN)
}

/// Sets the count of a latch that has no count.
#[must_use]
pub fn try_set(name: &Name, operation: &Operation, count: u32) -> Call {
    let call = Call::of(&TRY_SET)
        .key("latch", name)
        .key("done", operation.marker(name))
        .arg("count", count)
        .arg("done_ms", operation.kept_ms());
    published(call, name, CLOSED)
}

/// Deletes the latch.
#[must_use]
pub fn delete(name: &Name, operation: &Operation) -> Call {
    published(ended(Call::of(&DELETE), name, operation), name, CLOSED)
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

/// Adds what a call needs that can end a round.
fn ended(call: Call, name: &Name, operation: &Operation) -> Call {
    call.key("latch", name)
        .key("note", note(name))
        .key("done", operation.marker(name))
        .arg("note_ms", NOTED.as_millis())
        .arg("done_ms", operation.kept_ms())
}

fn published(call: Call, name: &Name, message: &str) -> Call {
    call.arg("publish", PUBLISH).arg("channel", name.latch_channel_text()).arg("message", message)
}

pub(crate) fn note(name: &Name) -> impl Text {
    name.prefixed_text(NOTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_latch_needs_a_count_and_two_numbers() {
        let read = |items: &[i64]| read_wait(&Reply::Array(items.iter().copied().map(Reply::Int).collect()));
        let state = |is_now, happened, deleted| Some(Answer::Event(EventState { is_now, happened, deleted }));
        assert_eq!(read(&[2, 7, 0]), state(false, 7, 0));
        for count in [0, -3] {
            assert_eq!(read(&[count, 0, 9]), state(true, 0, 9));
        }
        for wrong in [&[2][..], &[2, 1], &[2, -1, 0], &[2, 0, -1], &[2, 0, 0, 0]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(read_wait(&Reply::Int(2)), None);
    }
}
