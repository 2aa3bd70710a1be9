//! One row of such a list: a hold, or an acquire that waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A hold of a client. See [`Client::holds`](super::Client::holds).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldLock {
    /// The name, as the program writes it.
    pub name: String,
    /// The kind, such as `fair lock`.
    pub kind: &'static str,
    /// The owner as the server knows it.
    pub owner: String,
    /// The time that it has been held.
    pub held: Duration,
    /// The validity that is left, zero if it is lost.
    pub remaining: Duration,
    /// The fencing token, if the lock has tokens.
    pub token: Option<u64>,
    /// What the program says about the hold. See [`Guard::note`](crate::Guard::note).
    pub note: Option<Arc<str>>,
}

/// An acquire of a client that waits, or is on its way. See [`Client::waits`](super::Client::waits).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingAcquire {
    /// The name, as the program writes it.
    pub name: String,
    /// The kind, such as `fair lock`.
    pub kind: &'static str,
    /// The time since its first poll.
    pub waited: Duration,
}

impl fmt::Debug for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, owner, held, remaining, .. } = self;
        write!(f, "{kind} {name} of {owner}, held for {held:?}, {remaining:?} left")
    }
}

impl fmt::Debug for WaitingAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, waited } = self;
        write!(f, "{kind} {name}, waited for {waited:?}")
    }
}
