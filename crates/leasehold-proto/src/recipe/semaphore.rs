//! The semaphore: Redisson's `RSemaphore` on the wire (docs/protocol.md#12-semaphore), and a semaphore with a queue of
//! waiters.
//!
//! An acquisition takes and returns its permits once, however late its calls arrive, because its marker records what it
//! has taken. There is one exception. A first release that is repeated after it was carried out would return the
//! permits twice. The client's connections never repeat a call that was carried out. An operation is applied once,
//! because its marker has the answer.
//!
//! # How it works
//! A counter cannot be set absolutely, so a call that runs twice would count twice. The marker of an acquisition lives
//! while its permits are taken, an hour at most, and the release deletes it. A missing marker means that the permits
//! are returned, except at the first attempt of a release, when the marker can only have expired. Where an earlier call
//! may still arrive, the marker stays as a zero for an hour. That call then finds the marker, and does nothing.

use std::time::Duration;

use super::rules::{
    self, Answer, CallArgs, CallContext, Holding, KeepAliveArgs, PUBLISH, Recipe, ReleaseAnswer, Renewal,
    Waiters,
};
use crate::call::Call;
use crate::marker::{self, Operation, read_flag};
use crate::name::Name;
use crate::outcome::Verb;
use crate::reply::Reply;
use crate::script::Script;
use crate::text::{Text, joined, text};

/// A script of the folder, behind the helpers that all of its scripts use.
macro_rules! script {
    ($verb:ident, $file:literal) => {
        Script::new(
            Verb::$verb,
            concat!(
                include_str!("../../scripts/semaphore/marker.lua"),
                include_str!(concat!("../../scripts/semaphore/", $file))
            ),
        )
    };
}

static ACQUIRE: Script = script!(Acquire, "acquire.lua");
static RELEASE: Script = script!(Release, "release.lua");
static ACQUIRE_FIFO: Script = Script::new(
    Verb::Acquire,
    concat!(
        include_str!("../../scripts/semaphore/marker.lua"),
        include_str!("../../scripts/semaphore/queue.lua"),
        include_str!("../../scripts/semaphore/acquire_fifo.lua")
    ),
);
static KEEP_ALIVE: Script = Script::new(
    Verb::KeepAlive,
    concat!(
        include_str!("../../scripts/semaphore/marker.lua"),
        include_str!("../../scripts/semaphore/queue.lua"),
        include_str!("../../scripts/keep_alive/window.lua"),
        include_str!("../../scripts/keep_alive/fifo.lua")
    ),
);
static RELEASE_FIFO: Script = script!(Release, "release_fifo.lua");
static TRY_SET: Script = Script::new(Verb::Adjust, include_str!("../../scripts/semaphore/try_set.lua"));
static ADD: Script = script!(Adjust, "add.lua");
static PUT_BACK: Script = script!(Adjust, "put_back.lua");
static DRAIN: Script = script!(Adjust, "drain.lua");
static INSPECT: Script = script!(Inspect, "inspect.lua");

/// All scripts of these recipes.
pub static SCRIPTS: [&Script; 10] = [
    &ACQUIRE,
    &RELEASE,
    &ACQUIRE_FIFO,
    &KEEP_ALIVE,
    &RELEASE_FIFO,
    &TRY_SET,
    &ADD,
    &PUT_BACK,
    &DRAIN,
    &INSPECT,
];

/// The prefix of the names of the channels of semaphores.
pub(crate) const CHANNEL: &str = "redisson_sc";
/// The interval at which a waiter in the queue shows that it is alive. A waiter that has not done so for more than
/// three intervals is passed by.
const SEEN_EVERY: Duration = Duration::from_millis(1500);

/// The semaphore's rules.
pub static SEMAPHORE: Recipe = Recipe {
    kind: "semaphore",
    holding: Holding::Permits,
    waiters: Waiters::Local,
    channels: |name, _, _| vec![name.prefixed(CHANNEL)],
    companion: None,
    blocked_by: None,
    held_as: None,
    owners: |_| 1,
    acquire,
    read_acquire,
    renew: |args| inspect(args.name),
    read_renew: |reply| read_count(reply).map(|_| Renewal::Renewed),
    hand_off: None,
    expire: None,
    release,
    read_release,
    keep_alive: None,
    read_keep_alive: rules::read_keep_alive,
};

/// The rules of a semaphore with a queue of waiters on the server. Callers that do not enter the queue pass the waiters
/// by.
pub static FIFO_SEMAPHORE: Recipe = Recipe {
    kind: "fifo semaphore",
    waiters: Waiters::Queued { seen_every: SEEN_EVERY },
    acquire: acquire_fifo,
    release: release_fifo,
    keep_alive: Some(keep_alive),
    ..SEMAPHORE
};

fn read_acquire(reply: &Reply) -> Option<Answer> {
    // The time of the next returned permit is unknown.
    let refused = Answer::Refused { remaining: Duration::MAX };
    read_flag(reply).map(|taken| if taken { Answer::GRANTED } else { refused })
}

