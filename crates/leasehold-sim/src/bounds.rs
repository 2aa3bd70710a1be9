//! How long a world may take to end after its last fault.
//!
//! Invariant: the bounds follow from the promises, which give a lease for a hold that is not renewed, and the longest
//! hold for each waiter.

use std::time::Duration;

use crate::fault::Kind;
use crate::plan::Plan;
use crate::primitive::Primitive;

/// The time for which a queue is kept after the last sign of a waiter.
const QUEUES_GO_WITHIN: Duration = Duration::from_secs(16);

/// Returns the time within which every user has been served and has released its holds.
#[must_use]
pub(crate) fn users_end_within(plan: &Plan) -> Duration {
    let everybody = u32::try_from(plan.processes * plan.users + plan.foreigners).unwrap_or(u32::MAX);
    // Each user in turn holds every name for as long as it may, behind a leaked hold of the longest lease, and closes.
    let each = hold_max(plan) + plan.poll_interval + plan.timeout;
    keys_go_within(plan) + each * (everybody + 1) * 2 + Duration::from_secs(60)
}

/// The longest pause between two questions of an observer, while nobody leads, and its jitter.
const OBSERVERS_ASK_WITHIN: Duration = Duration::from_millis(5_500);
/// The lease of a term that was passed on to a candidate who has gone.
const TRANSFERS_END_WITHIN: Duration = Duration::from_secs(2);

/// Returns the time within which an observer shows what the server has, once no fault is at work.
#[must_use]
pub(crate) fn observers_agree_within(plan: &Plan) -> Duration {
    OBSERVERS_ASK_WITHIN.max(plan.longest_lease()) + Duration::from_secs(1) + plan.timeout * 2
}

/// Returns the time within which a candidate leads, once no fault is at work and nobody leads: a leaked hold has expired,
/// and the candidate has polled.
#[must_use]
pub(crate) fn somebody_leads_within(plan: &Plan) -> Duration {
    let lease = plan.longest_lease().mul_f64(1.02).max(TRANSFERS_END_WITHIN);
    lease + plan.poll_interval + plan.timeout * 2 + Duration::from_secs(1)
}

/// Returns the time within which all keys that are not renewed are gone.
#[must_use]
pub(crate) fn keys_go_within(plan: &Plan) -> Duration {
    let back: i64 = plan
        .faults
        .iter()
        .filter(|fault| fault.kind == Kind::ServerClockBack)
        .map(crate::fault::Fault::jump_ns)
        .sum();
    let back = Duration::from_nanos(u64::try_from(back).unwrap_or_default());
    // A queue outlives its last waiter by this much.
    let queues =
        plan.names.iter().any(|name| matches!(Primitive::of(name), Primitive::Fair | Primitive::Fifo));
    let queues = if queues { QUEUES_GO_WITHIN } else { Duration::ZERO };
    plan.longest_lease().max(plan.longest_min_hold()).mul_f64(1.02).max(queues)
        + back
        + Duration::from_secs(3)
}

/// Returns the longest time for which a user holds a lock by choice.
#[must_use]
pub(crate) fn hold_max(plan: &Plan) -> Duration {
    // A hold, a nested hold, and the calls to the server meanwhile.
    plan.longest_lease().mul_f64(1.5) * 2 + plan.timeout * 6
}
