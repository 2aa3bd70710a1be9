//! Which server serves each cluster slot, one table entry per slot.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::redis::error::SLOTS;
use crate::redis::wire::ids::NodeId;

/// The servers by slot, as far as they are known.
#[derive(Debug)]
pub(super) struct Slots {
    servers: Vec<Option<NodeId>>,
    /// The number of slots of each server, at least 1.
    counts: BTreeMap<NodeId, u16>,
}

impl Slots {
    pub(super) fn unknown() -> Self {
        Self { servers: vec![None; usize::from(SLOTS)], counts: BTreeMap::new() }
    }

    pub(super) fn get(&self, slot: u16) -> Option<NodeId> {
        self.servers.get(usize::from(slot)).copied().flatten()
    }

    /// Sets the server of a slot. Returns true if another server or none had it.
    pub(super) fn set(&mut self, slot: u16, node: NodeId) -> bool {
        let Some(place) = self.servers.get_mut(usize::from(slot)) else { return false };
        let before = place.replace(node);
        *self.counts.entry(node).or_default() += 1;
        if let Some(before) = before
            && let Entry::Occupied(mut count) = self.counts.entry(before)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        before != Some(node)
    }

    /// Takes over another table. Returns the slots that had another server before, in ascending order. A slot that had none
    /// while others had one counts too, because it may have had another server before that.
    pub(super) fn replace(&mut self, other: Self) -> Vec<u16> {
        let was_unknown = self.is_unknown();
        let before = std::mem::replace(self, other).servers;
        let pairs = (0..).zip(before.iter().zip(&self.servers));
        let moved = pairs.filter(|(_, (before, now))| !was_unknown && now.is_some() && before != now);
        moved.map(|(slot, _)| slot).collect()
    }

    /// Returns true if no server is known.
    pub(super) fn is_unknown(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns true if a server has a slot.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.counts.contains_key(&node)
    }

    /// Returns the server of the lowest slot that has one.
    pub(super) fn first(&self) -> Option<NodeId> {
        self.servers.iter().copied().flatten().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_table_tells_the_slots_that_moved() {
        let (a, b) = (NodeId(1), NodeId(2));
        let mut slots = Slots::unknown();
        assert!(slots.is_unknown() && slots.first().is_none());
        let mut first = Slots::unknown();
        assert!(first.set(7, a) && first.set(8, a) && first.set(9, a), "no server had them");
        assert_eq!(slots.replace(first), [0; 0], "nothing was known");
        let mut next = Slots::unknown();
        next.set(6, b);
        next.set(7, a);
        next.set(8, b);
        assert_eq!(slots.replace(next), [6, 8], "a slot that is unknown now did not move");
        assert_eq!((slots.first(), slots.get(7), slots.get(9)), (Some(b), Some(a), None));
        assert!(slots.set(7, b) && !slots.set(7, b));
        assert!(!slots.has(a) && slots.has(b));
        assert!(!slots.set(SLOTS, a), "there is no such slot");
    }
}
