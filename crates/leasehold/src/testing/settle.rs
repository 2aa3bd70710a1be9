//! A wait for the test's own tasks to run.
//!
//! Invariant: it only polls, so it works on any executor, and it reads a clock only to give up.
//!
//! # How it works
//! A few turns are enough on an executor with one thread. On several threads a woken task may start only after many
//! turns of this task, so the wait goes on until every listener that the library woke has polled. Some listeners never
//! poll, because the test holds a future and does not poll it. The wait gives such listeners up after a great many
//! turns, once and for all. A task that locks and releases in a loop never waits for time, so no wait for it would end.
//! After many turns and [`LIMIT`] of real time the wait panics instead.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::thread;

use leasehold_proto::engine::Id;
use leasehold_proto::{ClientId, Rounded};
use leasehold_store::Runtime;
use leasehold_store::tokio_runtime::TokioRuntime;

use super::standstill::LIMIT;
use super::world::World;

/// The turns of the executor without work for a driver after which the tasks count as idle. In one turn an executor
/// that takes tasks in order runs all that are ready. Some tasks are ready only because others ran.
const QUIET_TURNS: u32 = 16;
/// The turns after which woken listeners that have not polled are given up, because the test holds their futures
/// without polling them.
const TURNS_MAX: u32 = 10_000;
/// The turns with work after which the tasks may be in a loop. A slow machine makes fewer of them in the same time.
const BUSY_TURNS: u32 = 10_000;

/// A woken listener: its client, the id with changes, and the listener.
pub(super) type Woken = (ClientId, Id, Id);

/// The woken listeners that never polled.
#[derive(Debug, Default)]
pub(super) struct GivenUp(Mutex<BTreeSet<Woken>>);

/// Lets the woken tasks run, and the tasks that those wake.
pub(super) async fn settle(world: &World, given_up: &GivenUp, woken: impl Fn() -> Vec<Woken>) {
    let (mut quiet, mut seen) = (0, world.work_count());
    let (mut busy, since) = (0, TokioRuntime.now());
    loop {
        assert!(
            busy < BUSY_TURNS || TokioRuntime.now().since(since) < LIMIT,
            "a task of this test keeps a client busy and never waits, so the test's clock cannot go on from {}; let its \
             loop wait for time, for example by `testing::Server::sleep`",
            Rounded::down(world.elapsed())
        );
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
        yield_to_ready_tasks().await;
        let turns = world.work_count();
        (quiet, busy) = if turns == seen { (quiet + 1, busy) } else { (0, busy + 1) };
        seen = turns;
    }
}

impl GivenUp {
    fn has_all(&self, woken: &[Woken]) -> bool {
        // This also bounds the set, since listeners that polled after all are removed.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|one| woken.contains(one));
        woken.iter().all(|one| known.contains(one))
    }

    fn add(&self, woken: Vec<Woken>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(woken);
    }
}

/// Yields to every task that is ready.
async fn yield_to_ready_tasks() {
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
