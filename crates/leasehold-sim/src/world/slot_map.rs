//! The map of a fleet: which server serves a slot.
//!
//! Invariant: each slot has one owner.

use std::collections::BTreeMap;
use std::time::Duration;

/// The number of slots.
pub(super) const SLOTS: u16 = 16_384;

/// The servers of the slots, from a time on.
#[derive(Clone)]
pub(super) struct Map {
    pub(super) epoch: u64,
    /// The server of each half of the slots.
    pub(super) halves: [usize; 2],
    /// The servers of single slots that have moved.
    pub(super) moved: BTreeMap<u16, usize>,
    /// The time at which each node learns of it.
    pub(super) learned: Vec<Duration>,
}

impl Map {
    /// Returns the first map, which all nodes know.
    pub(super) fn new(halves: [usize; 2], nodes: usize) -> Self {
        Self { epoch: 1, halves, moved: BTreeMap::new(), learned: vec![Duration::ZERO; nodes] }
    }

    /// Gives all that one server has to another.
    pub(super) fn give_all(&mut self, from: usize, to: usize) {
        let owners = self.halves.iter_mut().chain(self.moved.values_mut());
        owners.filter(|owner| **owner == from).for_each(|owner| *owner = to);
    }

    pub(super) fn owner(&self, slot: u16) -> usize {
        let half = self.halves[usize::from(slot >= SLOTS / 2)];
        self.moved.get(&slot).copied().unwrap_or(half)
    }

    /// Returns the ranges of slots, each with its server.
    pub(super) fn ranges(&self) -> Vec<(u16, u16, usize)> {
        let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
        for slot in 0..SLOTS {
            let owner = self.owner(slot);
            match ranges.last_mut() {
                Some((_, last, same)) if *same == owner => *last = slot,
                _ => ranges.push((slot, slot, owner)),
            }
        }
        ranges
    }
}
