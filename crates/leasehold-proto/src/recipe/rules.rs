//! The form of a recipe, and the values that recipes share with the engine.
//!
//! Invariant: nothing here names a single recipe.

use std::fmt;
use std::time::Duration;

use crate::call::{Call, Reply};
use crate::lease::Lease;
use crate::name::{Channel, Name};
use crate::owner::WireOwner;

/// The arguments from which a recipe builds a call.
#[derive(Clone, Copy, Debug)]
pub struct CallArgs<'a> {
    /// The name that the call is about.
    pub name: &'a Name,
    /// The further names that the call is about, all or nothing.
    pub others: &'a [Name],
    /// The wire owner of the call.
    pub owner: WireOwner,
    /// The lease to set.
    pub lease: Lease,
    /// The hold count to set on the server. Each call says what 0 means.
    pub count: u32,
    /// The number of units: permits of a semaphore, 1 for every other primitive.
    pub units: u32,
    /// The context of the caller.
    pub context: CallContext,
    /// The uptime below which a server counts as recently restarted and its answer does not count.
    pub uptime: Duration,
    /// The wire owner of the same owner's [`companion`](Recipe::companion) hold, if there is such a hold.
    pub companion: Option<WireOwner>,
}

/// The context of a call: what the client knows about the owner's earlier calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallContext {
    /// True if the caller does not wait, so the server must not queue it.
    pub once: bool,
    /// True if an earlier attempt was refused.
    pub refused: bool,
    /// True if the grant is certain.
    pub granted: bool,
    /// True if an earlier call of the same owner has no answer and may still arrive.
    pub uncertain: bool,
}

impl CallArgs<'_> {
    /// Returns the same arguments with another count.
    #[must_use]
    pub const fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// Returns the same arguments with another number of units.
    #[must_use]
    pub const fn units(self, units: u32) -> Self {
        Self { units, ..self }
    }
}

/// The part of a client's waiters for one subject that make attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// The head only, so that a release wakes one waiter per process.
    Head,
    /// Each waiter for itself, while the server keeps the order.
    Each,
}

/// The effect of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// A hold that ends with its lease unless it is renewed.
    Leased,
    /// A hold that only its release ends.
    Unending,
    /// A grant gives no hold and says that the awaited event has happened.
    Nothing,
}

/// The behavior of a primitive towards its users, apart from its scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The waiters that make attempts.
    pub polling: Polling,
    /// The effect of a grant.
    pub holding: Holding,
    /// True if a hold of this client makes every other waiter of the client wait.
    pub exclusive: bool,
    /// True if acquires of one owner are one hold with a count. If false, each acquire is a separate hold.
    pub counted: bool,
    /// True if a refused waiter is queued on the server, and has to be removed when it leaves.
    pub queued: bool,
    /// The interval at which a waiter has to show that it is alive, or `None` when the server does not check.
    pub seen_every: Option<Duration>,
}

impl Policy {
    /// The policy of an exclusive, reentrant lock.
    pub const LOCK: Self = Self {
        polling: Polling::Head,
        holding: Holding::Leased,
        exclusive: true,
        counted: true,
        queued: false,
        seen_every: None,
    };
}

