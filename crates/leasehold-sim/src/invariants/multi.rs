//! M1: what is handed out as several locks at once is all of them, valid for as long as the shortest. M2 is seen by what
//! looks at single locks: `errors`, `ghosts` and `claims`; M3 by the world's rest.
//!
//! Invariant: judged by the guard that has them all and by each one's own.
//! Called by: the recorder; invariants that have to know who is being taken for several at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Invariant;
use crate::history::{Event, Op, What};
use crate::primitive::covers;
use crate::recorder::View;

#[derive(Default)]
pub(super) struct Multi;

impl Invariant for Multi {
    fn id(&self) -> &'static str {
        "M1"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        let Event::Several { op, holds, remaining } = event else { return Ok(()) };
        let holds = holds.iter().filter_map(|hold| view.holds.get(hold));
        let shortest = holds.map(|hold| hold.valid_until.saturating_sub(view.clock_says(hold.process))).min();
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

/// Acquires of several names that are under way: what they have taken is theirs, though no user has it yet.
#[derive(Default)]
pub(super) struct Gathering(BTreeMap<Op, (usize, Arc<str>)>);

impl Gathering {
    pub(super) fn see(&mut self, event: &Event) {
        match event {
            Event::Asked {
                op,
                process,
                name,
                what: What::LockAll | What::TryLockAll | What::TryLockAllFor,
                ..
            } => {
                self.0.insert(*op, (*process, Arc::clone(name)));
            }
            Event::Answered { op, .. } | Event::Dropped { op } => {
                self.0.remove(op);
            }
            Event::Killed { process } => self.0.retain(|_, (of, _)| of != process),
            _ => {}
        }
    }

    /// Whether a process is taking this name with others.
    pub(super) fn takes(&self, process: usize, name: &str) -> bool {
        self.0.values().any(|(of, names)| *of == process && covers(names, name))
    }
}
