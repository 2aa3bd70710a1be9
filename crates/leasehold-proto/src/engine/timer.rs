//! What the engine has to come back to, and when.
//!
//! Invariant: each timer is set at most once; setting it again moves it.
//! Called by: the engine's step, which fires what is due; every part that has to come back to something.

use std::collections::{BTreeMap, BTreeSet};

use super::Id;
use crate::moment::Moment;
use crate::owner::WireOwner;

/// One thing to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Timer {
    /// A hold's validity ends.
    Expire(WireOwner),
    /// A caller's wait ends.
    Deadline(Id),
    /// A grant that nobody claimed is given back.
    Unclaimed(Id),
    /// A hold is due for renewal.
    Renew(WireOwner),
    /// A waiter asks again.
    Attempt(Id),
    /// A hold count that could not be set is tried again.
    Count(WireOwner),
    /// A release or undo that failed is tried again.
    Release(WireOwner),
    /// Those who wait for a release are told that it is unconfirmed.
    Report(WireOwner),
    /// A rest is over, or what it needs is tried again.
    MinHold(WireOwner),
    /// An operation that failed is tried again.
    Perform(Id),
    /// Closing has taken long enough.
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

    /// The earliest timer that is due, taken off.
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
