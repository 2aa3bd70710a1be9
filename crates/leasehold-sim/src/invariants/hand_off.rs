//! L4: a client hands a hold to its own waiters only within the bound of its grant, or of an answer in time that no other
//! client listens, and a guard that ends is followed by at most one of another owner.
//!
//! Invariant: judged by the guards that users have, and by the time at which each ends.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::history::{Ending, Event, Hold, Reply};
use crate::owner::{Wire, short};
use crate::primitive::Primitive;
use crate::recorder::view::View;

/// The reply of a question without listeners.
const COUNTED: i64 = 2;
/// The connections of one client that listen.
const OWN: i64 = 1;
/// The difference between two clocks within the longest bound that is judged.
const DRIFT: f64 = 1.01;

#[derive(Default)]
pub(super) struct HandOff {
    passing: BTreeMap<Wire, Passing>,
    /// The questions on their way, by call.
    asking: BTreeMap<u64, Wire>,
    /// The connections that listened when the server executed the last question of a hold.
    listeners: BTreeMap<Wire, i64>,
}

/// A hold of the server, as it passes from guard to guard.
struct Passing {
    /// The time of the first claim, which is not before the grant, or of the last answer that extended the bound.
    since: Duration,
    /// The end of the last guard, if there is none now.
    ended: Option<Duration>,
}

impl Invariant for HandOff {
    fn id(&self) -> &'static str {
        "L4"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event.at_any_server() {
            Event::Claimed { hold, wire, .. } => self.claimed(*hold, wire, view),
            Event::Ending { hold, how: Ending::Release | Ending::Drop } => {
                let Some(ending) = view.holds.get(hold) else { return Ok(()) };
                if let Some(passing) = self.passing.get_mut(&ending.wire)
                    && !is_shared(*hold, &ending.wire, view)
                {
                    passing.ended = Some(view.now);
                }
                Ok(())
            }
            Event::Sent { call, verb: Verb::HandOff, wire, .. } => {
                self.asking.insert(*call, wire.clone());
                Ok(())
            }
            // The question of a plain lock has the text of its renewal.
            Event::Executed { verb, name, wire, reply: Reply::Int(reply), .. }
                if *verb == Verb::HandOff || (*verb == Verb::Renew && Primitive::of(name).is_plain()) =>
            {
                self.listeners.insert(wire.clone(), *reply - COUNTED);
                Ok(())
            }
            Event::Returned { call, applied: None, .. } => {
                if let Some(wire) = self.asking.remove(call) {
                    self.answered(&wire, view);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl HandOff {
    /// Begins a new bound if the answer came within the present one, and at most the client itself listened.
    fn answered(&mut self, wire: &Wire, view: &View) {
        let alone = self.listeners.get(wire).is_some_and(|listeners| (0..=OWN).contains(listeners));
        if let Some(passing) = self.passing.get_mut(wire).filter(|_| alone)
            && view.now <= passing.since + view.plan.hand_off.mul_f64(DRIFT)
        {
            passing.since = view.now;
        }
    }

    fn claimed(&mut self, hold: Hold, wire: &Wire, view: &View) -> Result<(), String> {
        let first = Passing { since: view.now, ended: None };
        let passing = self.passing.entry(wire.clone()).or_insert(first);
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
