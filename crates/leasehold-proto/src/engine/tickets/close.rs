//! The close of a client: waiters fail, holds are lost and released, and the callers learn what could not be released.
//!
//! Invariant: a closed engine takes no new request, and it finishes even if its server never answers.

use crate::engine::base::timers::{Alarm, Timer};
use crate::engine::tickets::closing::{AFTER_CLOSE, Closing};
use crate::engine::tickets::ticket::Ticket;
use crate::engine::{AcquireFailure, CloseReport, Engine, Id, LostReason, Outcome};
use crate::moment::Moment;

impl Engine {
    /// Closes the client, fails its waiters, and loses and releases its holds.
    pub(in crate::engine) fn close(&mut self, now: Moment, id: Id) {
        self.waits.holds.cx.tickets.insert(id, Ticket::Pending);
        let at = now + self.waits.holds.cx.settings.timeout;
        if let Some(closing) = &mut self.waits.holds.cx.closing {
            closing.alarm.set(&mut self.waits.holds.cx.timers, Timer::Close, at);
            return closing.ids.push(id);
        }
        let mut alarm = Alarm::default();
        alarm.set(&mut self.waits.holds.cx.timers, Timer::Close, at);
        let closing = Closing { ids: vec![id], released: 0, unconfirmed: 0, timed_out: false, alarm };
        self.waits.holds.cx.closing = Some(closing);
        let acquires: Vec<Id> = self.waits.holds.cx.tickets.sorted_keys();
        for acquire in acquires {
            if self.waits.holds.cx.acquire_of(acquire).is_some() {
                self.waits.fail(now, acquire, AcquireFailure::Closed);
                self.carry(now);
            }
        }
        self.end_operations();
        for hold in self.waits.holds.sorted() {
            self.waits.holds.lose(now, hold, LostReason::Closed);
            self.carry(now);
            self.waits.holds.close_min_hold(now, hold);
            self.waits.holds.close_undone(hold);
        }
    }

    /// Reports the close once every call is answered and every release is over.
    pub(in crate::engine) fn complete_close(&mut self) {
        if self.waits.holds.cx.closing.is_some()
            && self.waits.holds.are_released()
            && !self.waits.holds.cx.is_calling()
        {
            self.report_close();
        }
    }

    /// Reports to each caller of close what is known.
    fn report_close(&mut self) {
        let outstanding = self.waits.holds.releases();
        let Some(closing) = &mut self.waits.holds.cx.closing else { return };
        let ids = std::mem::take(&mut closing.ids);
        let unconfirmed = closing.unconfirmed + outstanding;
        let report = CloseReport { released: closing.released, unconfirmed };
        self.waits.holds.cx.report(ids, &Outcome::Closed(report));
    }

    /// Reports a close that has taken a whole timeout. After a further period it leaves what remains to its lease, so
    /// that a client whose server is gone ends too.
    pub(in crate::engine) fn close_due(&mut self, now: Moment) {
        self.report_close();
        let Some(closing) = &mut self.waits.holds.cx.closing else { return };
        closing.alarm.fired();
        if std::mem::replace(&mut closing.timed_out, true) {
            self.waits.holds.cx.forget_calls();
            for hold in self.waits.holds.sorted() {
                self.waits.holds.leave_to_lease(hold);
            }
        } else {
            closing.alarm.set(&mut self.waits.holds.cx.timers, Timer::Close, now + AFTER_CLOSE);
        }
    }
}
