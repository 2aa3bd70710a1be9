//! A primitive as pure values: which script to run, how to read its reply, where to listen, how to undo.
//!
//! Invariant: a recipe keeps no state; the same question gives the same call.

pub mod expirable;
pub mod fair;
pub mod fence;
pub mod fenced;
pub mod latch;
pub mod multi;
pub mod read;
pub mod read_write;
pub mod redlock;
pub mod reentrant;
pub mod rights;
pub mod semaphore;
pub mod spin;
pub mod upgrade;
pub mod write;

use std::fmt;
use std::time::Duration;

use crate::call::{Call, Reply};
use crate::engine::Subject;
use crate::lease::Lease;
use crate::name::{Channel, Name};
use crate::owner::WireOwner;
use crate::script::Script;

/// All scripts of all recipes.
pub fn scripts() -> impl Iterator<Item = &'static Script> {
    let all = [
        &expirable::SCRIPTS[..],
        &fair::SCRIPTS,
        &fence::SCRIPTS,
        &fenced::SCRIPTS,
        &multi::SCRIPTS,
        &latch::SCRIPTS,
        &read::SCRIPTS,
        &read_write::SCRIPTS,
        &redlock::SCRIPTS,
        &reentrant::SCRIPTS,
        &semaphore::SCRIPTS,
        &spin::SCRIPTS,
        &upgrade::SCRIPTS,
        &write::SCRIPTS,
    ];
    all.into_iter().flatten().copied()
}

/// What a recipe needs to know to write a call.
#[derive(Clone, Copy, Debug)]
pub struct CallArgs<'a> {
    /// What is asked for.
    pub name: &'a Name,
    /// What is asked for together with it, all or nothing.
    pub others: &'a [Name],
    /// The wire owner on whose behalf.
    pub owner: WireOwner,
    /// The lease to set.
    pub lease: Lease,
    /// The hold count that is to stand on the server afterwards; see the calls for what 0 means.
    pub count: u32,
    /// How many units: permits of a semaphore, 1 of everything else.
    pub units: u32,
    /// How the one who asks stands.
    pub context: CallContext,
    /// For how long the server must have been up for its word to count.
    pub uptime: Duration,
    /// Under what the same owner holds the recipe's [`companion`](Recipe::companion), if it does.
    pub companion: Option<WireOwner>,
}

/// How somebody stands to what an ask is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallContext {
    /// It will not wait, so there is no use in queueing it.
    pub once: bool,
    /// It was refused before.
    pub refused: bool,
    /// It was granted, for certain.
    pub granted: bool,
    /// An earlier call of the same owner has no answer, and may yet arrive.
    pub uncertain: bool,
}

impl<'a> CallArgs<'a> {
    /// An ask for one unit, of somebody who waits and knows of no grant.
    #[must_use]
    pub fn new(subject: &'a Subject, owner: WireOwner, lease: Lease) -> Self {
        let Subject { name, others, .. } = subject;
        Self {
            name,
            others,
            owner,
            lease,
            count: 1,
            units: 1,
            context: CallContext::default(),
            companion: None,
            uptime: Duration::ZERO,
        }
    }

    /// The same with another count.
    #[must_use]
    pub const fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// The same for so many units.
    #[must_use]
    pub const fn units(self, units: u32) -> Self {
        Self { units, ..self }
    }
}

/// Which of a client's waiters for one subject ask the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// Only the first: a release then wakes one asker per process.
    Head,
    /// Each for itself: the server keeps the order.
    Each,
}

/// What a grant gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// A hold that ends with its lease unless it is renewed.
    Leased,
    /// A hold that only its release ends.
    Unending,
    /// Nothing: what was waited for has happened.
    Nothing,
}

/// How a primitive behaves towards its users, apart from what its scripts say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Who asks.
    pub polling: Polling,
    /// What a grant gives.
    pub holding: Holding,
    /// Whether a hold of this client means that everybody else here has to wait.
    pub exclusive: bool,
    /// Whether acquires of one owner are one hold with a count. If not, each stands for itself.
    pub counted: bool,
    /// Whether one who was refused stands on the server, and has to be taken off it when it leaves.
    pub queued: bool,
    /// How often one who waits has to show that it is alive; `None` when nobody asks.
    pub seen_every: Option<Duration>,
}

