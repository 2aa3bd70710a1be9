//! L5: after another server has taken over, each hold is checked on it soon.
//!
//! Invariant: a check is any script of the hold's wire owner that ran after the change. A process is expected to check
//! from its first script on the new server on, and only while no fault disturbs it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::fault::Kind;
use crate::history::{By, Event};
use crate::name_state::Side;
use crate::owner::{Wire, short};
use crate::plan::Shape;
use crate::recorder::view::{LiveHold, View};

/// The time within which a client checks its holds, and some more.
const WITHIN: Duration = Duration::from_millis(350);

#[derive(Default)]
pub(super) struct Replaced {
    /// The time of the last change.
    changed_at: Option<Duration>,
    /// The time at which each process first reached the server that took over.
    reached: BTreeMap<usize, Duration>,
    /// The wire owners whose scripts have run since the change.
    checked: BTreeSet<Wire>,
    /// The wire owners to which the former master has granted since the change.
    apart: BTreeSet<Wire>,
}

impl Invariant for Replaced {
    fn id(&self) -> &'static str {
        "L5"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Fault { kind: Kind::Failover | Kind::SplitBrain | Kind::Switch, begins: true, .. }
                if view.plan.fleet.is_some_and(|fleet| fleet.shape == Shape::Sentinel) =>
            {
                *self = Self { changed_at: Some(view.now), ..Self::default() };
            }
            Event::Apart(executed) => {
                if let Event::Executed { verb: Verb::Acquire, wire, after, .. } = &**executed
                    && after.is_held_by(wire)
                {
                    self.apart.insert(wire.clone());
                }
            }
            Event::Executed { wire, by: By::Process(process), .. } if self.changed_at.is_some() => {
                self.reached.entry(*process).or_insert(view.now);
                self.checked.insert(wire.clone());
            }
            _ => {}
        }
        Ok(())
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        let Some(changed_at) = self.changed_at else { return Ok(()) };
        let within = WITHIN + view.plan.latency_max * 12;
        if !view.is_quiet_for(within) {
            return Ok(());
        }
        let is_late = |hold: &LiveHold| {
            let reached = self.reached.get(&hold.process).map(|reached| hold.since.max(*reached));
            reached.is_some_and(|reached| view.now.saturating_sub(reached) >= within)
                && view.paused_since(hold.process, changed_at).is_zero()
        };
        let mut unchecked = view.holds.values().filter(|hold| {
            let is_old = hold.since <= changed_at || self.apart.contains(&hold.wire);
            let is_checked = hold.side == Side::Permits || self.checked.contains(&hold.wire);
            is_old && !is_checked && is_late(hold) && view.is_valid(hold)
        });
        match unchecked.next() {
            None => Ok(()),
            Some(hold) => {
                let (name, wire) = (&hold.name, short(&hold.wire));
                Err(format!(
                    "{wire} of {name} was not checked on the server that took over at {changed_at:?}"
                ))
            }
        }
    }
}
