//! M1: a guard of several locks holds all of them, and is valid for as long as the shortest. The observers of single
//! locks check M2: `errors`, `leaked_holds` and `claims`. The final check of the world covers M3.
//!
//! Invariant: judged by the combined guard and by the guard of each lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::invariant::Invariant;
use crate::history::{Event, Op, What};
use crate::primitive::covers;
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct Multi;

impl Invariant for Multi {
    fn id(&self) -> &'static str {
        "M1"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        let Event::ClaimedTogether { op, holds, remaining } = event else { return Ok(()) };
        let holds = holds.iter().filter_map(|hold| view.holds.get(hold));
        let shortest =
            holds.map(|hold| hold.valid_until.saturating_sub(view.clock_reading(hold.process))).min();
        match shortest {
            Some(shortest) if shortest.is_zero() => {
                Err(format!("op {} was given several locks, one of which is over", op.0))
            }
            Some(shortest) if shortest != *remaining => {
                Err(format!("op {} has them all for {remaining:?}, and one for {shortest:?}", op.0))
            }
            _ => Ok(()),
        }
    }
}

/// The acquires of several names that are under way. Their granted names are claimed, though no user has them yet.
#[derive(Default)]
pub(super) struct Gathering(BTreeMap<Op, (usize, Arc<str>)>);

impl Gathering {
    pub(super) fn see(&mut self, event: &Event) {
        match event {
            Event::Requested {
                op,
                process,
                name,
                what: What::LockAll | What::TryLockAll | What::TryLockAllFor,
                ..
            } => {
                self.0.insert(*op, (*process, Arc::clone(name)));
            }
            Event::Completed { op, .. } | Event::Dropped { op } => {
                self.0.remove(op);
            }
            Event::Killed { process } => self.0.retain(|_, (of, _)| of != process),
            _ => {}
        }
    }

    /// Returns true if a process is acquiring this name together with others.
    pub(super) fn takes(&self, process: usize, name: &str) -> bool {
        self.0.values().any(|(of, names)| *of == process && covers(names, name))
    }
}
