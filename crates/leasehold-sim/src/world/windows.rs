//! The periods in which faults affect the links between processes and the server.
//!
//! Invariant: a window has one end, and an effect that begins again while it lasts only moves the end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::timeline::Timeline;

/// The effect of a fault on one link, during a window of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Impairment {
    RequestsStall,
    RepliesStall,
    Refused,
    Slow,
    Repeated,
    MessagesLost,
    DropsFutures,
    Torn,
    Trickles,
}

/// The number of impairments.
const IMPAIRMENTS: usize = Impairment::Trickles as usize + 1;

/// The windows of all links. Clones are the same windows.
#[derive(Clone)]
pub(super) struct Windows {
    timeline: Arc<Timeline>,
    links: Arc<Mutex<Vec<[Window; IMPAIRMENTS]>>>,
}

/// The period in which an effect is active.
#[derive(Clone, Copy, Default)]
struct Window {
    from: Duration,
    until: Duration,
}

impl Windows {
    pub(super) fn new(timeline: &Arc<Timeline>, links: usize) -> Self {
        let links = vec![[Window::default(); IMPAIRMENTS]; links];
        Self { timeline: Arc::clone(timeline), links: Arc::new(Mutex::new(links)) }
    }

    /// Begins an effect on the link of a process.
    pub(super) fn begin(&self, process: usize, impairment: Impairment, until: Duration) {
        let now = self.timeline.now();
        let window = &mut self.links()[process][impairment as usize];
        // An active window is extended.
        let from = if window.holds(now) { window.from } else { now };
        *window = Window { from, until: window.until.max(until) };
    }

    /// Returns true if an effect is active now.
    pub(super) fn holds(&self, process: usize, impairment: Impairment) -> bool {
        self.links()[process][impairment as usize].holds(self.timeline.now())
    }

    /// Returns the time at which bytes that arrive at `at` get through.
    pub(super) fn lets_through(&self, process: usize, impairment: Impairment, at: Duration) -> Duration {
        let window = self.links()[process][impairment as usize];
        if window.holds(at) { window.until } else { at }
    }

    fn links(&self) -> MutexGuard<'_, Vec<[Window; IMPAIRMENTS]>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    fn holds(self, now: Duration) -> bool {
        (self.from..self.until).contains(&now)
    }
}
