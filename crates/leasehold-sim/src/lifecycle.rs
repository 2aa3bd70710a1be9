//! The lifecycle of a world, from its first fault to its end.
//!
//! Invariant: all modes share this lifecycle. They differ in how time passes and in what an action does.

use std::sync::Arc;
use std::time::Duration;

use crate::bounds;
use crate::history::Event;
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::schedule::{Action, schedule};

/// The interval at which the world checks if the users have ended.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// A world of any mode.
pub(crate) trait World {
    fn plan(&self) -> Arc<Plan>;

    /// Returns the true time.
    fn now(&self) -> Duration;

    fn recorder(&self) -> &Recorder;

    /// Returns the number of users that have not ended.
    fn users(&self) -> usize;

    /// Carries out an action of the schedule.
    fn apply(&mut self, action: Action);

    /// Runs until a true time. Returns `false` if a promise was broken and the run can stop.
    fn run_until(&mut self, at: Duration) -> bool;

    /// Returns the keys that are left, and the channels that have subscribers.
    fn left_over(&self) -> (Vec<String>, Vec<String>);
}

/// Runs the world to its end, or to the first broken promise.
pub(crate) fn live(world: &mut impl World) {
    let plan = world.plan();
    for (at, action) in schedule(&plan) {
        if !world.run_until(at) {
            return;
        }
        world.apply(action);
    }
    for (at, reached) in [(plan.quiesce_at, Event::Quiesced), (plan.stop_at, Event::Stopped)] {
        if !world.run_until(at) {
            return;
        }
        world.recorder().record(world.now(), reached);
    }
    wind_down(world, &plan);
}

/// Checks the end of the world: the users end, their clients close, and nothing is left on the server.
fn wind_down(world: &mut impl World, plan: &Plan) {
    let latest = plan.stop_at + bounds::users_end_within(plan);
    while world.users() > 0 && world.now() < latest {
        let next = world.now() + CHECK_EVERY;
        if !world.run_until(next) {
            return;
        }
    }
    let left = world.users();
    if left > 0 {
        if world.recorder().has_copied_writer() {
            return;
        }
        return violate(world, "L", format!("{left} users still wait long after the last fault"));
    }
    let gone_by = world.now() + bounds::keys_go_within(plan);
    if !world.run_until(gone_by) {
        return;
    }
    let (keys, channels) = world.left_over();
    if !keys.is_empty() {
        violate(world, "G4", format!("no client is left, and these keys are: {keys:?}"));
    }
    if !channels.is_empty() {
        violate(world, "G4", format!("no client is left, and these channels have subscribers: {channels:?}"));
    }
}

fn violate(world: &impl World, id: &str, what: String) {
    world.recorder().violate(world.now(), id, what);
}
