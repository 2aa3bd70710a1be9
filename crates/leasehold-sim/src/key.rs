//! What belongs to a name on the server, as it is at one instant.
//!
//! Invariant: it is read from the keyspace alone, and has wire owners as guards know them.
//! Called by: the wire's reader, which makes it; invariants, which compare it before and after a script.

use std::fmt;
use std::sync::Arc;

use crate::history::{Wire, short};

/// Everything that belongs to a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Who holds it.
    pub(crate) holders: Vec<Holder>,
    /// When the key itself goes by the server's clock, in milliseconds; `None` without an expiry, or without a key.
    pub(crate) expires_at_ms: Option<u64>,
    /// Whether the key itself is there.
    pub(crate) is_there: bool,
    /// It is something else than it should be.
    pub(crate) foreign_type: bool,
    /// A fencing token, the permits that are left, the count of a latch.
    pub(crate) value: Option<i64>,
    /// Of a read-write lock, which side has it.
    pub(crate) mode: Option<Arc<str>>,
    /// Of its readers, the key of each hold: whose, which, until when.
    pub(crate) leases: Vec<(Wire, u32, u64)>,
    /// Its marks: who waits and goes first.
    pub(crate) marks: Vec<Wire>,
    /// Who waits in a queue.
    pub(crate) queue: Vec<Wire>,
    /// Until when each of them counts as alive for Redisson.
    pub(crate) due: Vec<(Wire, i64)>,
    /// When each of ours was last seen.
    pub(crate) seen: Vec<(Wire, i64)>,
    /// Operations that have been answered, and what.
    pub(crate) answered: Vec<(Wire, i64)>,
    /// Acquisitions that have been given back and may yet arrive.
    pub(crate) burnt: Vec<Wire>,
}

/// One who holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) wire: Wire,
    pub(crate) side: Side,
    /// Holds, or permits.
    pub(crate) count: u64,
    /// By the server's clock, in milliseconds; `None` without an end.
    pub(crate) until_ms: Option<u64>,
}

/// As what somebody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// Nobody else.
    Alone,
    Reader,
    Writer,
    /// A part.
    Permits,
}

impl Key {
    /// Whether anybody holds it.
    #[must_use]
    pub(crate) fn is_free(&self) -> bool {
        self.holders.is_empty() && !self.foreign_type
    }

    /// Whether this owner does.
    #[must_use]
    pub(crate) fn is_held_by(&self, wire: &str) -> bool {
        self.holder(wire).is_some()
    }

    /// What this owner holds.
    #[must_use]
    pub(crate) fn holder(&self, wire: &str) -> Option<&Holder> {
        self.holders.iter().find(|holder| *holder.wire == *wire)
    }

    /// Whether this owner holds it, and its time has not passed.
    #[must_use]
    pub(crate) fn stands(&self, wire: &str, now_ms: u64) -> bool {
        self.holder(wire).is_some_and(|holder| holder.stands(now_ms))
    }

    /// The permits that are taken.
    #[must_use]
    pub(crate) fn taken(&self) -> i64 {
        let taken = self.holders.iter().map(|holder| holder.count).sum::<u64>();
        i64::try_from(taken).unwrap_or(i64::MAX)
    }

    /// Whether this owner waits in the queue.
    #[must_use]
    pub(crate) fn queues(&self, wire: &str) -> bool {
        self.queue.iter().any(|waits| **waits == *wire)
    }
}

impl Holder {
    /// Whether its time has not passed.
    #[must_use]
    pub(crate) fn stands(&self, now_ms: u64) -> bool {
        self.until_ms.is_none_or(|until| until >= now_ms)
    }
}

/// Whether a permit is one of those that an acquisition has, by its first one and how many they are. Of what is no permit
/// id, whether they are the same.
#[must_use]
pub(crate) fn is_of(wire: &str, units: u32, other: &str) -> bool {
    let number = |id: &str| (id.len() == 32).then(|| u128::from_str_radix(id, 16).ok()).flatten();
    match (number(wire), number(other)) {
        (Some(first), Some(other)) => other >= first && other - first < u128::from(units.max(1)),
        _ => wire == other,
    }
}

impl fmt::Display for Key {
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
            None => f.write_str(" for ever")?,
        }
        for (what, who) in [("queue", &self.queue), ("marks", &self.marks), ("burnt", &self.burnt)] {
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
