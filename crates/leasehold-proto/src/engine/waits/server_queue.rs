//! What this client knows of its waiters in a queue that the server keeps.

use crate::engine::base::keys::QueueId;
use crate::engine::base::timers::{Alarm, Timer, Timers};
use crate::id::CallId;
use crate::moment::Moment;
use crate::recipe::KEEP_ALIVE_WINDOW;

/// The releases that go out alone after an attempt behind one was refused, so a client with rivals wastes one attempt in
/// five. Chosen, not measured.
const ALONE: u32 = 4;

/// What this client knows of its waiters in the server's queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct ServerQueue {
    /// The call that shows that the waiters are alive, while it is on its way.
    pub(in crate::engine) call: Option<KeepAlive>,
    pub(in crate::engine) alarm: Alarm,
    /// The time of the next keep-alive. The alarm may be set to an earlier time.
    pub(in crate::engine) shows_at: Moment,
    /// The attempt that was sent behind a release, while it is on its way.
    pub(in crate::engine) behind: Option<CallId>,
    /// The last attempt behind a release that was refused.
    refused: Option<CallId>,
    /// The number of the next releases that go out alone.
    alone: u32,
    /// The number of waiters that have left the queue, modulo 2^32.
    pub(in crate::engine) left: u32,
    /// True if the last keep-alives found too few waiters in a queue of several windows, which may have moved.
    suspected: bool,
    /// True after a failure, since when the server may have the waiters in another order than this client.
    pub(in crate::engine) unordered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct KeepAlive {
    pub(in crate::engine) call: CallId,
    /// The first place that the call looks at.
    pub(in crate::engine) from: u32,
    /// The number of waiters that should be found, and were found in earlier places.
    pub(in crate::engine) expected: u32,
    pub(in crate::engine) found: u32,
    /// [`ServerQueue::left`] at the first call, and at this one.
    pub(in crate::engine) left: (u32, u32),
}

/// What the keep-alives have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Shown {
    /// Each waiter that did not leave meanwhile has its place.
    Alive,
    /// The server has lost places.
    Lost,
    /// The server has more places than this client knew of, so the order may be another.
    Unordered,
}

impl KeepAlive {
    /// Returns the first place of the next window. The places have moved by as many as have left meanwhile.
    pub(in crate::engine) const fn next(&self, left: u32) -> u32 {
        (self.from + KEEP_ALIVE_WINDOW).saturating_sub(left.wrapping_sub(self.left.1))
    }
}

impl ServerQueue {
    pub(in crate::engine) const fn has_call(&self) -> bool {
        self.call.is_some()
    }

    pub(in crate::engine) fn stop(&mut self, timers: &mut Timers, id: QueueId) {
        self.alarm.clear(timers, Timer::KeepAlive(id));
    }

    /// Returns true if the next attempt may go out behind a release.
    pub(in crate::engine) const fn goes_behind_release(&mut self) -> bool {
        let goes = self.alone == 0;
        self.alone = self.alone.saturating_sub(1);
        goes
    }

    /// Returns what the answers to a client's keep-alives show. A queue of one window was seen at one moment. A longer
    /// one may have moved for another client's waiters, so places count as lost if they are missing twice.
    pub(in crate::engine) fn judge(&mut self, last: &KeepAlive, found: u32) -> Shown {
        let gone = self.left.wrapping_sub(last.left.0);
        let is_short = found.saturating_add(gone) < last.expected;
        let is_certain = last.from == 0 || found == 0 || self.suspected;
        self.suspected = is_short && !is_certain;
        match (is_short, is_certain) {
            (true, true) => Shown::Lost,
            (false, _) if found > last.expected.saturating_add(gone) => Shown::Unordered,
            _ => Shown::Alive,
        }
    }

    /// Notes a failure.
    pub(in crate::engine) const fn mark_unordered(&mut self) {
        self.unordered = true;
    }

    /// Returns true if releases go out alone.
    pub(in crate::engine) const fn leaves_alone(&self) -> bool {
        self.alone > 0
    }

    /// Notes the outcome of an attempt that may have been the one behind a release.
    pub(in crate::engine) fn note_behind(&mut self, call: CallId, granted: bool) {
        if self.behind.take_if(|behind| *behind == call).is_some() && !granted {
            self.alone = ALONE;
            self.refused = Some(call);
        }
    }

    /// Returns true if the attempt behind this release was refused before the release was answered. The server then had
    /// forgotten the script of the release, which was sent once more, and the attempt came first.
    pub(in crate::engine) fn takes_overtaking_of(&mut self, release: CallId) -> bool {
        self.refused.take().is_some_and(|attempt| attempt > release)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn call(from: u32, expected: u32) -> KeepAlive {
        KeepAlive { call: CallId(NonZeroU64::MIN), from, expected, found: 0, left: (0, 0) }
    }

    fn left(left: u32) -> ServerQueue {
        ServerQueue { left, ..ServerQueue::default() }
    }

    #[test]
    fn the_next_window_begins_where_the_places_have_moved_to() {
        assert_eq!(call(0, 9).next(0), KEEP_ALIVE_WINDOW);
        assert_eq!(call(2_000, 9).next(30), 2_970);
        assert_eq!(call(0, 9).next(5_000), 0, "all of them have left");
    }

    #[test]
    fn a_waiter_that_left_is_not_missing() {
        assert_eq!(left(3).judge(&call(0, 10), 7), Shown::Alive);
        assert_eq!(left(3).judge(&call(0, 10), 6), Shown::Lost);
        assert_eq!(
            left(3).judge(&call(0, 10), 13),
            Shown::Alive,
            "a place was seen before and after it moved"
        );
        assert_eq!(left(3).judge(&call(0, 10), 14), Shown::Unordered);
    }

    #[test]
    fn places_of_a_long_queue_are_lost_if_they_are_missing_twice() {
        let mut queue = left(0);
        assert_eq!(queue.judge(&call(1_000, 2_000), 1_999), Shown::Alive);
        assert_eq!(queue.judge(&call(1_000, 2_000), 1_999), Shown::Lost);
        assert_eq!(queue.judge(&call(1_000, 2_000), 2_000), Shown::Alive);
        assert_eq!(queue.judge(&call(1_000, 2_000), 1_999), Shown::Alive, "the second time is not in a row");
        assert_eq!(queue.judge(&call(1_000, 2_000), 0), Shown::Lost, "nothing is left");
    }
}
