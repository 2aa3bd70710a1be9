//! Runs of a scenario on many schedules of its threads.
//!
//! Invariant: the seed is fixed, so the same number of schedules is the same schedules.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread;
use shuttle::{Config, Runner};

/// The first seed of the schedules, the same in every run so that a failure can be repeated.
pub const SEED: u64 = 20;
/// The most priority changes in a schedule by priority. With d changes PCT reaches defects that need d + 1 steps in
/// order.
const CHANGES: usize = 3;
/// The stack of each thread, which may run a script of the embedded server. Chosen, not measured.
const STACK: usize = 0x10_0000;

/// Runs a scenario on this number of schedules of each kind, unless `LEASEHOLD_SCHEDULES` is set. Prints their number, or
/// the schedule that failed.
pub fn explore(schedules: usize, scenario: fn()) {
    let given = std::env::var("LEASEHOLD_SCHEDULES").ok().and_then(|number| number.parse().ok());
    let schedules = given.unwrap_or(schedules);
    explore_with("at random", RandomScheduler::new_from_seed(SEED, schedules), scenario);
    explore_with("by priority", PctScheduler::new_from_seed(SEED, CHANGES, schedules), scenario);
}

#[expect(clippy::print_stdout, reason = "how much was tried belongs to the result")]
fn explore_with<S: Scheduler + 'static>(way: &str, scheduler: S, scenario: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK;
    // Silences the warning that atomics are explored as if all were sequentially consistent.
    config.silence_warnings = true;
    let tried = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tried);
    let run = move || {
        count.fetch_add(1, Ordering::Relaxed);
        scenario();
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(run)));
    let tried = tried.load(Ordering::Relaxed);
    match outcome {
        Ok(_) => println!("{tried} schedules {way}"),
        Err(panic) => {
            println!("schedule {tried} {way} fails");
            resume_unwind(panic);
        }
    }
}

/// Runs users at the same time, each on a thread of its own, until all have ended.
///
/// # Panics
/// Panics if a user panics.
pub fn at_once(users: Vec<Box<dyn FnOnce() + Send>>) {
    let users: Vec<_> = users.into_iter().map(thread::spawn).collect();
    for user in users {
        user.join().expect("a user's thread ends without a panic");
    }
}
