//! M, R3: a hold is valid until the send time of its last confirmed acquire or renewal, plus the lease, less the drift
//! of 1 % and 2 ms, and no longer.
//!
//! Invariant: the formula is computed here again, from the calls and their answers, on the process's clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::fault::Kind;
use crate::history::Event;
use crate::owner::Wire;
use crate::primitive::Primitive;
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct Validity {
    /// The calls under way, each with the validity that its confirmation gives its owner.
    requested: BTreeMap<u64, (Wire, Duration)>,
    /// The confirmed end of the validity of each owner.
    confirmed: BTreeMap<Wire, Duration>,
}

impl Invariant for Validity {
    fn id(&self) -> &'static str {
        "M R3"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Sent {
                process,
                call,
                verb: Verb::Acquire | Verb::Renew | Verb::HandOff,
                wire,
                lease: Some(lease),
                ..
            } => {
                let drift = *lease / 100 + Duration::from_millis(2);
                let until = view.clock_reading(*process) + lease.saturating_sub(drift);
                self.requested.insert(*call, (Arc::clone(wire), until));
            }
            Event::Returned { call, applied, .. } => {
                if let (Some((wire, until)), None) = (self.requested.remove(call), applied) {
                    let known = self.confirmed.entry(wire).or_default();
                    *known = until.max(*known);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        for (id, hold) in &view.holds {
            let confirmed = self.confirmed.get(&hold.wire).copied().unwrap_or_default();
            // The validity of a hold without an end is not confirmed.
            if hold.valid_until <= confirmed + Duration::from_micros(1)
                || Primitive::of(&hold.name).is_unending()
            {
                continue;
            }
            // A clock jump between two checks of time shifts the recorded validity.
            if !view.plan.faults.iter().any(|fault| fault.kind == Kind::ClockForward) {
                let more = hold.valid_until - confirmed;
                return Err(format!("hold {} is trusted for {more:?} more than was confirmed", id.0));
            }
        }
        Ok(())
    }
}
