//! The form of a recipe, and the values that recipes share with the engine.
//!
//! Invariant: nothing here names a single recipe.

use std::fmt;
use std::time::Duration;

use super::event::EventState;
use super::format::Format;
use crate::call::{Call, Effects};
use crate::lease::Lease;
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::{ClientId, WireOwner};
use crate::reply::Reply;

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
    /// The fencing tokens that an acquire reserves in a row, at least 1. Each repeat of the call reserves as many.
    pub tokens: u32,
    /// The context of the caller.
    pub context: CallContext,
    /// The uptime below which a server counts as recently restarted and its answer does not count.
    pub uptime: Duration,
    /// The wire owner of the same owner's [`companion`](Recipe::companion) hold, if there is such a hold.
    pub companion: Option<WireOwner>,
    /// The wire owner whose hold an adoption takes.
    pub giver: Option<WireOwner>,
    /// What a plain lock has besides its key.
    pub format: &'a Format,
}

/// The context of a call: what the client knows about the owner's earlier calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallContext {
    /// True if the caller does not wait, so the server must not queue it.
    pub once: bool,
    /// True if the grant is certain, and so old that its marker can have expired.
    pub expired: bool,
    /// True if an earlier call of the same owner has no answer and may still arrive.
    pub uncertain: bool,
    /// True if the caller of an acquire listens for the end of the hold that refuses it, or was refused before.
    pub marks: bool,
    /// True if the last answer told of a holder that sends no message.
    pub polls: bool,
    /// True if no one is known to wait for a release.
    pub quiet: bool,
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

/// What a grant gives, and to how many owners at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// A lock of one owner at a time, which counts its acquires. It ends with its lease unless it is renewed.
    Exclusive,
    /// A lock that owners share, each of which counts its acquires. It ends with its lease unless it is renewed.
    Shared,
    /// Permits. Each acquire is a hold of its own, which only its release ends.
    Permits,
    /// Permits. Each acquire is a hold of its own, which ends with its lease unless it is renewed.
    ExpirablePermits,
    /// Nothing. A grant says that the awaited event has happened.
    Event,
}

impl Holding {
    /// Returns true if a hold of this client makes every other waiter of the client wait.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::Exclusive)
    }

    /// Returns true if the acquires of one owner are one hold with a count.
    #[must_use]
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Exclusive | Self::Shared)
    }

    /// Returns true if a hold ends with its lease unless it is renewed.
    #[must_use]
    pub const fn is_leased(self) -> bool {
        matches!(self, Self::Exclusive | Self::Shared | Self::ExpirablePermits)
    }

    /// Returns true if nothing is held.
    #[must_use]
    pub const fn is_event(self) -> bool {
        matches!(self, Self::Event)
    }
}

/// What the server knows of a client's waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiters {
    /// Nothing. The first waiter of a client makes the attempts for all of them.
    Local,
    /// A mark, which the attempts of a client's first waiter keep up.
    Marked {
        /// The interval at which a waiter has to show that it is alive.
        seen_every: Duration,
    },
    /// A place in a queue for each waiter, so that the server keeps the order.
    Queued {
        /// The interval at which a waiter has to show that it is alive.
        seen_every: Duration,
    },
}

impl Waiters {
    /// Returns the interval at which a waiter has to show that it is alive, or `None` when the server knows no waiters.
    #[must_use]
    pub const fn seen_every(self) -> Option<Duration> {
        match self {
            Self::Local => None,
            Self::Marked { seen_every } | Self::Queued { seen_every } => Some(seen_every),
        }
    }

    /// Returns true if a refused waiter leaves something on the server, which has to be removed when the waiter leaves.
    #[must_use]
    pub const fn are_known(self) -> bool {
        !matches!(self, Self::Local)
    }

    /// Returns true if each waiter has a place in a queue of the server.
    #[must_use]
    pub const fn are_queued(self) -> bool {
        matches!(self, Self::Queued { .. })
    }
}

