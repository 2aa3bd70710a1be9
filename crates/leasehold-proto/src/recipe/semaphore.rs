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

use super::rules::{Answer, CallArgs, Holding, PUBLISH, Policy, Polling, Recipe, Renewal};
use crate::call::{Call, Reply};
use crate::marker::{self, Operation, once, read_flag};
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::script::Script;

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
static RELEASE_FIFO: Script = script!(Release, "release_fifo.lua");
static TRY_SET: Script = Script::new(Verb::Adjust, include_str!("../../scripts/semaphore/try_set.lua"));
static ADD: Script = script!(Adjust, "add.lua");
static PUT_BACK: Script = script!(Adjust, "put_back.lua");
static DRAIN: Script = script!(Adjust, "drain.lua");
static INSPECT: Script = script!(Inspect, "inspect.lua");

/// All scripts of these recipes.
pub static SCRIPTS: [&Script; 9] =
    [&ACQUIRE, &RELEASE, &ACQUIRE_FIFO, &RELEASE_FIFO, &TRY_SET, &ADD, &PUT_BACK, &DRAIN, &INSPECT];

/// The interval at which a waiter in the queue shows that it is alive. A waiter that has not done so for more than
/// three intervals is passed by.
const SEEN_EVERY: Duration = Duration::from_millis(1500);

/// The semaphore's rules.
pub static SEMAPHORE: Recipe = Recipe {
    kind: "semaphore",
    policy: POLICY,
    channels: |name, _, _| vec![channel(name)],
    companion: None,
    blocked_by: None,
    held_as: None,
    owners: |_| 1,
    acquire: |args| with_marker(&ACQUIRE, args),
    read_acquire,
    renew: |args| inspect(args.name),
    read_renew: |reply| read_count(reply).map(|_| Renewal::Renewed),
    release,
    read_release: read_flag,
};

/// The rules of a semaphore with a queue of waiters on the server. Callers that do not enter the queue pass the waiters
/// by.
pub static FIFO_SEMAPHORE: Recipe = Recipe {
    kind: "fifo semaphore",
    policy: Policy { polling: Polling::Each, queued: true, seen_every: Some(SEEN_EVERY), ..POLICY },
    acquire: acquire_fifo,
    release: release_fifo,
    ..SEMAPHORE
};

const POLICY: Policy = Policy {
    polling: Polling::Head,
    holding: Holding::Unending,
    exclusive: false,
    counted: false,
    queued: false,
    seen_every: None,
};

fn read_acquire(reply: &Reply) -> Option<Answer> {
    // The time of the next returned permit is unknown.
    let refused = Answer::Refused { remaining: Duration::MAX };
    read_flag(reply).map(|taken| if taken { Answer::GRANTED } else { refused })
}

fn release(args: &CallArgs<'_>) -> Call {
    published(with_marker(&RELEASE, args), args.name).arg("granted", u8::from(args.context.granted))
}

fn acquire_fifo(args: &CallArgs<'_>) -> Call {
    let call = published(with_marker(&ACQUIRE_FIFO, args), args.name);
    in_queue(call, args).arg("once", u8::from(args.context.once))
}

fn release_fifo(args: &CallArgs<'_>) -> Call {
    let call = published(with_marker(&RELEASE_FIFO, args), args.name);
    in_queue(call, args).arg("granted", u8::from(args.context.granted))
}

/// Sets the number of permits unless it was set before, with a lifetime or without an expiry.
pub fn try_set(name: &Name, operation: &Operation, permits: u32, lifetime: Option<Duration>) -> Call {
    let lifetime_ms = lifetime.map_or(0, |lifetime| lifetime.as_millis());
    let call =
        Call::of(&TRY_SET).key("counter", name).arg("permits", permits).arg("lifetime_ms", lifetime_ms);
    published(once(call, name, operation), name)
}

/// Changes the number of permits.
#[must_use]
pub fn add(name: &Name, operation: &Operation, permits: i32) -> Call {
    let call = once(counter(&ADD, name), name, operation).arg("permits", permits);
    published(call, name)
}

/// Returns permits by number.
#[must_use]
pub fn return_permits(name: &Name, operation: &Operation, permits: u32) -> Call {
    let call = once(counter(&PUT_BACK, name), name, operation).arg("permits", permits);
    published(call, name)
}

/// Takes all available permits for good.
#[must_use]
pub fn drain(name: &Name, operation: &Operation) -> Call {
    once(counter(&DRAIN, name), name, operation)
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

fn with_marker(script: &'static Script, args: &CallArgs<'_>) -> Call {
    counter(script, args.name)
        .key("marker", marker::acquisition(args.name, args.owner))
        .arg("permits", args.units)
        .arg("uncertain", u8::from(args.context.uncertain))
}

fn in_queue(call: Call, args: &CallArgs<'_>) -> Call {
    call.key("queue", args.name.prefixed("leasehold_sc_queue").as_str())
        .key("seen", args.name.prefixed("leasehold_sc_seen").as_str())
        .arg("owner", args.owner)
}

pub(super) fn published(call: Call, name: &Name) -> Call {
    call.arg("publish", PUBLISH).arg("channel", channel(name))
}

/// Returns the key with the permit ids of an expirable semaphore of this name.
pub(super) fn ids(name: &Name) -> String {
    format!("{}:timeout", name.tagged())
}

pub(super) fn channel(name: &Name) -> Channel {
    name.prefixed("redisson_sc")
}
