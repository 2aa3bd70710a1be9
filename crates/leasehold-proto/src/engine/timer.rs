//! The timers of the engine.
//!
//! Invariant: each timer is set at most once. Setting it again moves it.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::Id;
use crate::moment::Moment;
use crate::owner::WireOwner;

/// One timer of the engine, named by what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Timer {
    /// A hold's validity ends.
    Expire(WireOwner),
    /// A caller's wait ends.
    Deadline(Id),
    /// A grant that its caller has not claimed is undone.
    Unclaimed(Id),
    /// A hold is due for renewal.
    Renew(WireOwner),
    /// A waiter makes its next attempt.
    Attempt(Id),
    /// A hold count that could not be set is retried.
    Count(WireOwner),
    /// A failed release or undo is retried.
    Release(WireOwner),
    /// The callers that wait for a release learn that the release is unconfirmed.
    Report(WireOwner),
    /// A minimum hold is over, or its failed extension is retried.
    MinHold(WireOwner),
    /// A failed operation is retried.
    Perform(Id),
    /// The time of a close is over.
    Close,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Timers {
    by_moment: BTreeSet<(Moment, Timer)>,
    by_timer: BTreeMap<Timer, Moment>,
}

impl Timers {
    /// Sets a timer, or moves it.
    pub(super) fn set(&mut self, timer: Timer, at: Moment) {
        self.clear(timer);
        self.by_moment.insert((at, timer));
        self.by_timer.insert(timer, at);
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        if let Some(at) = self.by_timer.remove(&timer) {
            self.by_moment.remove(&(at, timer));
        }
    }

    pub(super) fn next(&self) -> Moment {
        self.by_moment.first().map_or(Moment::NEVER, |(at, _)| *at)
    }

    /// Removes and returns the earliest due timer.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Timer> {
        let (at, timer) = *self.by_moment.first()?;
        if at > now {
            return None;
        }
        self.by_moment.pop_first();
        self.by_timer.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_only_when_due() {
        let mut timers = Timers::default();
        timers.set(Timer::Attempt(Id(1)), Moment::from_millis(20));
        timers.set(Timer::Attempt(Id(2)), Moment::from_millis(10));
        timers.set(Timer::Close, Moment::from_millis(30));
        timers.set(Timer::Attempt(Id(1)), Moment::from_millis(5));
        timers.clear(Timer::Close);
        assert_eq!(timers.next(), Moment::from_millis(5));
        assert_eq!(timers.pop_due(Moment::from_millis(4)), None);
        assert_eq!(timers.pop_due(Moment::from_millis(60)), Some(Timer::Attempt(Id(1))));
        assert_eq!(timers.pop_due(Moment::from_millis(60)), Some(Timer::Attempt(Id(2))));
        assert_eq!(timers.pop_due(Moment::from_millis(60)), None);
        assert_eq!(timers.next(), Moment::NEVER);
    }
}
