//! The release of one hold by an operator, and the repair of a lock that never ends.
//!
//! Invariant: a call names the hold that it is about, and does nothing to another one. It frees as the holder itself would,
//! with the script of the kind, so it wakes the waiters.

use std::time::Duration;

use super::described::Mode;
use super::kind::Kind;
use crate::call::Call;
use crate::lease::Lease;
use crate::name::Name;
use crate::outcome::Verb;
use crate::owner::{ClientId, WireOwner};
use crate::permit::PermitId;
use crate::recipe::expirable::EXPIRABLE_SEMAPHORE;
use crate::recipe::fair::FAIR;
use crate::recipe::plain::{self, PLAIN};
use crate::recipe::read_write::{READ_LOCK, WRITE_LOCK};
use crate::recipe::reentrant::REENTRANT;
use crate::recipe::semaphore::SEMAPHORE;
use crate::recipe::spin::SPIN;
use crate::recipe::{CallArgs, Recipe, ReleaseAnswer};
use crate::reply::Reply;
use crate::script::Script;
use crate::subject::Subject;

static EXPIRE: Script = Script::new(Verb::Adjust, include_str!("../../scripts/operate/expire.lua"));

static EXPIRE_VALUE: Script =
    Script::new(Verb::Adjust, include_str!("../../scripts/operate/expire_value.lua"));

/// The scripts that repair.
pub static SCRIPTS_OF_REPAIRS: [&Script; 2] = [&EXPIRE, &EXPIRE_VALUE];

/// The release of one hold.
#[derive(Clone, Debug)]
pub struct Release {
    call: Call,
    recipe: &'static Recipe,
}

impl Release {
    /// Creates the release of an owner's hold, or of a permit. The mode is the side of a read-write lock. Returns `None`
    /// for an object that has no holders, and for an owner that cannot hold it.
    #[must_use]
    pub fn new(name: &Name, kind: Kind, mode: Option<Mode>, owner: &str) -> Option<Self> {
        let recipe: &'static Recipe = match (kind, mode) {
            (Kind::Fair, _) => &FAIR,
            (Kind::Spin, _) => &SPIN,
            (Kind::Lock | Kind::Fenced, _) => &REENTRANT,
            (Kind::ReadWrite, Some(Mode::Write)) => &WRITE_LOCK,
            (Kind::ReadWrite, Some(Mode::Read)) => &READ_LOCK,
            (Kind::Semaphore, _) => &SEMAPHORE,
            (Kind::Expirable, _) => &EXPIRABLE_SEMAPHORE,
            _ => return None,
        };
        let subject = Subject::new(name, recipe);
        // Owners of Redisson may have another form than those of this library, so a lock's is set as text below.
        let own = owner.parse().unwrap_or(WireOwner::new(ClientId::from_random([0; 16]), 0));
        if kind == Kind::Semaphore && own.to_string() != owner {
            return None;
        }
        let args = CallArgs::new(&subject, own, Lease::clamped(Duration::ZERO)).count(0);
        let mut call = (recipe.release)(&args);
        match kind {
            Kind::Expirable => _ = call.set_arg("given", owner.parse::<PermitId>().ok()?.as_bytes()),
            _ => _ = call.set_arg("owner", owner),
        }
        Some(Self { call, recipe })
    }

    /// Creates the release of the hold of a plain lock that has this value, whichever library has written it. Waiters of
    /// this library are woken. Those of a library that waits for a signal of its own are not.
    #[must_use]
    pub fn of_value(name: &Name, value: &[u8]) -> Self {
        let subject = Subject::new(name, &PLAIN);
        let nobody = WireOwner::new(ClientId::from_random([0; 16]), 0);
        let args = CallArgs::new(&subject, nobody, Lease::clamped(Duration::ZERO)).count(0);
        let mut call = (PLAIN.release)(&args);
        let [value, marked] = plain::forms(value);
        let _ = (call.set_arg("value", value), call.set_arg("marked", marked));
        Self { call, recipe: &PLAIN }
    }

    /// Returns the call.
    #[must_use]
    pub fn call(&self) -> Call {
        self.call.clone()
    }

    /// Reads the reply: true if the hold was there, and is released.
    #[must_use]
    pub fn read(&self, reply: &Reply) -> Option<bool> {
        (self.recipe.read_release)(reply).map(|ReleaseAnswer { held, .. }| held)
    }
}

