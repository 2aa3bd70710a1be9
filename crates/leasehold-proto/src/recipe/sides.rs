//! The keys, channel and replies that both sides of the read-write lock share (docs/protocol.md#9-read-write-lock).
//!
//! Both sides use one hash, whose `mode` says which side holds it. A hash without a mode belongs to another kind of
//! lock.

use std::time::Duration;

use super::rules::{Answer, PUBLISH};
use crate::call::Call;
use crate::name::Name;
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::reply::Reply;
use crate::script::Script;
use crate::text::{Text, joined, or_empty, text};

static FORCE_RELEASE: Script =
    Script::new(Verb::ForceRelease, include_str!("../../scripts/read_write/force_release.lua"));
static INSPECT: Script = Script::new(Verb::Inspect, include_str!("../../scripts/read_write/inspect.lua"));

/// The scripts that both sides use.
pub(super) static SCRIPTS: [&Script; 2] = [&FORCE_RELEASE, &INSPECT];

/// The interval at which a waiter renews its mark, so that one renewal may be lost before the mark expires.
pub(super) const SEEN_EVERY: Duration = Duration::from_secs(1);
/// The time after which the mark of a waiter that left without removing it expires.
pub const MARK_LASTS: Duration = Duration::from_secs(3);

/// One side of the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    /// The name of the side, which is also the lock's mode while the side holds it.
    pub(super) mode: &'static str,
    /// The message of its releases (docs/protocol.md#15-messages).
    pub(super) message: &'static str,
}

/// The side of the readers.
pub(super) const READ: Side = Side { mode: "read", message: "0" };
/// The side of the writer.
pub(super) const WRITE: Side = Side { mode: "write", message: "1" };

impl Side {
    /// Adds the channel and the message of this side's releases to a call.
    pub(super) fn telling(self, call: Call, name: &Name) -> Call {
        call.arg("publish", PUBLISH).arg("channel", name.prefixed_text(CHANNEL)).arg("message", self.message)
    }

    pub(super) fn force_release(self, name: &Name) -> Call {
        let call = Call::of(&FORCE_RELEASE).key("lock", name).key("readers", name.tagged_text());
        self.telling(call.arg("side", self.mode), name)
    }

    /// Inspects this side and, when given, one owner's field.
    pub(super) fn inspect(self, name: &Name, field: Option<impl Text>) -> Call {
        Call::of(&INSPECT).key("lock", name).arg("side", self.mode).arg("field", or_empty(field))
    }
}

/// The prefix of the names of the channels on which the waiters of both sides listen.
pub(crate) const CHANNEL: &str = "redisson_rwlock";

/// Returns the key of the mark of a waiting writer that goes before yielding readers.
pub(crate) fn writer_mark(name: &Name) -> impl Text {
    name.prefixed_text("leasehold_rw_writer")
}

/// Returns the key of the mark of a reader that waits to upgrade.
pub(crate) fn upgrade_mark(name: &Name) -> impl Text {
    name.prefixed_text("leasehold_rw_upgrade")
}

/// Returns the hash field of a writer.
pub(super) fn writer(owner: WireOwner) -> impl Text {
    text(move |buffer| joined([&owner, &":write"]).write(buffer))
}

/// Reads the reply to an acquire of either side.
pub(in crate::recipe) fn read_acquire(reply: &Reply) -> Option<Answer> {
    match *reply {
        Reply::Nil => Some(Answer::GRANTED),
        Reply::Int(-1) => Some(Answer::NoExpiry),
        Reply::Int(-2) => Some(Answer::Deleted),
        Reply::Int(-3) => Some(Answer::Deadlock),
        Reply::Int(ms) => Some(Answer::Refused { remaining: Duration::from_millis(ms.try_into().ok()?) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_acquire_reply_has_one_meaning() {
        assert_eq!(read_acquire(&Reply::Nil), Some(Answer::GRANTED));
        let refused = Answer::Refused { remaining: Duration::from_millis(1500) };
        assert_eq!(read_acquire(&Reply::Int(1500)), Some(refused));
        assert_eq!(read_acquire(&Reply::Int(-1)), Some(Answer::NoExpiry));
        assert_eq!(read_acquire(&Reply::Int(-2)), Some(Answer::Deleted));
        assert_eq!(read_acquire(&Reply::Int(-3)), Some(Answer::Deadlock));
        assert_eq!(read_acquire(&Reply::Int(-4)), None);
        assert_eq!(read_acquire(&Reply::Text(b"OK".to_vec())), None);
    }
}
