//! The keys by which parts of the engine know each other's values.

use std::num::NonZeroU64;

use crate::id::CallId;
use crate::recipe::Recipe;

/// The number of a wire owner of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engine) struct Number(NonZeroU64);

impl Number {
    pub(in crate::engine) const fn get(self) -> u64 {
        self.0.get()
    }
}

/// A name, by the position of its state, which is reused after the state is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engine) struct NameId(u32);

/// The wait queues that one name can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engine) enum Side {
    /// The waiters of the primitive itself, which of a read-write lock are the writers.
    Main,
    /// The readers.
    Read,
    /// The readers that wait to write.
    Upgrade,
}

impl Side {
    pub(in crate::engine) const ALL: [Self; 3] = [Self::Main, Self::Read, Self::Upgrade];
}

/// The sides of a recipe.
pub(in crate::engine) trait Sides {
    /// Returns the wait queue of a waiter under this recipe.
    fn side(&self) -> Side;

    /// Returns the side on which a grant under this recipe is held.
    fn held_side(&self) -> Side;
}

impl Sides for Recipe {
    fn side(&self) -> Side {
        if self.held_as.is_some() { Side::Upgrade } else { self.held_side() }
    }

    fn held_side(&self) -> Side {
        let held_as = self.held_as.unwrap_or(self);
        if held_as.companion.is_some() && !held_as.holding.is_exclusive() { Side::Read } else { Side::Main }
    }
}

/// The identity of a wait queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engine) struct QueueId {
    pub(in crate::engine) name: NameId,
    pub(in crate::engine) side: Side,
}

impl NameId {
    pub(in crate::engine) const fn new(index: u32) -> Self {
        Self(index)
    }

    pub(in crate::engine) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(in crate::engine) const fn number(self) -> u32 {
        self.0
    }
}

/// The numbers of wire owners and of calls that the engine gives out, each once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Numbers {
    next_wire: NonZeroU64,
    next_call: NonZeroU64,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { next_wire: NonZeroU64::MIN, next_call: NonZeroU64::MIN }
    }
}

impl Numbers {
    /// Returns the first of `many` consecutive wire owners that were never used.
    pub(in crate::engine) const fn wire(&mut self, many: u64) -> Number {
        let first = self.next_wire;
        self.next_wire = first.saturating_add(many);
        Number(first)
    }

    /// Returns the wire owner with this number, if it was given out.
    pub(in crate::engine) fn given(&self, number: u64) -> Option<Number> {
        NonZeroU64::new(number).filter(|number| *number < self.next_wire).map(Number)
    }

    pub(in crate::engine) const fn call(&mut self) -> CallId {
        let id = self.next_call;
        self.next_call = id.saturating_add(1);
        CallId(id)
    }

    /// Returns a number that changes with each wire owner.
    pub(in crate::engine) const fn salt(&self) -> u64 {
        self.next_wire.get() - 1
    }
}
