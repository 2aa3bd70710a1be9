//! The names that another server answers for.

use std::ops::RangeInclusive;
use std::sync::Arc;

/// The names for which a server answers that may not be the one that granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "all names or some")]
pub enum Scope {
    /// All names.
    All,
    /// The names in these slots of a cluster.
    Slots(Arc<[RangeInclusive<u16>]>),
}

impl Scope {
    /// Returns the scope of these slots, which are in ascending order.
    #[must_use]
    pub fn slots(slots: impl IntoIterator<Item = u16>) -> Self {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in slots {
            match ranges.last_mut() {
                Some(range) if slot.checked_sub(1) == Some(*range.end()) => *range = *range.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        Self::Slots(ranges.into())
    }

    /// Returns true if the names in this slot are in the scope.
    #[must_use]
    pub fn contains(&self, slot: u16) -> bool {
        match self {
            Self::All => true,
            Self::Slots(ranges) => ranges.iter().any(|range| range.contains(&slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_contains_its_slots_alone() {
        let scope = Scope::slots([0, 1, 2, 7, 9, 10]);
        let contained: Vec<u16> = (0..12).filter(|slot| scope.contains(*slot)).collect();
        assert_eq!(contained, [0, 1, 2, 7, 9, 10]);
        assert!(matches!(&scope, Scope::Slots(ranges) if ranges.len() == 3));
        assert!(Scope::All.contains(16_383) && !Scope::slots([]).contains(0));
    }
}
