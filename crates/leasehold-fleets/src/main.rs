//! The program: the campaign, and the workers that it starts from the same binary.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use leasehold_fleets::campaign::{self, Plan};
use leasehold_fleets::worker;

/// Injects random faults into real fleets and judges the locks from outside.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    plan: Plan,
}

#[derive(Subcommand)]
enum Part {
    /// Takes locks until the standard input ends (the campaign starts it).
    Worker(worker::Options),
}

fn main() -> ExitCode {
    let Arguments { part, plan } = Arguments::parse();
    let outcome = match part {
        Some(Part::Worker(options)) => worker::run(&options).map(|()| true),
        None => campaign::run(&plan),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stderr, reason = "the program's own errors")]
fn report(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
