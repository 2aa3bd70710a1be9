//! The state of one name on the server, at one instant.
//!
//! Invariant: the state is read from the keyspace alone, and its wire owners are the wire owners of the guards.

use std::fmt;
use std::sync::Arc;

use crate::owner::{Wire, short};

/// The keys that belong to a name, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NameState {
    pub(crate) holders: Vec<Holder>,
    /// The expiry of the key itself by the server's clock, in milliseconds, or `None` without an expiry or without a
    /// key.
    pub(crate) expires_at_ms: Option<u64>,
    /// True if the key itself exists.
    pub(crate) is_there: bool,
    /// True if a key has an unexpected type.
    pub(crate) foreign_type: bool,
    /// A fencing token, the available permits, or the count of a latch.
    pub(crate) value: Option<i64>,
    /// The mode of a read-write lock.
    pub(crate) mode: Option<Arc<str>>,
    /// The leases of the readers, one for each hold: owner, number and end.
    pub(crate) leases: Vec<(Wire, u32, u64)>,
    /// The owners of the marks of a read-write lock, which are waiters that go first.
    pub(crate) marks: Vec<Wire>,
    /// The owners that wait in the queue.
    pub(crate) queue: Vec<Wire>,
    /// The time until which Redisson counts each waiter as alive.
    pub(crate) redisson_deadlines: Vec<(Wire, i64)>,
    /// The time at which each waiter of ours was last seen.
    pub(crate) last_seen: Vec<(Wire, i64)>,
    /// The operations that were answered, each with its answer.
    pub(crate) answered: Vec<(Wire, i64)>,
    /// The acquires that were undone and may yet arrive.
    pub(crate) undone: Vec<Wire>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) wire: Wire,
    pub(crate) side: Side,
    /// The number of holds or permits.
    pub(crate) count: u64,
    /// The end by the server's clock, in milliseconds, or `None` without an end.
    pub(crate) until_ms: Option<u64>,
}

/// The kind of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// An exclusive hold.
    Alone,
    Reader,
    Writer,
    /// Some of the permits.
    Permits,
}

impl NameState {
    /// Returns true if the name has no holder.
    #[must_use]
    pub(crate) fn is_free(&self) -> bool {
        self.holders.is_empty() && !self.foreign_type
    }

    /// Returns true if this owner holds it.
    #[must_use]
    pub(crate) fn is_held_by(&self, wire: &str) -> bool {
        self.holder(wire).is_some()
    }

    /// Returns the hold of this owner.
    #[must_use]
    pub(crate) fn holder(&self, wire: &str) -> Option<&Holder> {
        self.holders.iter().find(|holder| *holder.wire == *wire)
    }

    /// Returns true if this owner holds it and the hold has not expired.
    #[must_use]
    pub(crate) fn is_live(&self, wire: &str, now_ms: u64) -> bool {
        self.holder(wire).is_some_and(|holder| holder.is_live(now_ms))
    }

    /// Returns the number of acquired permits.
    #[must_use]
    pub(crate) fn taken(&self) -> i64 {
        let taken = self.holders.iter().map(|holder| holder.count).sum::<u64>();
        i64::try_from(taken).unwrap_or(i64::MAX)
    }

    /// Returns true if this owner waits in the queue.
    #[must_use]
    pub(crate) fn queues(&self, wire: &str) -> bool {
        self.queue.iter().any(|waits| **waits == *wire)
    }
}

impl Holder {
    /// Returns true if the hold has not expired.
    #[must_use]
    pub(crate) fn is_live(&self, now_ms: u64) -> bool {
        self.until_ms.is_none_or(|until| until >= now_ms)
    }
}

/// Returns true if a permit belongs to an acquire, which is given by its first permit id and its number of permits.
/// Compares the two for equality if they are no permit ids.
#[must_use]
pub(crate) fn is_of(wire: &str, units: u32, other: &str) -> bool {
    let number = |id: &str| (id.len() == 32).then(|| u128::from_str_radix(id, 16).ok()).flatten();
    match (number(wire), number(other)) {
        (Some(first), Some(other)) => other >= first && other - first < u128::from(units.max(1)),
        _ => wire == other,
    }
}

impl fmt::Display for NameState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(value) = self.value {
            write!(f, "[{value}] ")?;
        }
        if self.holders.is_empty() {
            f.write_str("free")?;
        }
        let owners: Vec<_> = self.holders.iter().map(ToString::to_string).collect();
        write!(f, "{}", owners.join(" and "))?;
        match self.expires_at_ms {
            Some(at) => write!(f, " until {at}")?,
            None if self.holders.is_empty() => {}
            None => f.write_str(" forever")?,
        }
        for (what, who) in [("queue", &self.queue), ("marks", &self.marks), ("burnt", &self.undone)] {
            if !who.is_empty() {
                let who: Vec<_> = who.iter().map(|wire| short(wire)).collect();
                write!(f, ", {what} {}", who.join(" "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x{}", short(&self.wire), self.count)?;
        match self.side {
            Side::Alone | Side::Permits => {}
            Side::Reader => write!(f, " reads until {}", self.until_ms.unwrap_or_default())?,
            Side::Writer => f.write_str(" writes")?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acquisition_has_the_permits_that_follow_its_first() {
        let id = |number: u128| format!("{number:032x}");
        assert!(is_of(&id(7), 2, &id(8)) && !is_of(&id(7), 2, &id(9)) && !is_of(&id(7), 2, &id(6)));
        assert!(is_of("a:1", 3, "a:1") && !is_of("a:1", 3, "a:2"));
    }
}