fn acquire(args: &CallArgs<'_>) -> Call {
    taking(with_marker(&ACQUIRE, args), args)
}

fn release(args: &CallArgs<'_>) -> Call {
    published(returning(with_marker(&RELEASE, args), args), args.name)
}

/// Reads a release's reply: 1 plus the listeners, or 0 when there was nothing to return.
pub(super) fn read_release(reply: &Reply) -> Option<ReleaseAnswer> {
    match *reply {
        Reply::Int(0) => Some(ReleaseAnswer::unheard(false)),
        Reply::Int(more) => {
            Some(ReleaseAnswer { listeners: (more - 1).try_into().ok()?, ..ReleaseAnswer::unheard(true) })
        }
        _ => None,
    }
}

fn acquire_fifo(args: &CallArgs<'_>) -> Call {
    let call = taking(in_queue(with_marker(&ACQUIRE_FIFO, args), args.name), args);
    published(call.arg("owner", args.owner).arg("once", u8::from(args.context.once)), args.name)
}

fn release_fifo(args: &CallArgs<'_>) -> Call {
    let call = returning(in_queue(with_marker(&RELEASE_FIFO, args), args.name), args);
    published(call.arg("owner", args.owner), args.name)
}

fn keep_alive(args: &KeepAliveArgs<'_>) -> Call {
    let call = in_queue(counter(&KEEP_ALIVE, args.name), args.name);
    published(call.arg("client", joined([&args.client, &":"])).arg("from", args.from), args.name)
}

/// Sets the number of permits unless it was set before, with a lifetime or without an expiry.
pub fn try_set(name: &Name, operation: &Operation, permits: u32, lifetime: Option<Duration>) -> Call {
    let lifetime_ms = lifetime.map_or(0, |lifetime| lifetime.as_millis());
    let call = Call::of(&TRY_SET)
        .key("counter", name)
        .key("done", operation.marker(name))
        .arg("permits", permits)
        .arg("lifetime_ms", lifetime_ms)
        .arg("done_ms", operation.kept_ms());
    published(call, name)
}

/// Changes the number of permits.
#[must_use]
pub fn add(name: &Name, operation: &Operation, permits: i32) -> Call {
    let call = counter(&ADD, name).key("done", operation.marker(name)).arg("permits", permits);
    published(call.arg("done_ms", operation.kept_ms()), name)
}

/// Returns permits by number.
#[must_use]
pub fn return_permits(name: &Name, operation: &Operation, permits: u32) -> Call {
    let call = counter(&PUT_BACK, name).key("done", operation.marker(name)).arg("permits", permits);
    published(call.arg("done_ms", operation.kept_ms()), name)
}

/// Takes all available permits for good.
#[must_use]
pub fn drain(name: &Name, operation: &Operation) -> Call {
    counter(&DRAIN, name).key("done", operation.marker(name)).arg("done_ms", operation.kept_ms())
}

/// Reads the number of available permits.
#[must_use]
pub fn inspect(name: &Name) -> Call {
    counter(&INSPECT, name)
}

/// Reads a number of permits from a reply.
#[must_use]
pub fn read_count(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Int(count) => Some(*count),
        _ => None,
    }
}

fn counter(script: &'static Script, name: &Name) -> Call {
    Call::of(script).key("counter", name).key("timeout", ids(name))
}

/// Begins a call with the keys of an acquisition.
fn with_marker(script: &'static Script, args: &CallArgs<'_>) -> Call {
    let marker = marker::acquisition(args.name, args.owner);
    Call::of(script).key("counter", args.name).key("marker", marker).key("timeout", ids(args.name))
}

/// Adds the keys of the queue of waiters.
fn in_queue(call: Call, name: &Name) -> Call {
    let [queue, seen] = queue_keys(name);
    call.key("queue", queue).key("seen", seen)
}

/// Returns the keys of the queue: the waiters, and their last calls.
pub(crate) fn queue_keys(name: &Name) -> [impl Text; 2] {
    ["leasehold_sc_queue", "leasehold_sc_seen"].map(|prefix| name.prefixed_text(prefix))
}

/// Adds the arguments with which permits are taken.
fn taking(call: Call, args: &CallArgs<'_>) -> Call {
    call.arg("permits", args.units).arg("uncertain", u8::from(args.context.uncertain))
}

/// Adds the arguments with which permits are returned.
fn returning(call: Call, args: &CallArgs<'_>) -> Call {
    let CallContext { expired, uncertain, .. } = args.context;
    call.arg("permits", args.units).arg("expired", u8::from(expired)).arg("uncertain", u8::from(uncertain))
}

/// Adds the arguments with which a script wakes waiters.
pub(super) fn published(call: Call, name: &Name) -> Call {
    call.arg("publish", PUBLISH).arg("channel", name.prefixed_text(CHANNEL))
}

/// Returns the key with the permit ids of an expirable semaphore of this name.
pub(crate) fn ids(name: &Name) -> impl Text {
    text(move |buffer| joined([&name.tagged_text(), &":timeout"]).write(buffer))
}
