//! E: a hold reported as deleted or taken over was deleted or taken over, and a client reported as closed was closed.
//!
//! Invariant: under the assumptions a valid hold stays on the server, so a loss other than by the clock needs a breach
//! of an assumption.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::LostReason;

use super::breaches::Breaches;
use super::invariant::Invariant;
use crate::history::{Event, Op, Outcome, What};
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct Reasons {
    breaches: Breaches,
    /// The processes whose client is being closed by a user.
    closing: BTreeSet<usize>,
    process_of: BTreeMap<Op, usize>,
}

impl Invariant for Reasons {
    fn id(&self) -> &'static str {
        "E"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        match event {
            Event::Requested { op, process, what, .. } => {
                if *what == What::Close {
                    self.closing.insert(*process);
                }
                self.process_of.insert(*op, *process);
            }
            Event::Completed { op, outcome } => {
                let process = self.process_of.remove(op).unwrap_or_default();
                if *outcome == Outcome::Closed && !self.closing.contains(&process) {
                    return Err(format!(
                        "op {} was told that its client is closed, and no user has closed it",
                        op.0
                    ));
                }
            }
            Event::Killed { process } => {
                self.closing.remove(process);
            }
            Event::Lost { hold, reason } => {
                let Some(lost) = view.holds.get(hold) else { return Ok(()) };
                let excused = match reason {
                    LostReason::Deleted | LostReason::TakenOver => {
                        self.breaches.excuse(&lost.name, &lost.wire)
                    }
                    LostReason::Closed => self.closing.contains(&lost.process),
                    _ => true,
                };
                if !excused {
                    return Err(format!("hold {} was told that {reason}, which did not happen", hold.0));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
