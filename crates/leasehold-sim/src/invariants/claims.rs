//! Rule 6: the client undoes an unclaimed grant after a third of its lease, so that a future that is not polled blocks
//! other clients for a short time only.
//!
//! Invariant: judged only while no fault disturbs calls and the client's driver runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use super::multi::Gathering;
use crate::fault::Kind;
use crate::history::{By, Event};
use crate::owner::{Wire, short};
use crate::recorder::view::View;

/// The longest time for which a grant may wait for its claim, for any lease.
const LONGEST: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Claims {
    unclaimed: BTreeMap<Wire, Grant>,
    gathering: Gathering,
}

struct Grant {
    name: Arc<str>,
    process: usize,
    at: Duration,
    within: Duration,
}

impl Invariant for Claims {
    fn id(&self) -> &'static str {
        "G5 L"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.gathering.see(event);
        match event {
            Event::Executed {
                verb: Verb::Acquire,
                name,
                wire,
                by: By::Process(process),
                before,
                after,
                ..
            } if !before.is_held_by(wire) && after.is_held_by(wire) => {
                let says = view.server_clock.reading(view.now);
                let until_ms = after.holder(wire).and_then(|holder| holder.until_ms).unwrap_or(u64::MAX);
                let lease = Duration::from_millis(until_ms).saturating_sub(says);
                let trip = view.plan.latency_max * 8 + Duration::from_millis(50);
                let within = (lease / 3).min(LONGEST).mul_f64(1.01) + trip;
                let grant = Grant { name: Arc::clone(name), process: *process, at: view.now, within };
                self.unclaimed.insert(Arc::clone(wire), grant);
            }
            Event::Executed { name, after, .. } => {
                self.unclaimed.retain(|wire, grant| grant.name != *name || after.is_held_by(wire));
            }
            Event::Claimed { wire, .. } => {
                self.unclaimed.remove(wire);
            }
            Event::Killed { process } => self.unclaimed.retain(|_, grant| grant.process != *process),
            _ => {}
        }
        Ok(())
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        // An acquire of several names claims each as soon as it is granted.
        self.unclaimed.retain(|_, grant| !self.gathering.takes(grant.process, &grant.name));
        for (wire, Grant { name, process, at, within }) in &self.unclaimed {
            let took = view.now - *at;
            let disturbed = !view.is_quiet_for(took + view.plan.timeout + Duration::from_secs(2));
            if took > *within && !disturbed && !was_paused(view, *process, *at) {
                return Err(format!("{} has had {name} for {took:?} without a claim", short(wire)));
            }
        }
        Ok(())
    }
}

/// Returns true if a process was paused since `since`. A pause of its users alone does not count.
fn was_paused(view: &View, process: usize, since: Duration) -> bool {
    let mut pauses =
        view.plan.faults.iter().filter(|fault| fault.kind == Kind::Pause && fault.process == process);
    pauses.any(|fault| fault.begins <= view.now && fault.ends() >= since)
}
