//! `cargo x interleave`: runs of the library's threads in the orders that a scheduler chooses.
//!
//! Invariant: the same number gives the same schedules.

use anyhow::{Context, Result, ensure};

use crate::shell;

/// Runs the interleavings of callers and drivers, of the client and of its store. Builds them with the scheduler's locks in a separate target directory.
///
/// `cargo x interleave 50000` tries that many schedules of each kind in each scenario, in place of the number of CI.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.len() <= 1, "this verb takes one argument: how many schedules");
    // The optimization level of the engine's tests suffices, because the scheduler takes most of the time.
    let packages = ["-p", "leasehold", "-p", "leasehold-store", "--features", "leasehold-store/listener"];
    let mut command = shell::cargo(&["test", "--locked", "--lib", "--target-dir", "target/interleave"])?;
    command.args(packages);
    command.args(["interleavings::", "--", "--nocapture"]).env("RUSTFLAGS", "--cfg shuttle");
    if let Some(schedules) = arguments.first() {
        schedules.parse::<usize>().with_context(|| format!("{schedules:?} is not a number of schedules"))?;
        command.env("LEASEHOLD_SCHEDULES", schedules);
    }
    shell::run(&mut command)
}
