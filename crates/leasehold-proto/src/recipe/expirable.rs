//! The expirable semaphore: Redisson's `RPermitExpirableSemaphore` on the wire
//! (docs/protocol.md#13-expirable-semaphore).
//!
//! Each acquired permit has a unique id, so a call that runs twice finds the ids of the first run. All ids of an
//! acquisition are acquired, renewed and released together.

use std::time::Duration;

use super::rules::{self, Answer, CallArgs, Holding, Recipe, Remaining, Renewal, Waiters};
use super::semaphore::{self, CHANNEL, ids, published};
use crate::call::Call;
use crate::lease::Lease;
use crate::marker::Operation;
use crate::name::Name;
use crate::outcome::Verb;
use crate::permit::PermitId;
use crate::reply::Reply;
use crate::script::Script;

/// A script of the folder, behind the helpers that all of its scripts use.
macro_rules! script {
    ($verb:ident, $file:literal) => {
        Script::new(
            Verb::$verb,
            concat!(
                include_str!("../../scripts/expirable/ids.lua"),
                include_str!("../../scripts/expirable/returns.lua"),
                include_str!(concat!("../../scripts/expirable/", $file))
            ),
        )
    };
}

static ACQUIRE: Script = script!(Acquire, "acquire.lua");
static RENEW: Script = script!(Renew, "renew.lua");
static RELEASE: Script = script!(Release, "release.lua");
static SET: Script = script!(Adjust, "set.lua");
static ADD: Script = script!(Adjust, "add.lua");
static RELEASE_IDS: Script = script!(Adjust, "release_ids.lua");
static UPDATE_LEASE: Script = script!(Adjust, "update_lease.lua");
static INSPECT: Script = script!(Inspect, "inspect.lua");
static LEASE_OF: Script = script!(Inspect, "lease_of.lua");

/// All scripts of this recipe.
pub static SCRIPTS: [&Script; 9] =
    [&ACQUIRE, &RENEW, &RELEASE, &SET, &ADD, &RELEASE_IDS, &UPDATE_LEASE, &INSPECT, &LEASE_OF];

/// The most permits that one acquire takes, or one release returns. A script handles them one by one, and the server
/// serves no other client meanwhile.
pub const PERMITS_MAX: u32 = 4096;

/// The expirable semaphore's rules.
pub static EXPIRABLE_SEMAPHORE: Recipe = Recipe {
    kind: "expirable semaphore",
    holding: Holding::ExpirablePermits,
    waiters: Waiters::Local,
    channels: |name, _, _| vec![name.prefixed(CHANNEL)],
    companion: None,
    blocked_by: None,
    held_as: None,
    owners,
    acquire: |args| leased(&ACQUIRE, args),
    read_acquire,
    renew: |args| leased(&RENEW, args),
    read_renew,
    hand_off: None,
    expire: None,
    release: |args| published(of_all(&RELEASE, args), args.name),
    read_release: semaphore::read_release,
    keep_alive: None,
    read_keep_alive: rules::read_keep_alive,
};

fn owners(units: u32) -> u64 {
    u64::from(units.max(1))
}

fn read_acquire(reply: &Reply) -> Option<Answer> {
    match *reply {
        Reply::Nil => Some(Answer::GRANTED),
        Reply::Int(-1) => Some(Answer::Refused { remaining: Duration::MAX }),
        Reply::Int(ms) => Some(Answer::Refused { remaining: Duration::from_millis(ms.try_into().ok()?) }),
        _ => None,
    }
}

fn read_renew(reply: &Reply) -> Option<Renewal> {
    match reply {
        Reply::Int(1) => Some(Renewal::Renewed),
        Reply::Int(0) => Some(Renewal::Gone),
        _ => None,
    }
}

/// The numbers of permits, as the server reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// The available permits, below zero when the total is less than the acquired permits.
    pub available: i64,
    /// The acquired permits that have not ended.
    pub acquired: u64,
    /// True if the number of permits was ever set.
    pub is_set: bool,
}