/// Gives a lock without an expiry a lease, if it has this field with this count, this number of fields, and still no
/// expiry.
#[must_use]
pub fn expire(name: &Name, (field, count): (&str, u32), fields: u64, lease: Duration) -> Call {
    Call::of(&EXPIRE)
        .key("lock", name)
        .arg("field", field)
        .arg("count", count)
        .arg("fields", fields)
        .arg("lease_ms", lease.as_millis())
}

/// Gives a plain lock without an expiry a lease, if it has this value, marked or not, and still no expiry.
#[must_use]
pub fn expire_value(name: &Name, value: &[u8], lease: Duration) -> Call {
    let [value, marked] = plain::forms(value);
    let call = Call::of(&EXPIRE_VALUE).key("lock", name).bytes("value", value).bytes("marked", marked);
    call.arg("lease_ms", lease.as_millis())
}

/// Reads the reply of [`expire`] and [`expire_value`]: true if the lock has a lease now.
#[must_use]
pub fn read_expired(reply: &Reply) -> Option<bool> {
    match reply {
        Reply::Int(done @ (0 | 1)) => Some(*done == 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "7f2a9c1e-0000-4000-8000-000000000001:57";

    fn release(kind: Kind, mode: Option<Mode>, owner: &str) -> Option<Release> {
        Release::new(&Name::new("job").unwrap(), kind, mode, owner)
    }

    #[test]
    fn the_call_names_the_hold_whatever_its_form() {
        for (kind, mode) in [
            (Kind::Lock, None),
            (Kind::Fair, None),
            (Kind::Fenced, None),
            (Kind::Spin, None),
            (Kind::ReadWrite, Some(Mode::Read)),
            (Kind::ReadWrite, Some(Mode::Write)),
        ] {
            for owner in
                [OWNER.to_owned(), OWNER.replace("57", "-57"), format!("{OWNER}:{}", "0a".repeat(16))]
            {
                let call = release(kind, mode, &owner).unwrap().call();
                assert_eq!((call.argument("owner"), call.argument("remaining")), (Some(&*owner), Some("0")));
            }
        }
        let permit = "0a".repeat(16);
        let call = release(Kind::Expirable, None, &permit).unwrap().call();
        assert!(call.args().any(|arg| arg == [0x0a; 16]));
        let call = release(Kind::Semaphore, None, OWNER).unwrap().call();
        assert!(call.keys().any(|key| key == format!("leasehold_permit:{{job}}:{OWNER}")));
    }

    #[test]
    fn a_value_is_released_with_and_without_its_mark_and_a_foreign_one_as_it_is() {
        let name = Name::new("job").unwrap();
        let own = |flag| format!("lh1-{}-{flag}", "A".repeat(22));
        for (value, expected) in [
            (own(0), [own(0), own(1)]),
            (own(1), [own(0), own(1)]),
            ("f3ab".to_owned(), ["f3ab".to_owned(), "f3ab".to_owned()]),
        ] {
            for call in [
                Release::of_value(&name, value.as_bytes()).call(),
                expire_value(&name, value.as_bytes(), Duration::from_secs(1)),
            ] {
                assert_eq!(
                    (call.argument("value"), call.argument("marked")),
                    (Some(&*expected[0]), Some(&*expected[1]))
                );
            }
        }
        let binary = Release::of_value(&name, &[0xff, 0]).call();
        assert_eq!(binary.args().filter(|arg| *arg == [0xff, 0]).count(), 2);
    }

    #[test]
    fn what_has_no_such_holder_is_not_released() {
        for (kind, owner) in [
            (Kind::Latch, OWNER),
            (Kind::Text, OWNER),
            (Kind::ReadWrite, OWNER),
            (Kind::Expirable, OWNER),
            (Kind::Semaphore, "somebody"),
        ] {
            assert!(release(kind, None, owner).is_none(), "{kind}");
        }
    }
}
