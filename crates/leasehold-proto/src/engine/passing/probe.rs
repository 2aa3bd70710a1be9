//! The values of the questions of a hold that passes on (`question`).
//!
//! Invariant: they hold no more than what a question needs, so a hold that no waiter waits for keeps none of them.

use std::time::Duration;

use crate::id::CallId;
use crate::lease::Lease;
use crate::moment::Moment;

/// The questions in a row without a hand-off between them, while a waiter of this client is queued.
pub(in crate::engine) const IN_A_ROW: u8 = 4;

/// The questions of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Question {
    /// The time of the next question, or [`Moment::NEVER`].
    pub(in crate::engine) ask_at: Moment,
    /// The question on its way.
    pub(in crate::engine) call: Option<CallId>,
    /// The end of the bound for which the last question was.
    pub(in crate::engine) asked_for: Moment,
    /// The time that the last call took, or the grant.
    pub(in crate::engine) trip: Duration,
    /// The questions that may follow while the hold does not pass on.
    pub(in crate::engine) left: u8,
    /// True if the hold has passed on since the last question.
    pub(in crate::engine) has_passed: bool,
}

impl Question {
    /// Creates the questions of a hold whose grant took this long.
    pub(in crate::engine) const fn new(trip: Duration) -> Self {
        let (ask_at, call, asked_for) = (Moment::NEVER, None, Moment::NEVER);
        Self { ask_at, call, asked_for, trip, left: IN_A_ROW, has_passed: false }
    }
}

/// A question on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Asked {
    pub(in crate::engine) sent_at: Moment,
    pub(in crate::engine) lease: Lease,
    /// True if the server had confirmed this client's own subscription.
    pub(in crate::engine) listened: bool,
}

/// A bound in sixteenths of a millisecond, rounded down, so that it fits beside the other small fields of a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Bound(u16);

impl Bound {
    pub(in crate::engine) fn new(time: Duration) -> Self {
        let units = time.as_micros() * 16 / 1_000;
        Self(u16::try_from(units).unwrap_or(u16::MAX))
    }

    /// Returns the bound, or `None` if it is 4 seconds or longer. Such a hold asks nothing.
    pub(in crate::engine) fn get(self) -> Option<Duration> {
        (self.0 < u16::MAX).then(|| Duration::from_millis(u64::from(self.0)) / 16)
    }
}