/// Sets the total number of permits, acquired permits included.
#[must_use]
pub fn set(name: &Name, operation: &Operation, permits: u32) -> Call {
    let call = counter(&SET, name).key("done", operation.marker(name)).arg("permits", permits);
    published(call.arg("done_ms", operation.kept_ms()), name)
}

/// Changes the total number of permits.
#[must_use]
pub fn add(name: &Name, operation: &Operation, permits: i32) -> Call {
    let call = counter(&ADD, name).key("done", operation.marker(name)).arg("permits", permits);
    published(call.arg("done_ms", operation.kept_ms()), name)
}

/// Releases the permits of these ids, all or none.
#[must_use]
pub fn release_ids(name: &Name, operation: &Operation, given: &[PermitId]) -> Call {
    let call = counter(&RELEASE_IDS, name).key("done", operation.marker(name));
    let call = call.parts("given", given.iter().map(PermitId::as_bytes));
    published(call.arg("done_ms", operation.kept_ms()), name)
}

/// Sets the lease of a permit.
#[must_use]
pub fn update_lease(name: &Name, operation: &Operation, id: PermitId, lease: Lease) -> Call {
    let call = counter(&UPDATE_LEASE, name).key("done", operation.marker(name));
    let call = call.bytes("given", id.as_bytes()).arg("lease_ms", lease.as_millis());
    published(call.arg("done_ms", operation.kept_ms()), name)
}

/// Counts the permits.
#[must_use]
pub fn inspect(name: &Name) -> Call {
    counter(&INSPECT, name)
}

/// Reads the reply of [`inspect`].
#[must_use]
pub fn read_inspect(reply: &Reply) -> Option<Census> {
    let Reply::Array(items) = reply else { return None };
    let [Reply::Int(available), Reply::Int(acquired), Reply::Int(is_set @ (0 | 1))] = items.as_slice() else {
        return None;
    };
    Some(Census { available: *available, acquired: (*acquired).try_into().ok()?, is_set: *is_set == 1 })
}

/// Reads a permit's lease.
#[must_use]
pub fn lease_of(name: &Name, id: PermitId) -> Call {
    counter(&LEASE_OF, name).bytes("given", id.as_bytes())
}

/// Reads the reply of [`lease_of`]. Returns `Some(None)` when the permit is not acquired.
#[must_use]
pub fn read_lease_of(reply: &Reply) -> Option<Option<Remaining>> {
    match *reply {
        Reply::Nil => Some(None),
        Reply::Int(-1) => Some(Some(Remaining::NoExpiry)),
        Reply::Int(ms) => Some(Some(Remaining::For(Duration::from_millis(ms.try_into().ok()?)))),
        _ => None,
    }
}

fn counter(script: &'static Script, name: &Name) -> Call {
    Call::of(script).key("counter", name).key("ids", ids(name))
}

/// Begins a call about all ids of an acquisition.
fn of_all(script: &'static Script, args: &CallArgs<'_>) -> Call {
    counter(script, args.name).parts("given", PermitId::of(args.owner, args.units).map(|id| *id.as_bytes()))
}

/// Creates a call that sets the lease of all ids of an acquisition.
fn leased(script: &'static Script, args: &CallArgs<'_>) -> Call {
    published(of_all(script, args).arg("lease_ms", args.lease.as_millis()), args.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_acquire_reply_has_one_meaning() {
        let read = |reply| read_acquire(&reply);
        assert_eq!(read(Reply::Nil), Some(Answer::GRANTED));
        assert_eq!(read(Reply::Int(-1)), Some(Answer::Refused { remaining: Duration::MAX }));
        assert_eq!(read(Reply::Int(9)), Some(Answer::Refused { remaining: Duration::from_millis(9) }));
        assert_eq!(read(Reply::Int(-2)), None);
    }

    #[test]
    fn an_acquire_of_zero_permits_still_uses_one_owner() {
        assert_eq!([0, 1, 7].map(owners), [1, 1, 7]);
    }
}
