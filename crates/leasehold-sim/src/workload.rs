//! What the users of a world do.
//!
//! Invariant: a workload tells the recorder what it wants before it asks, and what it has in the very poll in which it
//! gets it.
//! Called by: the worlds, for each user.

pub(crate) mod foreign;
mod held;
mod reentrant;

use std::time::Duration;

use crate::ground::Env;
use crate::plan::Plan;

/// One user's life. Another primitive is another file here, chosen among by the user's random numbers.
pub(crate) async fn live(env: Env) {
    reentrant::live(env).await;
}

/// The longest that a user holds a lock by its own will.
#[must_use]
pub(crate) fn hold_max(plan: &Plan) -> Duration {
    // A hold, one inside it, and what they ask of the server meanwhile.
    plan.longest_lease().mul_f64(1.5) * 2 + plan.timeout * 6
}
