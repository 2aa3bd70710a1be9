//! The cost of an uncontended lock, beside the bare round trips that it needs at least.
//!
//! First criterion measures each subject by itself. Then the subjects alternate in short rounds, and a table compares
//! them. See the README of this folder.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock, and chooses its threads itself")]
#![allow(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![allow(clippy::unwrap_used, reason = "a benchmark in which anything fails is no benchmark")]

mod support;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use support::duel;
use support::subject::{SUBJECTS, World};

/// The numbers of tasks that lock at the same time, each its own name.
const TASKS: [u32; 4] = [1, 8, 64, 512];

fn main() {
    let world = World::start();
    let mut criterion = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500))
        .configure_from_args();
    let measured = measure(&mut criterion, &world);
    criterion.final_summary();

    // Criterion skips the cases outside its filter, and so does the table.
    let given = |word: &str| std::env::args().any(|argument| argument == word);
    if given("--bench") && !given("--test") && !given("--profile-time") {
        let rounds = if given("--quick") { 5 } else { 21 };
        duel::print(&world, &measured, rounds);
    }
}

/// Runs criterion with its arguments, and returns the measured numbers of tasks.
fn measure(criterion: &mut Criterion, world: &World) -> BTreeSet<u32> {
    let measured = RefCell::new(BTreeSet::new());
    let mut group = criterion.benchmark_group("uncontended");
    for tasks in TASKS {
        // One iteration is one pair of each task, so the time is a pair's latency.
        group.throughput(Throughput::Elements(u64::from(tasks)));
        for subject in SUBJECTS {
            let id = BenchmarkId::new(subject.name().replace(' ', "-"), tasks);
            group.bench_function(id, |bencher| {
                measured.borrow_mut().insert(tasks);
                bencher.iter_custom(|pairs| world.run(subject, tasks, pairs));
            });
        }
    }
    group.finish();
    measured.into_inner()
}
