//! The kinds of objects that operators see.

use std::fmt;
use std::str::FromStr;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A lock, also one of several that are locked together, and that of a Redlock on each of its servers.
    Lock,
    /// A lock with a queue.
    Fair,
    /// A lock with tokens.
    Fenced,
    /// A lock whose waiters only ask again and again.
    Spin,
    /// A single-string lock, alone, in a multi-lock, or on each server of a Redlock.
    Plain,
    /// A lock with two sides.
    ReadWrite,
    /// A semaphore, with or without a queue.
    Semaphore,
    /// A semaphore whose permits expire.
    Expirable,
    /// A count-down latch.
    Latch,
    /// A number that can be the permits of a semaphore, the count of a latch, or something else.
    Counter,
    /// A text that no client and no waiter calls a lock.
    Text,
    /// Something else.
    Foreign,
}

/// The kinds with their names.
const NAMES: [(Kind, &str); 12] = [
    (Kind::Lock, "lock"),
    (Kind::Fair, "fair lock"),
    (Kind::Fenced, "fenced lock"),
    (Kind::Spin, "spin lock"),
    (Kind::Plain, "plain lock"),
    (Kind::ReadWrite, "read-write lock"),
    (Kind::Semaphore, "semaphore"),
    (Kind::Expirable, "expirable semaphore"),
    (Kind::Latch, "count-down latch"),
    (Kind::Counter, "counter"),
    (Kind::Text, "string"),
    (Kind::Foreign, "foreign"),
];
/// Further names of recipes.
const ALSO: [(Kind, &str); 8] = [
    (Kind::Lock, "multi-lock"),
    (Kind::Lock, "redlock"),
    (Kind::Plain, "plain multi-lock"),
    (Kind::Plain, "plain redlock"),
    (Kind::ReadWrite, "read lock"),
    (Kind::ReadWrite, "write lock"),
    (Kind::ReadWrite, "upgrade"),
    (Kind::Semaphore, "fifo semaphore"),
];

impl Kind {
    /// Returns the name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(kind, _)| *kind == self).map_or("foreign", |(_, name)| name)
    }

    /// Returns the names of all kinds.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name)| *name)
    }

    /// Returns true if a hash holds an object of this kind.
    #[must_use]
    pub const fn is_lock(self) -> bool {
        matches!(self, Self::Lock | Self::Fair | Self::Fenced | Self::Spin | Self::ReadWrite)
    }

    /// Returns true if the key's expiry is the lease of each hold.
    #[must_use]
    pub const fn has_lease(self) -> bool {
        self.is_lock() || matches!(self, Self::Plain)
    }

    /// Returns true if a number holds an object of this kind.
    #[must_use]
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Semaphore | Self::Expirable | Self::Latch | Self::Counter)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads the name of a kind, or of the recipe of a kind.
impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        NAMES.iter().chain(&ALSO).find(|(_, name)| *name == text).map(|(kind, _)| *kind).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{expirable, fair, fenced, latch, multi, plain, read_write, redlock, reentrant};
    use crate::recipe::{semaphore, spin, upgrade};

    #[test]
    fn each_recipe_has_a_kind() {
        for (recipe, kind) in [
            (&reentrant::REENTRANT, Kind::Lock),
            (&multi::MULTI, Kind::Lock),
            (&redlock::REDLOCK, Kind::Lock),
            (&fair::FAIR, Kind::Fair),
            (fenced::with_tokens(fenced::Tokens::Counter), Kind::Fenced),
            (&spin::SPIN, Kind::Spin),
            (&plain::PLAIN, Kind::Plain),
            (&plain::BOUNDED_FENCED, Kind::Plain),
            (&plain::MULTI, Kind::Plain),
            (&plain::REDLOCK, Kind::Plain),
            (&read_write::READ_LOCK, Kind::ReadWrite),
            (&read_write::WRITE_LOCK, Kind::ReadWrite),
            (&upgrade::UPGRADE, Kind::ReadWrite),
            (&semaphore::SEMAPHORE, Kind::Semaphore),
            (&semaphore::FIFO_SEMAPHORE, Kind::Semaphore),
            (&expirable::EXPIRABLE_SEMAPHORE, Kind::Expirable),
            (&latch::LATCH, Kind::Latch),
        ] {
            assert_eq!(recipe.kind.parse(), Ok(kind));
        }
    }

    #[test]
    fn a_kind_is_read_as_it_is_written() {
        assert!(Kind::names().all(|name| name.parse::<Kind>().unwrap().name() == name));
        assert_eq!("mutex".parse::<Kind>(), Err(()));
    }
}
