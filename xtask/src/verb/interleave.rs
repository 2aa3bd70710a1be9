//! `cargo x interleave`: the library's threads in every order that a scheduler finds.
//!
//! Invariant: the same number gives the same schedules.
//! Called by: `main`; `verify`.

use anyhow::{Context, Result, ensure};

use crate::shell;

/// Runs the interleavings of users and driver, built with the scheduler's locks in a target directory of their own.
///
/// `cargo x interleave 50000` tries so many schedules of each kind in each scenario, in place of those of CI.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.len() <= 1, "this verb takes one argument: how many schedules");
    // Optimised only as far as the tests of the engine are: most of the time goes into the scheduler.
    let test = ["test", "--locked", "-p", "leasehold", "--lib", "--target-dir", "target/interleave"];
    let mut command = shell::cargo(&test)?;
    command.args(["interleavings::", "--", "--nocapture"]).env("RUSTFLAGS", "--cfg shuttle");
    if let Some(schedules) = arguments.first() {
        schedules.parse::<usize>().with_context(|| format!("{schedules:?} is not a number of schedules"))?;
        command.env("LEASEHOLD_SCHEDULES", schedules);
    }
    shell::run(&mut command)
}
