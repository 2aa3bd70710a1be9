//! The close of a client: what its callers learn, and when it gives up.
//!
//! Invariant: a closed client finishes even if its server never answers.

use std::time::Duration;

use crate::engine::base::timers::{Alarm, Timer};
use crate::engine::holds::Holds;
use crate::engine::interface::{CloseReport, Outcome};
use crate::id::Id;
use crate::moment::Moment;

/// The time for which a closed client continues to retry its releases, counted from the timeout of the close. That is the
/// default lease, after which the server has dropped most of what is left.
pub const AFTER_CLOSE: Duration = Duration::from_secs(30);

/// The state of a client that is closing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Closing {
    ids: Vec<Id>,
    /// True if the timeout of the close has passed, and the remaining releases have their last period.
    timed_out: bool,
    alarm: Alarm,
}

impl Closing {
    /// Returns true if every close has its report.
    pub(in crate::engine) const fn is_reported(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds a caller, who learns within a timeout what could be released.
    pub(in crate::engine) fn join(&mut self, holds: &mut Holds, now: Moment, id: Id) {
        let at = now + holds.cx.settings.timeout;
        self.alarm.set(&mut holds.cx.timers, Timer::Close, at);
        self.ids.push(id);
    }

    /// Reports the close once every call is answered and every release is over.
    pub(in crate::engine) fn complete(&mut self, holds: &mut Holds) {
        if holds.are_released() && !holds.cx.is_calling() {
            self.report(holds);
        }
    }

    /// Reports to each caller of close what is known.
    fn report(&mut self, holds: &mut Holds) {
        let (released, unconfirmed) = holds.released_since_close();
        let report = CloseReport { released, unconfirmed: unconfirmed + holds.releases() };
        holds.cx.report(std::mem::take(&mut self.ids), &Outcome::Closed(report));
    }

    /// Reports a close that has taken a whole timeout. After a further period it leaves what remains to its lease, so
    /// that a client whose server is gone ends too.
    pub(in crate::engine) fn due(&mut self, holds: &mut Holds, now: Moment) {
        self.report(holds);
        self.alarm.fired();
        if std::mem::replace(&mut self.timed_out, true) {
            holds.cx.forget_calls();
            for hold in holds.sorted() {
                holds.leave_to_lease(hold);
            }
        } else {
            self.alarm.set(&mut holds.cx.timers, Timer::Close, now + AFTER_CLOSE);
        }
    }
}
