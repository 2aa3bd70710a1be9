//! When the faults of a plan begin and end.
//!
//! Invariant: what a failover needs of the past is taken before it.
//! Called by: both modes, which carry out the turns.

use std::time::Duration;

use crate::fault::{Fault, Kind};
use crate::plan::Plan;

/// How many true milliseconds a replica lags behind, at most.
const LAG_MAX_MS: u64 = 400;

/// What happens at a moment of the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// A fault begins.
    Begin(usize),
    /// It ends.
    End(usize),
    /// A replica sees what it will have when it takes over.
    Replicate,
}

/// All turns, by time.
pub(crate) fn turns(plan: &Plan) -> Vec<(Duration, Turn)> {
    let mut turns = Vec::new();
    for (index, fault) in plan.faults.iter().enumerate() {
        // First, for a replica that lags by nothing.
        if fault.kind == Kind::Failover {
            turns.push((replicated_at(fault), Turn::Replicate));
        }
        turns.push((fault.begins, Turn::Begin(index)));
        turns.push((fault.ends(), Turn::End(index)));
    }
    turns.sort_by_key(|(at, _)| *at);
    turns
}

/// Until when the replica of a failover has seen the writes.
pub(crate) fn replicated_at(fault: &Fault) -> Duration {
    fault.begins.saturating_sub(Duration::from_millis(fault.chance % LAG_MAX_MS))
}
