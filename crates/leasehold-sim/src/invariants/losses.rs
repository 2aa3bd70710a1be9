//! L5: `lost()` resolves within 50 ms of the deadline, and never while the hold may be trusted.
//!
//! Invariant: the deadline is the last one that the guard itself gave.
//! Called by: the recorder.

use std::time::Duration;

use super::Invariant;
use crate::history::Event;
use crate::recorder::View;

const WITHIN: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Losses;

impl Invariant for Losses {
    fn id(&self) -> &'static str {
        "L5"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        let Event::Lost { hold, reason } = event else { return Ok(()) };
        let Some(lost) = view.holds.get(hold) else { return Ok(()) };
        if view.is_valid(lost) {
            return Err(format!("hold {} was told that it is lost ({reason}) while it is valid", hold.0));
        }
        let says = view.clock_says(lost.process);
        let late = says.saturating_sub(lost.valid_until);
        // A pause since the deadline is not the library's; how long ago that was is known by the process's clock alone.
        let since = view.now.saturating_sub(late);
        let jumps = view.plan.faults.iter().any(|fault| fault.kind == crate::fault::Kind::ClockForward);
        if jumps || late.saturating_sub(view.paused_since(lost.process, since)) <= WITHIN {
            return Ok(());
        }
        Err(format!("hold {} was told that it is lost ({reason}) {late:?} after its deadline", hold.0))
    }
}
