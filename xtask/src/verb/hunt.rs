//! `cargo x hunt`: the searches of `cargo x verify` without its shares, for nights.
//!
//! Invariant: whatever verify tries a part of is tried in whole here, or for as long as it is told to.
//! Called by: `main`.

use anyhow::{Context, Result, bail};

use super::{fuzz, interleave, mutants, sim};
use crate::shell::{Part, summary};

/// How long the simulator runs, and all fuzz targets together, unless it is told.
const MINUTES: u64 = 60;
/// How many fuzz targets share that time.
const TARGETS: u64 = 6;
/// The schedules of each kind in each scenario of the interleavings.
const SCHEDULES: &str = "50000";

/// Tries every mutant, then simulates and fuzzes for `--minutes` each; an hour each if nothing is said.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let minutes = match arguments {
        [] => MINUTES,
        [flag, minutes] if flag == "--minutes" => minutes.parse().context("--minutes takes a number")?,
        _ => bail!("this verb takes --minutes and a number, and was given {}", arguments.join(" ")),
    };
    let words = |words: [&str; 2]| words.map(str::to_owned);
    let seconds = (minutes * 60 / TARGETS).to_string();
    summary(&[
        Part::of("mutants", || mutants::run(&[])),
        Part::of("simulation", || sim::run(&words(["--minutes", &minutes.to_string()]))),
        Part::of("interleavings", || interleave::run(&[SCHEDULES.to_owned()])),
        Part::of("fuzzing", || fuzz::run(&words(["--seconds", &seconds]))),
    ])
}
