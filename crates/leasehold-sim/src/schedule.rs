//! The times at which the faults of a plan begin and end.
//!
//! Invariant: the past state that a failover needs is saved before it.

use std::time::Duration;

use crate::fault::Fault;
use crate::plan::Plan;

/// The longest lag of a replica, in true milliseconds.
const LAG_MAX_MS: u64 = 400;

/// A scheduled action of the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// The fault with this index begins.
    Begin(usize),
    /// The fault with this index ends.
    End(usize),
    /// The server saves the state that a replica has when it takes over.
    Replicate,
}

/// Returns all actions, in order of time.
pub(crate) fn schedule(plan: &Plan) -> Vec<(Duration, Action)> {
    let mut actions = Vec::new();
    for (index, fault) in plan.faults.iter().enumerate() {
        // The save comes first, for a replica that lags by nothing.
        if fault.kind.promotes_stale() {
            actions.push((replicated_at(fault), Action::Replicate));
        }
        actions.push((fault.begins, Action::Begin(index)));
        actions.push((fault.ends(), Action::End(index)));
    }
    actions.sort_by_key(|(at, _)| *at);
    actions
}

/// Returns the time up to which the replica of a failover has seen the writes.
pub(crate) fn replicated_at(fault: &Fault) -> Duration {
    fault.begins.saturating_sub(Duration::from_millis(fault.chance % LAG_MAX_MS))
}
