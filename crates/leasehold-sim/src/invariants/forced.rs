//! L6: a renewed hold detects within a third of its lease that its lock was taken away.
//!
//! Invariant: judged only while no other fault disturbs, since a renewal must get through.

use std::time::Duration;

use super::breaches::removes_its_name;
use super::invariant::Invariant;
use crate::fault::Kind;
use crate::history::{Event, Hold};
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct Forced {
    /// The holds whose lock was taken away, each with the time.
    taken: Vec<(Hold, Duration)>,
}

impl Invariant for Forced {
    fn id(&self) -> &'static str {
        "L6"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        if let Event::Fault { index, kind: Kind::Delete | Kind::ForceRelease, begins: true } = event {
            let fault = &view.plan.faults[*index];
            if !removes_its_name(fault) {
                return Ok(());
            }
            let near = view.plan.longest_lease();
            let others = view.plan.faults.iter().enumerate().any(|(other, fault)| {
                other != *index && fault.begins <= view.now + near && fault.ends() + near >= view.now
            });
            if !others {
                let watched = view.valid_holds(&fault.name).filter(|(_, hold)| hold.terms.watched);
                self.taken.extend(watched.map(|(id, _)| (id, view.now)));
            }
        }
        Ok(())
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        self.taken.retain(|(hold, _)| view.holds.get(hold).is_some_and(|hold| view.seems_valid(hold)));
        for (id, taken_at) in &self.taken {
            let Some(hold) = view.holds.get(id) else { continue };
            // A third of the lease by a slow clock, and a renewal that was in flight when the lock was taken away.
            let within =
                (hold.terms.lease / 3).mul_f64(1.006) + view.plan.latency_max * 6 + Duration::from_millis(30);
            if view.now - *taken_at > within {
                return Err(format!(
                    "hold {} does not know that its lock was taken away {within:?} ago",
                    id.0
                ));
            }
        }
        Ok(())
    }
}
