//! The simulator's command, which runs seeds and prints the first failure.
//!
//! Invariant: the command fails if and only if a run broke a promise or two runs of a seed differed.
#![expect(clippy::print_stdout, reason = "a command talks")]
#![expect(clippy::disallowed_methods, reason = "the command tells how long it took")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::mode::Mode;
use crate::plan::Plan;
use crate::report::{self, Report};
use crate::runner::{Batch, replay, run, run_seed};
use crate::shrink::only;
use clap::Parser;

/// Runs leasehold in simulated worlds in which everything goes wrong, and checks its promises.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The number of seeds to run.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// The world: `single` has one server, `quorum` has Redlock over three, `fleet` has sentinels or a cluster, and
    /// `election` has candidates and observers.
    #[arg(long, value_enum, default_value_t = Mode::Single)]
    mode: Mode,
    /// The number of seeds to run at once. The default is the number of processors.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Stop after this many seconds, even if seeds are left.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Continue until a promise breaks, or for `--seconds`.
    #[arg(long)]
    endless: bool,
    /// Run this one seed and print its history.
    #[arg(long)]
    seed: Option<u64>,
    /// Inject only these faults of the seed, given by their numbers, or `none`. Needs `--seed`.
    #[arg(long, requires = "seed")]
    only: Option<String>,
    /// Print only the position of the seed and the id of the broken promise.
    #[arg(long)]
    brief: bool,
    /// Run every seed twice and compare the histories.
    #[arg(long, conflicts_with_all = ["seconds", "threads", "endless"])]
    twice: bool,
}

/// Runs the command with the arguments of the program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.seed {
        Some(seed) => show(seed, &arguments),
        None if arguments.twice => compare(&arguments),
        None => search(&arguments),
    }
}

fn search(arguments: &Arguments) -> ExitCode {
    let begin = Instant::now();
    let limit = arguments.seconds.map(Duration::from_secs);
    let over = || limit.is_some_and(|limit| begin.elapsed() >= limit);
    let progress = |done: u64| {
        if done.is_multiple_of(10_000) {
            println!("{done} seeds in {:.0?}", begin.elapsed());
        }
    };
    let summary = run(batch(arguments), over, progress);
    println!("{}", Report { summary: &summary, took: begin.elapsed() });
    let Some(broken) = &summary.violation else { return ExitCode::SUCCESS };
    if let (true, Some(violation)) = (arguments.brief, &broken.violation) {
        println!("broken {} {}", broken.seed.wrapping_sub(arguments.from) + 1, violation.id);
        return ExitCode::FAILURE;
    }
    println!("{}", report::violation(broken, &Plan::from_seed(broken.seed, arguments.mode)));
    ExitCode::FAILURE
}

fn batch(arguments: &Arguments) -> Batch {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Batch {
        mode: arguments.mode,
        first: arguments.from,
        seeds: if arguments.endless { u64::MAX } else { arguments.seeds },
        threads: arguments.threads.map_or(processors, usize::from),
    }
}

fn show(seed: u64, arguments: &Arguments) -> ExitCode {
    let mut plan = Plan::from_seed(seed, arguments.mode);
    if let Some(list) = &arguments.only {
        let Some(numbers) = read_numbers(list, plan.faults.len()) else {
            println!("--only takes `none`, or numbers below {} with commas between them", plan.faults.len());
            return ExitCode::FAILURE;
        };
        plan = only(&plan, &numbers);
    }
    for fault in &plan.faults {
        println!("{fault}");
    }
    let (outcome, events) = replay(&Arc::new(plan));
    for (at, event) in &events {
        println!("{}", report::line(*at, event));
    }
    println!("history {:016x}", outcome.hash);
    let Some(violation) = outcome.violation else { return ExitCode::SUCCESS };
    println!("VIOLATION of {} at {:?}: {}", violation.id, violation.at, violation.what);
    ExitCode::FAILURE
}

fn compare(arguments: &Arguments) -> ExitCode {
    for seed in (0..arguments.seeds).map(|index| arguments.from.wrapping_add(index)) {
        let (first, second) = (run_seed(seed, arguments.mode), run_seed(seed, arguments.mode));
        if first != second {
            println!("seed {seed}: two runs differ, {:016x} and {:016x}", first.hash, second.hash);
            return ExitCode::FAILURE;
        }
    }
    println!("{} seeds, each with equal histories in two runs", arguments.seeds);
    ExitCode::SUCCESS
}

/// Parses a list of fault numbers, for a plan with `faults` faults.
fn read_numbers(list: &str, faults: usize) -> Option<Vec<usize>> {
    if list == "none" {
        return Some(Vec::new());
    }
    let number = |text: &str| text.trim().parse().ok().filter(|number| *number < faults);
    list.split(',').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_existing_faults_can_be_chosen() {
        assert_eq!(read_numbers("none", 0), Some(Vec::new()));
        assert_eq!(read_numbers("0, 2", 3), Some(vec![0, 2]));
        assert_eq!(read_numbers("3", 3), None);
        assert_eq!(read_numbers("1,x", 3), None);
    }
}
