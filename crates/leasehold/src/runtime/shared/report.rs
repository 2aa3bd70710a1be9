//! The pulse, holds and waits of a client, for the program's own questions.
//!
//! Invariant: the state is locked for one page of rows at a time.

use std::time::Duration;

use leasehold_proto::Moment;
use leasehold_proto::engine::{Id, Subject};

use super::{Shared, State};
use crate::client::rows::{HeldLock, WaitingAcquire};
use crate::runtime::pulse::Trips;

/// The rows that are read while the state is locked, so that reading 100,000 holds delays no renewal.
const PAGE: usize = 256;

/// The pulse of a client, as a caller reads it.
pub(crate) struct Pulse {
    pub(crate) is_closed: bool,
    /// The time for which calls have failed.
    pub(crate) failing: Option<Duration>,
    pub(crate) last_answer: Option<Duration>,
    pub(crate) trips: Option<Trips>,
    pub(crate) subscriptions: usize,
    pub(crate) driver_late: Duration,
    pub(crate) facts_dropped: u64,
    pub(crate) observers_failed: usize,
}

impl Shared {
    /// Returns the pulse. A forked process reads its parent's pulse at the fork.
    pub(crate) fn pulse(&self) -> Pulse {
        let state = self.lock();
        let now = self.now();
        let observers = self.observers.as_ref();
        Pulse {
            is_closed: state.engine.is_closed(),
            failing: state.pulse.failing_since.map(|since| now.since(since)),
            last_answer: state.pulse.answered_at.map(|at| now.since(at)),
            trips: state.pulse.trips(now),
            subscriptions: state.engine.subscriptions(),
            driver_late: state.driver_late(now),
            facts_dropped: observers.map_or(0, |observers| observers.dropped()),
            observers_failed: observers.map_or(0, |observers| observers.failed()),
        }
    }

    /// Returns the holds behind this id, at most a page, and the id behind which the next page begins.
    pub(crate) fn holds_after(&self, after: Id) -> (Vec<HeldLock>, Option<Id>) {
        let state = self.lock_for_holds(after);
        let now = self.now();
        page(state.holds_after(after), |id| {
            let hold = state.engine.hold_info(id, now)?;
            Some(HeldLock {
                name: self.written(&hold.subject),
                kind: hold.subject.recipe.kind,
                owner: hold.wire.to_string(),
                held: now.since(hold.since),
                remaining: hold.remaining,
                token: hold.token,
                note: state.notes.get(&id).cloned(),
            })
        })
    }

    /// Returns the waiting acquires behind this id, at most a page, and the id behind which the next page begins.
    pub(crate) fn waits_after(&self, after: Id) -> (Vec<WaitingAcquire>, Option<Id>) {
        let state = self.lock();
        let now = self.now();
        page(state.waits_after(after), |id| {
            let wait = state.engine.wait_info(id)?;
            let (name, kind) = (self.written(&wait.subject), wait.subject.recipe.kind);
            Some(WaitingAcquire { name, kind, waited: now.since(wait.since) })
        })
    }

    fn written(&self, subject: &Subject) -> String {
        self.defaults.as_written(&subject.name).to_owned()
    }
}

/// Returns the rows of these ids, at most a page of ids, and the last id if more may follow.
pub(super) fn page<T>(ids: impl Iterator<Item = Id>, row: impl Fn(Id) -> Option<T>) -> (Vec<T>, Option<Id>) {
    let (mut rows, mut last, mut seen) = (Vec::new(), None, 0);
    for id in ids.take(PAGE) {
        (last, seen) = (Some(id), seen + 1);
        rows.extend(row(id));
    }
    (rows, last.filter(|_| seen == PAGE))
}

impl State {
    /// Returns the time for which the driver has left work undone.
    fn driver_late(&self, now: Moment) -> Duration {
        if self.ended {
            return Duration::ZERO;
        }
        let is_due = self.awake || self.engine.next_timer() <= now;
        let due_at = if self.awake { self.pulse.turned_at } else { self.engine.next_timer() };
        if is_due { now.since(due_at.max(self.pulse.turned_at)) } else { Duration::ZERO }
    }
}
