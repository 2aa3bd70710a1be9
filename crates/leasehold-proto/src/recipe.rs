//! A primitive as pure values: which script to run, how to read its reply, where to listen, how to undo.
//!
//! Invariant: a recipe keeps no state; the same question gives the same call.
//! Called by: the engine, which knows locks only through this trait.

pub mod reentrant;

use std::fmt;
use std::time::Duration;

use crate::call::{Call, Reply};
use crate::lease::Lease;
use crate::name::{Channel, Name};
use crate::owner::WireOwner;

/// What a recipe needs to know to write a call.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The lock.
    pub name: &'a Name,
    /// The wire owner on whose behalf.
    pub owner: WireOwner,
    /// The lease to set.
    pub lease: Lease,
    /// The hold count that is to stand on the server afterwards; see the calls for what 0 means.
    pub count: u32,
}

/// The rules of one primitive.
pub trait Recipe: fmt::Debug + Send + Sync {
    /// What the primitive is called in messages; also its identity.
    fn kind(&self) -> &'static str;

    /// Where a waiter listens; `None` when the primitive has no wake-ups and its waiters only poll.
    fn channel(&self, name: &Name) -> Option<Channel>;

    /// Takes a free lock, with a hold count of one.
    fn acquire(&self, ask: &Ask<'_>) -> Call;

    /// What an acquire's reply means; `None` when the script cannot have given it.
    fn read_acquire(&self, reply: &Reply) -> Option<Answer>;

    /// Renews the lease of a hold that exists, and sets its count unless `ask.count` is 0: a re-entry.
    fn renew(&self, ask: &Ask<'_>) -> Call;

    /// What a renewal's reply means.
    fn read_renew(&self, reply: &Reply) -> Option<Renewal>;

    /// Leaves `ask.count` holds; 0 frees the lock. It is also the undo of an acquire that nobody saw.
    fn release(&self, ask: &Ask<'_>) -> Call;

    /// What a release's reply means: whether the owner held it.
    fn read_release(&self, reply: &Reply) -> Option<bool>;
}

/// What an acquire answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is ours.
    Granted,
    /// Somebody else holds it, for so long unless renewed.
    Refused {
        /// PTTL.
        remaining: Duration,
    },
    /// The key has no expiry, which no protocol of the family leaves behind: it would block for ever.
    NoExpiry,
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
