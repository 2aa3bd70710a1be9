//! L5: `lost()` resolves within 50 ms of the deadline, and never while the hold is valid.
//!
//! Invariant: the deadline is the last deadline that the guard itself gave.

use std::collections::BTreeMap;
use std::time::Duration;

use super::invariant::Invariant;
use crate::fault::Kind;
use crate::history::{Event, Hold};
use crate::recorder::view::{LiveHold, View};

const WITHIN: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Losses {
    /// The holds whose user waits for the loss, each with the start of the wait.
    watched: BTreeMap<Hold, Duration>,
}

impl Invariant for Losses {
    fn id(&self) -> &'static str {
        "L5"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::AwaitsLoss { hold, begins: true } => {
                self.watched.insert(*hold, view.now);
            }
            Event::AwaitsLoss { hold, begins: false } => {
                self.watched.remove(hold);
            }
            Event::Lost { hold, reason } => {
                let since = self.watched.remove(hold).unwrap_or(view.now);
                let Some(lost) = view.holds.get(hold) else { return Ok(()) };
                if view.is_valid(lost) {
                    return Err(format!(
                        "hold {} was told that it is lost ({reason}) while it is valid",
                        hold.0
                    ));
                }
                return in_time(view, *hold, lost, since);
            }
            _ => {}
        }
        Ok(())
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        let watched = self.watched.iter().filter_map(|(id, since)| Some((id, view.holds.get(id)?, since)));
        let mut over = watched.filter(|(_, hold, _)| !view.seems_valid(hold));
        over.try_for_each(|(id, hold, since)| in_time(view, *id, hold, *since))
    }
}

/// Checks that a loss is not reported too late.
fn in_time(view: &View, id: Hold, hold: &LiveHold, watched: Duration) -> Result<(), String> {
    let late = view.clock_reading(hold.process).saturating_sub(hold.valid_until);
    // A wait that begins after the deadline resolves at once.
    let late = late.min((view.now - watched).mul_f64(1.01));
    // A pause since the deadline is not a delay of the library. Only the clock of the process knows the time since the
    // deadline.
    let since = view.now.saturating_sub(late.mul_f64(1.01));
    let mut jumps = view.plan.faults.iter().filter(|fault| fault.kind == Kind::ClockForward);
    let jumps = jumps.any(|fault| fault.process == hold.process && fault.begins <= view.now);
    if jumps || late.saturating_sub(view.paused_since(hold.process, since)) <= WITHIN {
        return Ok(());
    }
    Err(format!("the user of hold {} waits for its loss {late:?} after its deadline", id.0))
}