/// The rules of one primitive, as a row of values and functions.
///
/// A recipe like another one lists the rules that differ and takes the others from the other recipe:
/// `Recipe { kind: "fair lock", acquire, ..REENTRANT }`.
#[derive(Clone, Copy)]
pub struct Recipe {
    /// The name of the primitive in messages, which is also its identity.
    pub kind: &'static str,
    /// What a grant gives.
    pub holding: Holding,
    /// What the server knows of the waiters.
    pub waiters: Waiters,
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
    /// Renews the lease of a hold that passes on inside its client, and counts the listeners of the lock's channel, or
    /// `None` when the primitive cannot tell whether other clients wait.
    pub hand_off: Option<fn(&CallArgs<'_>) -> Call>,
    /// Sets the lease of a hold that no guard has any more, also to a shorter one, or `None` when only a release can end the
    /// hold early.
    pub expire: Option<fn(&CallArgs<'_>) -> Call>,
    /// Leaves `args.count` holds. A count of 0 removes the owner from the server, and from the queue. This call is also
    /// the undo of an acquire that no caller received.
    pub release: fn(&CallArgs<'_>) -> Call,
    /// Reads a release's reply.
    pub read_release: fn(&Reply) -> Option<ReleaseAnswer>,
    /// Shows that the client's waiters in a window of the server's queue are alive, or `None` when the server has no
    /// queue.
    pub keep_alive: Option<fn(&KeepAliveArgs<'_>) -> Call>,
    /// Reads the reply of `keep_alive`.
    pub read_keep_alive: fn(&Reply) -> Option<KeptAlive>,
}

/// The arguments of the call that shows that a client's queued waiters are alive.
#[derive(Clone, Copy, Debug)]
pub struct KeepAliveArgs<'a> {
    /// The name that the client's waiters wait for.
    pub name: &'a Name,
    /// The client. Every waiter of the window whose wire owner belongs to the client is alive.
    pub client: ClientId,
    /// The first place of the window, 0 for the head. A window has [`KEEP_ALIVE_WINDOW`] places.
    pub from: u32,
}

/// The number of places that one call of `keep_alive` covers, so that the script does not block the server. The scripts have
/// a copy of the number.
pub const KEEP_ALIVE_WINDOW: u32 = 1_000;

/// The state of the server's queue after a call of `keep_alive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptAlive {
    /// The number of the client's waiters in the window.
    pub found: u32,
    /// The length of the queue.
    pub length: u32,
    /// The number of the head's wire owner, if the head belongs to the client and can acquire now. Such a head stays
    /// alive by its acquires only. A client that has no waiter of that number releases it, since the server would pass
    /// it by only after five seconds.
    pub next: Option<u64>,
}

/// A reply that the script cannot give counts as an effect.
impl Effects for Recipe {
    fn must_last(&self, verb: Verb, reply: &Reply) -> bool {
        // A repeated release finds nothing, and may be the one that the replicas acknowledge.
        verb != Verb::Acquire || matches!((self.read_acquire)(reply), None | Some(Answer::Granted { .. }))
    }

    fn has_no_end(&self) -> bool {
        self.holding == Holding::Permits
    }
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

/// Those who hold a lock, as the server knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// The number of holders and of marks beside them.
    pub fields: u32,
    /// The holders, none if there are more than a hundred.
    pub holders: Vec<Holder>,
}

/// One holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The owner: client id, colon, number. For Redisson the number is a thread id.
    pub owner: String,
    /// The number of its holds.
    pub count: u32,
}

impl Holders {
    /// Reads the reply of the call that reads who holds a lock. A field that no lock has is left out.
    #[must_use]
    pub fn read(reply: &Reply) -> Option<Self> {
        let Reply::Array(items) = reply else { return None };
        let [Reply::Int(_), Reply::Int(fields), pairs @ ..] = items.as_slice() else { return None };
        let text = |reply: &Reply| match reply {
            Reply::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
            _ => None,
        };
        let holders = pairs.chunks_exact(2).filter_map(|pair| {
            let (field, count) = (text(&pair[0])?, text(&pair[1])?.parse().ok()?);
            let owner = field.strip_suffix(":write").unwrap_or(&field).to_owned();
            let (client, number) = owner.split_once(':')?;
            (client.len() == 36 && number.parse::<u64>().is_ok()).then_some(Holder { owner, count })
        });
        Some(Self { fields: (*fields).try_into().ok()?, holders: holders.collect() })
    }
}

/// The time that a hold has left unless it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// The hold ends after this time.
    For(Duration),
    /// The key has no expiry, so it blocks until it is deleted. Of this family only another library's plain lock has none on
    /// purpose.
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
    /// A holder that sends no message has the lock, for this long unless it renews its hold.
    Polled {
        /// The PTTL.
        remaining: Duration,
    },
    /// The key has no expiry, so a wait might never end, and the recipe calls that a fault.
    NoExpiry,
    /// The wait would never end, because two waiters would have to wait for each other.
    Deadlock,
    /// The awaited primitive was deleted.
    Deleted,
    /// The state of the awaited event, which each waiter compares with its first refusal.
    Event(EventState),
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

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseAnswer {
    /// True if the owner held the lock.
    pub held: bool,
    /// The number of connections that the server sent the wake-up to, as far as the primitive reports it. This client's
    /// connection counts, too. In a cluster without sharded channels the number covers only the connections of the
    /// lock's node.
    pub listeners: u32,
    /// True if the release sent no message, although the primitive has wake-ups.
    pub is_silent: bool,
}

impl ReleaseAnswer {
    /// The answer of a primitive that does not report its listeners.
    #[must_use]
    pub const fn unheard(held: bool) -> Self {
        Self { held, listeners: 0, is_silent: false }
    }
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

/// The answer to the call of a hold that passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOffAnswer {
    /// The lease runs from now.
    Renewed {
        /// The number of connections that listen to the lock's channel, this client's included, or `None` if the server
        /// does not tell.
        listeners: Option<u32>,
    },
    /// The lock is free, because it was deleted or had expired.
    Gone,
    /// Another owner holds the lock.
    TakenOver,
}

/// Reads the reply of the call of a hold that passes on. All primitives have the same script.
pub(crate) fn read_hand_off(reply: &Reply) -> Option<HandOffAnswer> {
    match *reply {
        Reply::Int(-1) => Some(HandOffAnswer::TakenOver),
        Reply::Int(0) => Some(HandOffAnswer::Gone),
        Reply::Int(1) => Some(HandOffAnswer::Renewed { listeners: None }),
        Reply::Int(more) => Some(HandOffAnswer::Renewed { listeners: Some((more - 2).try_into().ok()?) }),
        _ => None,
    }
}

/// Reads the reply of a call that shows that a client's waiters are alive.
pub(super) fn read_keep_alive(reply: &Reply) -> Option<KeptAlive> {
    let Reply::Array(items) = reply else { return None };
    let [Reply::Int(found), Reply::Int(length), Reply::Text(next)] = items.as_slice() else { return None };
    let next = match next.as_slice() {
        b"" => None,
        number => Some(std::str::from_utf8(number).ok()?.parse().ok()?),
    };
    Some(KeptAlive { found: (*found).try_into().ok()?, length: (*length).try_into().ok()?, next })
}

/// The command that carries a wake-up. A store whose server has sharded channels replaces it by SPUBLISH.
pub(crate) const PUBLISH: &str = "PUBLISH";

/// The subcommand that counts listeners. A store replaces it by SHARDNUMSUB for sharded channels, and by nothing where one
/// node does not know all listeners.
pub(crate) const NUMSUB: &str = "NUMSUB";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe;

    #[test]
    fn the_window_of_the_scripts_matches_this_file() {
        let line = format!("local WINDOW = {KEEP_ALIVE_WINDOW}\n");
        let scripts: Vec<_> = recipe::scripts().filter(|script| script.verb == Verb::KeepAlive).collect();
        assert_eq!(scripts.len(), 2);
        assert!(scripts.iter().all(|script| script.source().contains(&line)));
    }

    #[test]
    fn the_state_of_a_queue_names_its_head_or_none() {
        let read = |next: &str| {
            read_keep_alive(&Reply::Array(vec![Reply::Int(2), Reply::Int(5), Reply::Text(next.into())]))
        };
        assert_eq!(read(""), Some(KeptAlive { found: 2, length: 5, next: None }));
        let last = KeptAlive { found: 2, length: 5, next: Some(u64::MAX) };
        assert_eq!(read(&u64::MAX.to_string()), Some(last));
        assert_eq!(read("head"), None);
        assert_eq!(
            read_keep_alive(&Reply::Array(vec![Reply::Int(-1), Reply::Int(5), Reply::Text(vec![])])),
            None
        );
        assert_eq!(read_keep_alive(&Reply::Nil), None);
    }
}
