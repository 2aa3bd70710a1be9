//! `cargo x hunt`: the searches of `cargo x verify --all` without its shares, for nights.
//!
//! Invariant: each search that `verify` runs in part runs in full here, or for the given time.

use anyhow::{Context, Result, bail};

use super::{fuzz, interleave, mutants, sim, test};
use crate::shell::{Part, summary};

/// The default time of the simulator, and of all fuzz targets together.
const MINUTES: u64 = 60;
/// The number of fuzz targets that share that time.
const TARGETS: u64 = 7;
/// The number of schedules of each kind in each scenario of the interleavings.
const SCHEDULES: &str = "50000";

/// Checks every model, tries every mutant, then simulates and fuzzes for `--minutes` each, or an hour each by default.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let minutes = match arguments {
        [] => MINUTES,
        [flag, minutes] if flag == "--minutes" => minutes.parse().context("--minutes takes a number")?,
        _ => bail!("this verb takes --minutes and a number, and was given {}", arguments.join(" ")),
    };
    let words = |words: [&str; 2]| words.map(str::to_owned);
    let seconds = (minutes * 60 / TARGETS).to_string();
    summary(&[
        Part::run("model check", || test::model_check(test::Depth::Full)),
        Part::run("mutants", || mutants::run(&[])),
        Part::run("simulation", || sim::run(&words(["--minutes", &minutes.to_string()]))),
        Part::run("interleavings", || interleave::run(&[SCHEDULES.to_owned()])),
        Part::run("fuzzing", || fuzz::run(&words(["--seconds", &seconds]))),
    ])
}
