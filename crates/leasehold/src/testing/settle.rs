//! Waiting until the test's own tasks have run.
//!
//! Invariant: nothing but polls: it works on any executor, and keeps no time.
//! Called by: the server of a test, before time moves and after.
//!
//! # How it works
//! On an executor with one thread, a few turns are enough. On several threads a task that was woken may begin only after
//! many turns of this one; so those whom the library woke are waited for until they have come to look. Some never do,
//! because the test holds a future and does not poll it: they are given up after a great many turns, once and for all.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::thread;

use leasehold_proto::ClientId;
use leasehold_proto::engine::Id;

use super::world::World;

/// After so many turns of the executor in which no driver was given anything, the tasks count as at rest. In one turn
/// all tasks run that are ready, on executors that take them in order; some tasks are ready only because others ran.
const QUIET_TURNS: u32 = 16;
/// After so many turns, those who were woken and have not come count as never coming.
const TURNS_MAX: u32 = 10_000;

/// One who was woken: whose, for which news, which listener.
pub(super) type Woken = (ClientId, Id, Id);

/// Those who were woken and never came.
#[derive(Debug, Default)]
pub(super) struct GivenUp(Mutex<BTreeSet<Woken>>);

/// Lets the tasks run that were woken, and those that they wake.
pub(super) async fn settle(world: &World, given_up: &GivenUp, woken: impl Fn() -> Vec<Woken>) {
    let (mut quiet, mut seen) = (0, world.turns());
    loop {
        if quiet >= QUIET_TURNS {
            let awaited = woken();
            if given_up.has_all(&awaited) {
                return;
            }
            if quiet >= TURNS_MAX {
                given_up.add(awaited);
                return;
            }
            thread::yield_now();
        }
        turn().await;
        let turns = world.turns();
        quiet = if turns == seen { quiet + 1 } else { 0 };
        seen = turns;
    }
}

impl GivenUp {
    fn has_all(&self, woken: &[Woken]) -> bool {
        // Also keeps it small: who came after all is forgotten.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|one| woken.contains(one));
        woken.iter().all(|one| known.contains(one))
    }

    fn add(&self, woken: Vec<Woken>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(woken);
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
