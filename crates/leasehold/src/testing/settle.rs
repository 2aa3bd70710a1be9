//! Waiting until the test's own tasks have run.
//!
//! Invariant: nothing but polls: it works on any executor, and keeps no time.
//! Called by: the server of a test, before time moves and after.

use std::future::poll_fn;
use std::task::Poll;

use super::world::World;

/// After so many turns of the executor in which no driver was given anything, the tasks count as at rest. In one turn
/// all tasks run that are ready, on executors that take them in order; some tasks are ready only because others ran.
const QUIET_TURNS: u32 = 16;

/// Lets the tasks run that were woken, and those that they wake.
pub(super) async fn settle(world: &World) {
    let (mut quiet, mut seen) = (0, world.turns());
    while quiet < QUIET_TURNS {
        turn().await;
        let turns = world.turns();
        quiet = if turns == seen { quiet + 1 } else { 0 };
        seen = turns;
    }
}

/// Gives way to every task that is ready.
async fn turn() {
    let mut given = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
