//! Detection of a standstill, in which a user's future waits for a time that the test never reaches.
//!
//! Invariant: a wait counts from its first poll until its client wakes it or drops its waker, so a held lock is not a
//! wait.
//!
//! # How it works
//! Each poll of a wait registers it, with a waker that removes it again. While there are waits, the world's thread
//! wakes up once per slice of real time. The waits are *stalled* when [`SLICES`] of them ended without work of the
//! drivers, a new wait or an `advance`. The thread wakes the tasks of stalled waits. The poll that follows panics, so
//! the panic is in the test. Slices are counted and not read from a clock, because a process that a debugger stops does
//! not wait meanwhile.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use leasehold_proto::engine::Id;

/// The longest real time of a wait without progress, long enough for a slow machine and short enough for a person who
/// waits for a test.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// The number of slices in [`LIMIT`]. A process that a debugger stops loses one slice and not the whole time.
pub(super) const SLICES: u32 = 50;

/// A client, or a sleep of the test. Waits and timers of one party belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Party(pub(super) u64);

/// A wait: its party, and its number in the party.
pub(super) type Wait = (Party, Id);

/// The waits of users, and the time since the last progress.
#[derive(Default)]
pub(super) struct Standstill {
    waits: BTreeMap<Wait, Waiting>,
    slices: u64,
    /// The slice of the last progress, and the turns of the drivers by then.
    quiet: u64,
    turns: u64,
    /// The number of `advance` calls that are running.
    advancing: u32,
}

struct Waiting {
    /// The poll that registered it last.
    poll: u64,
    waker: Waker,
    stalled: bool,
}

impl Standstill {
    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    pub(super) fn is_stalled(&self, wait: Wait) -> bool {
        self.waits.get(&wait).is_some_and(|waiting| waiting.stalled)
    }

    #[cfg(test)]
    pub(super) fn has_stalled(&self) -> bool {
        self.waits.values().any(|waiting| waiting.stalled)
    }

    /// Registers a wait that is being polled. Returns the previous waker, which the caller drops outside all locks.
    pub(super) fn enter(&mut self, wait: Wait, poll: u64, waker: Waker) -> Option<Waker> {
        let known = self.waits.insert(wait, Waiting { poll, waker, stalled: false });
        if known.as_ref().is_none_or(|known| known.stalled) {
            // A new wait restarts the count for all waits, so they stall together.
            self.quiet = self.slices + 1;
        }
        known.map(|known| known.waker)
    }

    /// Ends a wait, unless a later poll has registered it again.
    pub(super) fn leave(&mut self, wait: Wait, poll: u64) -> Option<Waker> {
        self.waits.get(&wait).filter(|waiting| waiting.poll == poll)?;
        self.waits.remove(&wait).map(|waiting| waiting.waker)
    }

    /// Counts a slice of real time. Returns the wakers of the waits that stall with it.
    pub(super) fn slice(&mut self, turns: u64) -> Vec<Waker> {
        self.slices += 1;
        if self.advancing > 0 || self.turns != turns {
            (self.quiet, self.turns) = (self.slices, turns);
        }
        if self.slices < self.quiet + u64::from(SLICES) {
            return Vec::new();
        }
        let stalled = self.waits.values_mut().filter(|waiting| !waiting.stalled);
        let wake = |waiting: &mut Waiting| {
            waiting.stalled = true;
            waiting.waker.clone()
        };
        stalled.map(wake).collect()
    }

    /// Begins an `advance`, during which no wait is stalled.
    pub(super) fn begin_advance(&mut self) {
        self.advancing += 1;
        self.waits.values_mut().for_each(|waiting| waiting.stalled = false);
    }

    pub(super) fn end_advance(&mut self) {
        self.advancing -= 1;
        self.quiet = self.slices + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Wait = (Party(1), Id(1));
    const OTHER: Wait = (Party(1), Id(2));
    /// One slice more than necessary, because the first slice may be incomplete.
    const LONG: usize = SLICES as usize + 1;

    fn enter(standstill: &mut Standstill, wait: Wait, poll: u64) {
        drop(standstill.enter(wait, poll, Waker::noop().clone()));
    }

    /// Counts slices without a turn. Returns the number of waits that stall in them.
    fn pass(standstill: &mut Standstill, slices: usize) -> usize {
        (0..slices).map(|_| standstill.slice(0).len()).sum()
    }

    #[test]
    fn waits_are_stalled_after_five_seconds_and_once() {
        assert_eq!(LIMIT, Duration::from_secs(5));
        let mut standstill = Standstill::default();
        enter(&mut standstill, ONE, 1);
        enter(&mut standstill, OTHER, 2);
        assert_eq!(pass(&mut standstill, LONG - 1), 0);
        assert_eq!(pass(&mut standstill, 1), 2, "both tasks are woken");
        assert!(standstill.is_stalled(ONE) && standstill.is_stalled(OTHER));
        assert_eq!(pass(&mut standstill, 3 * LONG), 0, "and not again");
        enter(&mut standstill, (Party(1), Id(3)), 3);
        assert!(!standstill.is_stalled((Party(1), Id(3))), "a later wait has its own time");
    }

    #[test]
    fn an_iteration_of_a_driver_restarts_the_count() {
        let mut standstill = Standstill::default();
        enter(&mut standstill, ONE, 1);
        for turns in 1..=9 {
            assert_eq!((0..LONG - 1).map(|_| standstill.slice(turns).len()).sum::<usize>(), 0);
        }
        assert!(!standstill.is_stalled(ONE));
        assert_eq!((0..LONG).map(|_| standstill.slice(9).len()).sum::<usize>(), 1);
    }

    #[test]
    fn a_later_wait_restarts_the_count_for_all() {
        let mut standstill = Standstill::default();
        enter(&mut standstill, ONE, 1);
        assert_eq!(pass(&mut standstill, LONG - 1), 0);
        enter(&mut standstill, OTHER, 2);
        assert_eq!(pass(&mut standstill, LONG - 1), 0);
        assert_eq!(pass(&mut standstill, 1), 2);
    }

    #[test]
    fn an_idle_poll_does_not_restart_the_count() {
        let mut standstill = Standstill::default();
        for poll in 0..LONG - 1 {
            enter(&mut standstill, ONE, poll as u64);
            assert_eq!(pass(&mut standstill, 1), 0);
        }
        assert_eq!(pass(&mut standstill, 1), 1);
    }

    #[test]
    fn a_wait_ends_with_its_last_poll_only() {
        let mut standstill = Standstill::default();
        enter(&mut standstill, ONE, 1);
        enter(&mut standstill, ONE, 2);
        assert!(standstill.leave(ONE, 1).is_none() && !standstill.is_empty());
        assert!(standstill.leave(ONE, 2).is_some() && standstill.is_empty());
        assert_eq!(pass(&mut standstill, 2 * LONG), 0, "no wait is left");
    }

    #[test]
    fn an_advance_stops_and_clears_the_count() {
        let mut standstill = Standstill::default();
        enter(&mut standstill, ONE, 1);
        assert_eq!(pass(&mut standstill, LONG), 1);
        standstill.begin_advance();
        assert!(!standstill.is_stalled(ONE));
        assert_eq!(pass(&mut standstill, 2 * LONG), 0);
        standstill.end_advance();
        assert_eq!(pass(&mut standstill, LONG - 1), 0);
        assert_eq!(pass(&mut standstill, 1), 1);
    }
}