/// The rules of one primitive, as a row of values and functions.
///
/// A recipe like another one lists the rules that differ and takes the others from the other recipe:
/// `Recipe { kind: "fair lock", acquire, ..REENTRANT }`.
#[derive(Clone, Copy)]
pub struct Recipe {
    /// The name of the primitive in messages, which is also its identity.
    pub kind: &'static str,
    /// The policy of the primitive.
    pub policy: Policy,
    /// Returns the channels on which a waiter of the name and the other names listens, which are none when the
    /// primitive has no wake-ups and its waiters only poll.
    pub channels: fn(&Name, &[Name], WireOwner) -> Vec<Channel>,
    /// The companion: the recipe of the same name under which the owner's current hold matters to this recipe. A
    /// writer, for example, may read.
    pub companion: Option<&'static Self>,
    /// The recipe of the same name whose holder must not wait for this recipe, since it would wait for itself.
    pub blocked_by: Option<&'static Self>,
    /// The recipe by whose rules a grant is held, if that is another recipe.
    pub held_as: Option<&'static Self>,
    /// Returns the number of wire owners that an acquire of this many units uses up.
    pub owners: fn(u32) -> u64,
    /// Acquires free units, with a hold count of one.
    pub acquire: fn(&CallArgs<'_>) -> Call,
    /// Reads an acquire's reply. Returns `None` when the script cannot have given that reply.
    pub read_acquire: fn(&Reply) -> Option<Answer>,
    /// Renews the lease of an existing hold, and sets its count unless `args.count` is 0. With a count it is a
    /// re-entry.
    pub renew: fn(&CallArgs<'_>) -> Call,
    /// Reads a renewal's reply.
    pub read_renew: fn(&Reply) -> Option<Renewal>,
    /// Leaves `args.count` holds. A count of 0 removes the owner from the server, and from the queue. This call is also
    /// the undo of an acquire that no caller received.
    pub release: fn(&CallArgs<'_>) -> Call,
    /// Reads a release's reply, which is true if the owner held the lock.
    pub read_release: fn(&Reply) -> Option<bool>,
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The kind identifies the recipe. The companion would print this recipe again.
        f.debug_struct("Recipe").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The calls that inspect a lock and free it of any holder.
#[derive(Clone, Copy, Debug)]
pub struct LockCalls {
    /// Frees the lock of any holder.
    pub force_release: fn(&Name) -> Call,
    /// Inspects the lock and, when given, one owner's hold.
    pub inspect: fn(&Name, Option<WireOwner>) -> Call,
}

impl LockCalls {
    /// Reads a force release's reply, which is true if the call found a holder.
    #[must_use]
    pub fn read_force_release(reply: &Reply) -> Option<bool> {
        match reply {
            Reply::Int(found @ (0 | 1)) => Some(*found == 1),
            _ => None,
        }
    }

    /// Reads an inspection's reply.
    #[must_use]
    pub fn read_inspect(reply: &Reply) -> Option<Inspection> {
        let Reply::Array(items) = reply else { return None };
        let [Reply::Int(pttl), Reply::Int(count)] = items.as_slice() else {
            return None;
        };
        let remaining = match *pttl {
            -2 => None,
            -1 => Some(Remaining::NoExpiry),
            ms => Some(Remaining::For(Duration::from_millis(ms.try_into().ok()?))),
        };
        Some(Inspection { remaining, hold_count: (*count).try_into().ok()? })
    }
}

/// The result of an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The time that the current hold has left, or `None` when the lock is free.
    pub remaining: Option<Remaining>,
    /// The hold count of the inspected owner.
    pub hold_count: u32,
}

/// The time that a hold has left unless it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// The hold ends after this time.
    For(Duration),
    /// The key has no expiry and blocks forever. No lock of the family leaves such a key behind.
    NoExpiry,
}

/// The answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The owner has the lock, with a fencing token if the primitive has tokens.
    Granted {
        /// The token of this grant.
        token: Option<u64>,
    },
    /// Another owner has the lock, for this long unless the hold is renewed.
    Refused {
        /// The PTTL, or the time in which another attempt is pointless.
        remaining: Duration,
    },
    /// The key has no expiry and would block forever. No protocol of the family leaves such a key behind.
    NoExpiry,
    /// The wait would never end, because two waiters would have to wait for each other.
    Deadlock,
    /// The awaited primitive was deleted.
    Deleted,
    /// The server restarted too recently to be trusted.
    RecentlyRestarted {
        /// The time until the server can be trusted.
        remaining: Duration,
    },
}

impl Answer {
    /// A grant without a token.
    pub const GRANTED: Self = Self::Granted { token: None };
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease runs from now.
    Renewed,
    /// The lock is free, because it was deleted or had expired.
    Gone,
    /// Another owner holds the lock.
    TakenOver,
}

/// The command that carries a wake-up. A store whose server has sharded channels replaces it by SPUBLISH.
pub(super) const PUBLISH: &str = "PUBLISH";
