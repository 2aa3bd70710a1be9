//! The life of a world, from its first fault to its rest.
//!
//! Invariant: both modes live the same life; only how time passes and what a turn does is a mode's own.
//! Called by: both modes.

use std::sync::Arc;
use std::time::Duration;

use crate::history::Event;
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::rest;
use crate::schedule::{Turn, turns};

/// How often it is looked whether the users have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A world of either mode.
pub(crate) trait World {
    fn plan(&self) -> Arc<Plan>;

    /// The true time.
    fn now(&self) -> Duration;

    fn recorder(&self) -> &Recorder;

    /// How many users have not ended.
    fn users(&self) -> usize;

    /// Begins or ends a fault.
    fn turn(&mut self, turn: Turn);

    /// Runs until then; `false` when a promise was broken and there is no use in going on.
    fn run_until(&mut self, at: Duration) -> bool;

    /// The keys that are there, and the channels that somebody listens to.
    fn left_over(&self) -> (Vec<String>, Vec<String>);
}

/// Lives to the end, or to the first broken promise.
pub(crate) fn live(world: &mut impl World) {
    let plan = world.plan();
    for (at, turn) in turns(&plan) {
        if !world.run_until(at) {
            return;
        }
        world.turn(turn);
    }
    for (at, reached) in [(plan.calm_at, Event::Calm), (plan.stop_at, Event::Stopped)] {
        if !world.run_until(at) {
            return;
        }
        world.recorder().record(world.now(), reached);
    }
    come_to_rest(world, &plan);
}

/// After the users have stopped: they end, their clients close, and nothing is left.
fn come_to_rest(world: &mut impl World, plan: &Plan) {
    let latest = plan.stop_at + rest::users_end_within(plan);
    while world.users() > 0 && world.now() < latest {
        let next = world.now() + LOOK_EVERY;
        if !world.run_until(next) {
            return;
        }
    }
    let left = world.users();
    if left > 0 {
        return violate(world, "L", format!("{left} users still wait long after the last fault"));
    }
    let gone_by = world.now() + rest::keys_go_within(plan);
    if !world.run_until(gone_by) {
        return;
    }
    let (keys, channels) = world.left_over();
    if !keys.is_empty() {
        violate(world, "G4", format!("nobody is left, and these keys are: {keys:?}"));
    }
    if !channels.is_empty() {
        violate(world, "G4", format!("nobody is left, and somebody listens to {channels:?}"));
    }
}

fn violate(world: &impl World, id: &str, what: String) {
    world.recorder().violate(world.now(), id, what);
}
