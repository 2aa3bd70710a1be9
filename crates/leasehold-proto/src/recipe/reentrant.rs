//! The reentrant lock: Redisson's `RLock` on the wire (docs/protocol.md#5-reentrant-lock).
//!
//! A count is set, never incremented, so a script that runs twice has the effect of one run.

use std::time::Duration;

use super::rules::{
    self, Answer, CallArgs, Holding, LockCalls, NUMSUB, PUBLISH, Recipe, ReleaseAnswer, Renewal, Waiters,
};
use crate::call::Call;
use crate::name::Name;
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::reply::Reply;
use crate::script::Script;
use crate::text::{Text, or_empty};

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/reentrant/acquire.lua"));
static RENEW: Script = Script::new(Verb::Renew, include_str!("../../scripts/reentrant/renew.lua"));
static HAND_OFF: Script = Script::new(Verb::HandOff, include_str!("../../scripts/reentrant/hand_off.lua"));
static RELEASE: Script = Script::new(Verb::Release, include_str!("../../scripts/reentrant/release.lua"));
static FORCE_RELEASE: Script =
    Script::new(Verb::ForceRelease, include_str!("../../scripts/reentrant/force_release.lua"));
static INSPECT: Script = Script::new(Verb::Inspect, include_str!("../../scripts/reentrant/inspect.lua"));

pub(super) static HOLDERS: Script =
    Script::new(Verb::Inspect, include_str!("../../scripts/reentrant/holders.lua"));

/// All scripts of this recipe.
pub static SCRIPTS: [&Script; 7] =
    [&ACQUIRE, &RENEW, &HAND_OFF, &RELEASE, &FORCE_RELEASE, &INSPECT, &HOLDERS];

/// The prefix of the names of the lock's channels.
pub(crate) const CHANNEL: &str = "redisson_lock__channel";
/// The message of a release (docs/protocol.md#15-messages).
pub(super) const MESSAGE: &str = "0";

/// The reentrant lock's rules.
pub static REENTRANT: Recipe = Recipe {
    kind: "lock",
    holding: Holding::Exclusive,
    waiters: Waiters::Local,
    channels: |name, _, _| vec![name.prefixed(CHANNEL)],
    companion: None,
    blocked_by: None,
    held_as: None,
    owners: |_| 1,
    acquire,
    read_acquire,
    renew: |args| renew(args, args.owner),
    read_renew,
    hand_off: Some(hand_off),
    expire: None,
    release,
    read_release,
    keep_alive: None,
    read_keep_alive: rules::read_keep_alive,
};

/// The calls that inspect and free a lock with the hash of the reentrant lock.
pub static LOCK_CALLS: LockCalls = LockCalls { force_release, inspect };

fn acquire(args: &CallArgs<'_>) -> Call {
    Call::of(&ACQUIRE).key("lock", args.name).arg("lease_ms", args.lease.as_millis()).arg("owner", args.owner)
}

pub(in crate::recipe) fn read_acquire(reply: &Reply) -> Option<Answer> {
    match *reply {
        Reply::Nil => Some(Answer::GRANTED),
        Reply::Int(-1) => Some(Answer::NoExpiry),
        Reply::Int(ms) => Some(Answer::Refused { remaining: Duration::from_millis(ms.try_into().ok()?) }),
        _ => None,
    }
}

/// Creates the renewal of the hold in one field of the lock's hash.
pub(super) fn renew(args: &CallArgs<'_>, field: impl Text) -> Call {
    Call::of(&RENEW)
        .key("lock", args.name)
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", field)
        .arg("count", args.count)
}

fn read_renew(reply: &Reply) -> Option<Renewal> {
    match reply {
        Reply::Int(1) => Some(Renewal::Renewed),
        Reply::Int(0) => Some(Renewal::Gone),
        Reply::Int(-1) => Some(Renewal::TakenOver),
        _ => None,
    }
}

fn hand_off(args: &CallArgs<'_>) -> Call {
    Call::of(&HAND_OFF)
        .key("lock", args.name)
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("numsub", NUMSUB)
        .arg("channel", args.name.prefixed_text(CHANNEL))
}

