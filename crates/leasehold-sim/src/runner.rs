//! The runner of seeds.
//!
//! Invariant: the outcome of a seed depends only on the seed and the mode, not on the number of threads.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::fault::Kind;
use crate::history::Event;
use crate::mode::Mode;
use crate::plan::Plan;
use crate::primitive::Primitive;
use crate::recorder::{Recorder, Violation};
use crate::world;

/// The outcome of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    /// The hash of the history, equal for equal histories.
    pub(crate) hash: u64,
    /// The simulated time.
    pub(crate) simulated: Duration,
    /// The number of guards handed out, by primitive.
    pub(crate) grants: BTreeMap<Primitive, u64>,
    /// The number of scripts that ran.
    pub(crate) scripts: u64,
    /// The number of faults, by kind.
    pub(crate) faults: BTreeMap<Kind, u64>,
    /// The first broken promise.
    pub(crate) violation: Option<Violation>,
}

/// The totals of many seeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// The number of seeds that ran.
    pub(crate) seeds: u64,
    /// The sum of their history hashes, in any order. A change that keeps the sum changes no history.
    pub(crate) histories: u64,
    /// The simulated time.
    pub(crate) simulated: Duration,
    /// The number of guards handed out, each of which was compared with every other hold.
    pub(crate) grants: BTreeMap<Primitive, u64>,
    /// The number of scripts that ran.
    pub(crate) scripts: u64,
    /// The number of faults, by kind.
    pub(crate) faults: BTreeMap<Kind, u64>,
    /// The outcome of the lowest seed that broke a promise, among those that ran.
    pub(crate) violation: Option<Outcome>,
}

/// The seeds to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// The world.
    pub(crate) mode: Mode,
    /// The first seed.
    pub(crate) first: u64,
    /// The number of seeds.
    pub(crate) seeds: u64,
    /// The number of threads.
    pub(crate) threads: usize,
}

#[must_use]
pub(crate) fn run_seed(seed: u64, mode: Mode) -> Outcome {
    run_plan(&Arc::new(Plan::from_seed(seed, mode)))
}

#[must_use]
pub(crate) fn run_plan(plan: &Arc<Plan>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| live(plan, false))) {
        Ok(recorder) => outcome(plan, &recorder),
        Err(panic) => panicked(plan, panic.as_ref()),
    }
}

/// Runs a plan and keeps the events.
#[must_use]
pub(crate) fn replay(plan: &Arc<Plan>) -> (Outcome, Vec<(Duration, Event)>) {
    let recorder = live(plan, true);
    (outcome(plan, &recorder), recorder.events())
}

fn live(plan: &Arc<Plan>, keep: bool) -> Recorder {
    match plan.mode {
        Mode::Single | Mode::Fleet | Mode::Election => world::run(plan, keep),
        Mode::Quorum => world::quorum::run(plan, keep),
    }
}

/// Turns a panic into a violation, so that the number of its seed is not lost.
fn panicked(plan: &Plan, panic: &(dyn Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
    let violation = Violation { at: Duration::ZERO, id: "panic".into(), what: text };
    Outcome {
        seed: plan.seed,
        hash: 0,
        simulated: Duration::ZERO,
        grants: BTreeMap::new(),
        scripts: 0,
        faults: BTreeMap::new(),
        violation: Some(violation),
    }
}

fn outcome(plan: &Plan, recorder: &Recorder) -> Outcome {
    let counts = recorder.counts();
    Outcome {
        seed: plan.seed,
        hash: recorder.hash(),
        simulated: counts.simulated,
        grants: counts.grants,
        scripts: counts.scripts,
        faults: counts.faults,
        violation: recorder.violation(),
    }
}

/// Runs a batch to its end, to the first broken promise, or until `over` returns true. Calls `progress` with the number
/// of seeds that have run.
pub(crate) fn run(batch: Batch, over: impl Fn() -> bool + Sync, progress: impl Fn(u64) + Sync) -> Summary {
    let (next, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..batch.threads {
            scope.spawn(|| {
                let mut mine = Summary::default();
                while !stop.load(Ordering::Relaxed) && !over() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= batch.seeds {
                        break;
                    }
                    let outcome = run_seed(batch.first.wrapping_add(index), batch.mode);
                    stop.fetch_or(outcome.violation.is_some(), Ordering::Relaxed);
                    mine.add(outcome);
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
                summary.lock().unwrap_or_else(PoisonError::into_inner).merge(mine);
            });
        }
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Summary {
    fn add(&mut self, outcome: Outcome) {
        self.merge(Self {
            seeds: 1,
            histories: outcome.hash,
            simulated: outcome.simulated,
            grants: outcome.grants.clone(),
            scripts: outcome.scripts,
            faults: outcome.faults.clone(),
            violation: outcome.violation.is_some().then_some(outcome),
        });
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.histories = self.histories.wrapping_add(other.histories);
        self.simulated += other.simulated;
        for (primitive, count) in other.grants {
            *self.grants.entry(primitive).or_default() += count;
        }
        self.scripts += other.scripts;
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.violation = match (self.violation.take(), other.violation) {
            (Some(mine), Some(theirs)) if theirs.seed < mine.seed => Some(theirs),
            (None, theirs) => theirs,
            (mine, _) => mine,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_one_seed_have_equal_histories() {
        for seed in 1..=60 {
            let first = run_seed(seed, Mode::Single);
            assert_eq!(first, run_seed(seed, Mode::Single));
            let (kept, events) = replay(&Arc::new(Plan::from_seed(seed, Mode::Single)));
            assert_eq!((kept, events.is_empty()), (first, false), "keeping the events changes nothing");
        }
    }

    #[test]
    fn seeds_differ_and_no_seed_breaks_a_promise() {
        let batch = Batch { mode: Mode::Single, first: 1, seeds: 200, threads: 2 };
        let summary = run(batch, || false, |_| {});
        assert_eq!(summary.violation, None);
        assert_eq!(summary.seeds, 200);
        assert!(summary.grants.values().sum::<u64>() > 1_000 && summary.faults.len() > 15, "{summary:?}");
        assert_ne!(run_seed(1, Mode::Single).hash, run_seed(2, Mode::Single).hash);
    }
}
