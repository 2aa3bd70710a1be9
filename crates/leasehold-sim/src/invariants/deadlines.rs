//! G3: every wait ends by its deadline.
//!
//! Invariant: the deadline of a paused process moves by the length of the pause. The deadline of an operation that
//! ends with a call moves with the bytes that the process reads, to at most twice its length, because a call waits behind
//! others while the server answers these.

use std::collections::BTreeMap;
use std::time::Duration;

use super::invariant::Invariant;
use crate::history::{Event, Op, What};
use crate::recorder::view::View;

/// The excess over a deadline that is no breach.
const SLACK: Duration = Duration::from_millis(2);

#[derive(Default)]
pub(super) struct Deadlines {
    waiting: BTreeMap<Op, Wait>,
}

struct Wait {
    process: usize,
    what: What,
    since: Duration,
    within: Duration,
}

impl Invariant for Deadlines {
    fn id(&self) -> &'static str {
        "G3"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Requested { op, process, what, within: Some(within), .. } => {
                let wait = Wait { process: *process, what: *what, since: view.now, within: *within };
                self.waiting.insert(*op, wait);
            }
            Event::Completed { op, .. } | Event::Dropped { op } => {
                if let Some(wait) = self.waiting.remove(op) {
                    return wait.in_time(*op, view);
                }
            }
            Event::Killed { process } => self.waiting.retain(|_, wait| wait.process != *process),
            _ => {}
        }
        self.check_time(view)
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        self.waiting.iter().try_for_each(|(op, wait)| wait.in_time(*op, view))
    }
}

impl Wait {
    fn in_time(&self, op: Op, view: &View) -> Result<(), String> {
        let took = view.now - self.since;
        let paused = view.paused_since(self.process, self.since);
        let behind = match self.what {
            What::TryLock
            | What::Upgrade
            | What::TryLockAll
            | What::TryLockAllFor
            | What::Release
            | What::Adjust
            | What::Inspect => view.heard_at(self.process).saturating_sub(self.since).min(self.within),
            _ => Duration::ZERO,
        };
        if took.saturating_sub(paused) <= (self.within + behind).mul_f64(1.006) + SLACK {
            return Ok(());
        }
        let Self { what, within, .. } = self;
        Err(format!("{what:?} (op {}) was to end within {within:?} and has taken {took:?}", op.0))
    }
}