fn release(args: &CallArgs<'_>) -> Call {
    Call::of(&RELEASE)
        .key("lock", args.name)
        .arg("owner", args.owner)
        .arg("remaining", args.count)
        .arg("publish", PUBLISH)
        .arg("channel", args.name.prefixed_text(CHANNEL))
        .arg("message", MESSAGE)
}

fn read_release(reply: &Reply) -> Option<ReleaseAnswer> {
    match *reply {
        Reply::Nil => Some(ReleaseAnswer::unheard(false)),
        Reply::Int(0) => Some(ReleaseAnswer::unheard(true)),
        Reply::Int(more) => {
            Some(ReleaseAnswer { listeners: (more - 1).try_into().ok()?, ..ReleaseAnswer::unheard(true) })
        }
        _ => None,
    }
}

fn force_release(name: &Name) -> Call {
    Call::of(&FORCE_RELEASE)
        .key("lock", name)
        .arg("publish", PUBLISH)
        .arg("channel", name.prefixed_text(CHANNEL))
        .arg("message", MESSAGE)
}

pub(super) fn inspect(name: &Name, owner: Option<WireOwner>) -> Call {
    Call::of(&INSPECT).key("lock", name).arg("owner", or_empty(owner))
}

/// Creates the call that reads who holds a lock of any kind.
#[must_use]
pub fn holders(name: &Name) -> Call {
    Call::of(&HOLDERS).key("lock", name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{Inspection, Remaining};

    #[test]
    fn a_release_reports_its_listeners() {
        assert_eq!(read_release(&Reply::Nil), Some(ReleaseAnswer::unheard(false)));
        assert_eq!(read_release(&Reply::Int(0)), Some(ReleaseAnswer::unheard(true)));
        assert_eq!(read_release(&Reply::Int(1)), Some(ReleaseAnswer::unheard(true)));
        assert_eq!(
            read_release(&Reply::Int(3)),
            Some(ReleaseAnswer { listeners: 2, ..ReleaseAnswer::unheard(true) })
        );
        assert_eq!(read_release(&Reply::Int(-1)), None);
        assert_eq!(read_release(&Reply::Text(b"OK".to_vec())), None);
    }

    #[test]
    fn an_answer_to_a_hand_off_has_the_listeners_or_does_not_know_them() {
        use crate::recipe::rules::{HandOffAnswer, read_hand_off};
        let renewed = |listeners| Some(HandOffAnswer::Renewed { listeners });
        assert_eq!(read_hand_off(&Reply::Int(-1)), Some(HandOffAnswer::TakenOver));
        assert_eq!(read_hand_off(&Reply::Int(0)), Some(HandOffAnswer::Gone));
        assert_eq!(read_hand_off(&Reply::Int(1)), renewed(None));
        assert_eq!(read_hand_off(&Reply::Int(2)), renewed(Some(0)));
        assert_eq!(read_hand_off(&Reply::Int(5)), renewed(Some(3)));
        assert_eq!(read_hand_off(&Reply::Int(-2)), None);
        assert_eq!(read_hand_off(&Reply::Nil), None);
    }

    #[test]
    fn every_acquire_reply_has_one_meaning() {
        let read = |reply| read_acquire(&reply);
        assert_eq!(read(Reply::Nil), Some(Answer::GRANTED));
        assert_eq!(read(Reply::Int(1500)), Some(Answer::Refused { remaining: Duration::from_millis(1500) }));
        assert_eq!(read(Reply::Int(-1)), Some(Answer::NoExpiry));
        assert_eq!(read(Reply::Int(-2)), None);
        assert_eq!(read(Reply::Text(b"OK".to_vec())), None);
    }

    #[test]
    fn an_inspection_distinguishes_free_from_no_expiry() {
        let read =
            |pttl, count| LockCalls::read_inspect(&Reply::Array(vec![Reply::Int(pttl), Reply::Int(count)]));
        assert_eq!(read(-2, 0), Some(Inspection { remaining: None, hold_count: 0 }));
        assert_eq!(read(-1, 1), Some(Inspection { remaining: Some(Remaining::NoExpiry), hold_count: 1 }));
        assert_eq!(read(5, -1), None);
    }
}