impl Policy {
    /// The manner of an exclusive, reentrant lock.
    pub const LOCK: Self = Self {
        polling: Polling::Head,
        holding: Holding::Leased,
        exclusive: true,
        counted: true,
        queued: false,
        seen_every: None,
    };
}

/// The rules of one primitive.
pub trait Recipe: fmt::Debug + Send + Sync {
    /// What the primitive is called in messages; also its identity.
    fn kind(&self) -> &'static str;

    /// How it behaves.
    fn policy(&self) -> Policy {
        Policy::LOCK
    }

    /// Where a waiter listens; nowhere when the primitive has no wake-ups and its waiters only poll.
    fn channels(&self, subject: &Subject, owner: WireOwner) -> Vec<Channel>;

    /// The recipe of the same name under which an owner's present hold matters to this one: a writer may read.
    fn companion(&self) -> Option<&'static dyn Recipe> {
        None
    }

    /// The recipe of the same name whose holder must not wait for this one, since it would wait for itself.
    fn blocked_by(&self) -> Option<&'static dyn Recipe> {
        None
    }

    /// The recipe by whose rules a grant is held, when they are not these.
    fn held_as(&self) -> Option<&'static dyn Recipe> {
        None
    }

    /// How many wire owners an acquire of so many units uses up.
    fn owners(&self, _units: u32) -> u64 {
        1
    }

    /// Takes what is free, with a hold count of one.
    fn acquire(&self, args: &CallArgs<'_>) -> Call;

    /// What an acquire's reply means; `None` when the script cannot have given it.
    fn read_acquire(&self, reply: &Reply) -> Option<Answer>;

    /// Renews the lease of a hold that exists, and sets its count unless `args.count` is 0: a re-entry.
    fn renew(&self, args: &CallArgs<'_>) -> Call;

    /// What a renewal's reply means.
    fn read_renew(&self, reply: &Reply) -> Option<Renewal>;

    /// Leaves `args.count` holds; 0 takes the owner off the server, out of its queue too. It is also the undo of an
    /// acquire that nobody saw.
    fn release(&self, args: &CallArgs<'_>) -> Call;

    /// What a release's reply means: whether the owner held it.
    fn read_release(&self, reply: &Reply) -> Option<bool>;
}

/// The rules of a lock, which can be looked at and taken away.
pub trait LockRecipe: Recipe {
    /// Frees the lock whoever holds it.
    fn force_release(&self, name: &Name) -> Call;

    /// Whether a force release found a holder.
    fn read_force_release(&self, reply: &Reply) -> Option<bool> {
        match reply {
            Reply::Int(found @ (0 | 1)) => Some(*found == 1),
            _ => None,
        }
    }

    /// Looks at the lock and, when given, at one owner's hold.
    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call;

    /// What an inspection's reply means.
    fn read_inspect(&self, reply: &Reply) -> Option<Inspection> {
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

/// What an inspection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// How long the present hold lasts; `None` when the lock is free.
    pub remaining: Option<Remaining>,
    /// How often the owner that was asked about holds it.
    pub hold_count: u32,
}

/// How long a hold lasts unless it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// This long.
    For(Duration),
    /// For ever: the key has no expiry, which no lock of the family leaves behind.
    NoExpiry,
}

/// What an acquire answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is ours, with a fencing token if the primitive has them.
    Granted {
        /// The token of this grant.
        token: Option<u64>,
    },
    /// Somebody else holds it, for so long unless renewed.
    Refused {
        /// PTTL, or for how long there is no use in asking.
        remaining: Duration,
    },
    /// The key has no expiry, which no protocol of the family leaves behind: it would block for ever.
    NoExpiry,
    /// Whoever waits would wait for ever: each would have to wait for the other.
    Deadlock,
    /// What is waited for was deleted.
    Deleted,
    /// The server has not been up for long enough to be believed; for so much longer.
    RecentlyRestarted {
        /// For how much longer.
        remaining: Duration,
    },
}

impl Answer {
    /// A grant without a token.
    pub const GRANTED: Self = Self::Granted { token: None };
}

/// What a renewal answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease runs from now.
    Renewed,
    /// Nobody holds the lock: it was deleted or had expired.
    Gone,
    /// Somebody else holds it.
    TakenOver,
}

/// The command that carries a wake-up. A store whose server shards its channels writes SPUBLISH in its place.
const PUBLISH: &str = "PUBLISH";
