//! The timers of the engine: one tree of moments.
//!
//! Invariant: the tree has one entry for each [`Alarm`] that is set. Whoever is due keeps its alarm, so the tree needs
//! no second index.
//!
//! # How it works
//! An alarm that is moved to a later time stays in the tree as it is. It then fires too early, finds nothing due, and
//! is set again. Most waits end before their timer, so most of these moves cost nothing.

use std::collections::BTreeSet;

use crate::engine::base::keys::{Number, QueueId};
use crate::id::Id;
use crate::moment::Moment;

/// A timer, named by what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engine) enum Timer {
    /// A server hold has something to do: it ends, or is renewed, or its call is tried again.
    Hold(Number),
    /// A caller's wait ends.
    Deadline(Id),
    /// A waiter makes its own next attempt.
    Waiter(Id),
    /// A wait queue makes its next attempt.
    Queue(QueueId),
    /// A server queue is shown that this client's waiters are alive.
    KeepAlive(QueueId),
    /// A failed operation is tried again.
    Operation(Id),
    /// More holds and waiters of a replaced server are looked at.
    Checks,
    /// The time of a close is over.
    Close,
    /// A record is too old for the lane.
    Lane,
    /// The end of time. It keeps the tree from ever being empty, so a lone timer allocates no node.
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Timers(BTreeSet<(Moment, Timer)>);

impl Default for Timers {
    fn default() -> Self {
        Self(BTreeSet::from([(Moment::NEVER, Timer::Never)]))
    }
}

impl Timers {
    /// Returns the moment of the first timer, which may be earlier than the time at which something is due.
    pub(in crate::engine) fn next(&self) -> Moment {
        self.0.first().map_or(Moment::NEVER, |(at, _)| *at)
    }

    /// Returns the timers up to this moment, in order.
    pub(in crate::engine) fn until(&self, at: Moment) -> impl Iterator<Item = Timer> {
        self.0.iter().take_while(move |(due, _)| *due <= at).map(|(_, timer)| *timer)
    }

    /// Removes and returns the earliest due timer.
    pub(in crate::engine) fn pop_due(&mut self, now: Moment) -> Option<Timer> {
        if self.next() > now || self.next() == Moment::NEVER {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}

/// The time for which a timer stands in the tree, kept by what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Alarm(Moment);

impl Default for Alarm {
    fn default() -> Self {
        Self(Moment::NEVER)
    }
}

impl Alarm {
    /// Sets the timer to this moment, earlier or later.
    pub(in crate::engine) fn set(&mut self, timers: &mut Timers, timer: Timer, at: Moment) {
        if self.0 == at {
            return;
        }
        self.clear(timers, timer);
        if at != Moment::NEVER {
            timers.0.insert((at, timer));
            self.0 = at;
        }
    }

    /// Sets the timer to this moment at the latest. A timer that stands earlier stays.
    pub(in crate::engine) fn set_by(&mut self, timers: &mut Timers, timer: Timer, at: Moment) {
        if at < self.0 {
            self.set(timers, timer, at);
        }
    }

    pub(in crate::engine) fn clear(&mut self, timers: &mut Timers, timer: Timer) {
        if self.0 != Moment::NEVER {
            timers.0.remove(&(self.0, timer));
            self.0 = Moment::NEVER;
        }
    }

    /// Returns true if the timer is in the tree.
    pub(in crate::engine) fn is_set(&self) -> bool {
        self.0 != Moment::NEVER
    }

    /// Notes that the timer has fired, and is in the tree no more.
    pub(in crate::engine) const fn fired(&mut self) {
        self.0 = Moment::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    #[test]
    fn timers_fire_in_order_and_only_when_due() {
        let (mut timers, mut one, mut other) = (Timers::default(), Alarm::default(), Alarm::default());
        one.set(&mut timers, Timer::Deadline(Id(1)), at(20));
        other.set(&mut timers, Timer::Deadline(Id(2)), at(10));
        one.set(&mut timers, Timer::Deadline(Id(1)), at(5));
        assert_eq!(timers.next(), at(5));
        assert_eq!(timers.pop_due(at(4)), None);
        assert_eq!(timers.pop_due(at(60)), Some(Timer::Deadline(Id(1))));
        assert_eq!(timers.pop_due(at(60)), Some(Timer::Deadline(Id(2))));
        assert_eq!(timers.pop_due(Moment::NEVER), None);
        assert_eq!(timers.next(), Moment::NEVER);
    }

    #[test]
    fn a_timer_moves_to_an_earlier_time_at_once_and_to_a_later_one_when_it_fires() {
        let (mut timers, mut alarm) = (Timers::default(), Alarm::default());
        alarm.set_by(&mut timers, Timer::Close, at(10));
        alarm.set_by(&mut timers, Timer::Close, at(20));
        assert_eq!(timers.next(), at(10));
        alarm.set_by(&mut timers, Timer::Close, at(5));
        assert_eq!(timers.next(), at(5));
        alarm.clear(&mut timers, Timer::Close);
        assert_eq!(timers, Timers::default());
    }
}
