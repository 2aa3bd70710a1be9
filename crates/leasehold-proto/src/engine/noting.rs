//! The facts that an observer takes. What is told stands beside what decides it, in the `noting` of each machine.
//!
//! Invariant: nothing here changes what the engine holds, waits for or sends.

use std::time::Duration;

use super::Engine;
use super::facts::{Detail, Fact, Facts};

impl Engine {
    /// Begins to note facts, which [`take_facts`](Self::take_facts) returns. A name that is waited for longer than the
    /// patience has a fact of its own, once in each such time.
    pub fn observe(&mut self, patience: Duration, detail: Detail) {
        self.waits.holds.cx.facts = Some(Box::new(Facts::new(patience, detail)));
    }

    /// Moves the facts since the last call to the end of this list, in their order.
    pub fn take_facts(&mut self, into: &mut Vec<Fact>) {
        self.waits.holds.cx.note(|facts| facts.take(into));
    }

    /// Returns true if there are facts to take.
    #[must_use]
    pub fn has_facts(&self) -> bool {
        self.waits.holds.cx.facts.as_ref().is_some_and(|facts| !facts.is_empty())
    }
}
