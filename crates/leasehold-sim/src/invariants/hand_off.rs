//! L4: a client hands a hold to its own waiters only within the bound of its grant, and a guard that ends is followed by
//! at most one of another owner.
//!
//! Invariant: judged by the guards that users have, and by the time at which each ends.

use std::collections::BTreeMap;
use std::time::Duration;

use super::invariant::Invariant;
use crate::history::{Ending, Event, Hold};
use crate::owner::{Wire, short};
use crate::recorder::view::View;

/// The difference between two clocks within the longest bound that is judged.
const DRIFT: f64 = 1.01;

#[derive(Default)]
pub(super) struct HandOff(BTreeMap<Wire, Passing>);

/// A hold of the server, as it passes from guard to guard.
struct Passing {
    /// The time of the first claim, which is not before the grant.
    since: Duration,
    /// The end of the last guard, if there is none now.
    ended: Option<Duration>,
}

impl Invariant for HandOff {
    fn id(&self) -> &'static str {
        "L4"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Claimed { hold, wire, .. } => self.claimed(*hold, wire, view),
            Event::Ending { hold, how: Ending::Release | Ending::Drop } => {
                let Some(ending) = view.holds.get(hold) else { return Ok(()) };
                if let Some(passing) = self.0.get_mut(&ending.wire)
                    && !is_shared(*hold, &ending.wire, view)
                {
                    passing.ended = Some(view.now);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl HandOff {
    fn claimed(&mut self, hold: Hold, wire: &Wire, view: &View) -> Result<(), String> {
        let first = Passing { since: view.now, ended: None };
        let passing = self.0.entry(wire.clone()).or_insert(first);
        let Some(ended) = passing.ended.take().filter(|_| !is_shared(hold, wire, view)) else {
            return Ok(());
        };
        let until = passing.since + view.plan.hand_off.mul_f64(DRIFT);
        if ended <= until {
            return Ok(());
        }
        Err(format!("{} passed on at {ended:?}, and its bound was over at {until:?}", short(wire)))
    }
}

/// Returns true if another guard has the same wire owner.
fn is_shared(hold: Hold, wire: &Wire, view: &View) -> bool {
    view.holds.iter().any(|(id, other)| *id != hold && other.wire == *wire)
}
