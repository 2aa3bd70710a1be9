//! `cargo x sim`: the simulator, for a fixed share of time in each mode, and the check that a seed repeats itself.
//!
//! Invariant: any broken promise, and any seed whose two runs differ, is an error.
//! Called by: `main`; `verify`.

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, run as run_command};

/// How long it runs unless it is told otherwise: the share of every change.
const MINUTES: u64 = 10;
/// The modes: how many seeds are run twice in each, and its tenths of the time.
const MODES: [(&str, &str, u64); 3] = [("fast", "200", 5), ("full", "20", 4), ("quorum", "100", 1)];

/// Takes `--minutes n`, of which each mode has its share.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let minutes = match arguments {
        [] => MINUTES,
        [flag, minutes] if flag == "--minutes" => minutes.parse().context("--minutes takes a number")?,
        _ => bail!("this verb takes --minutes and a number, and was given {}", arguments.join(" ")),
    };
    for (mode, seeds, _) in MODES {
        simulate(&["--mode", mode, "--seeds", seeds, "--twice"])?;
    }
    for (mode, _, tenths) in MODES {
        let seconds = (minutes * 60 * tenths / 10).to_string();
        simulate(&["--mode", mode, "--endless", "--seconds", &seconds])?;
    }
    Ok(())
}

fn simulate(arguments: &[&str]) -> Result<()> {
    let program = ["run", "--locked", "--release", "--quiet", "-p", "leasehold-sim", "--"];
    run_command(cargo(&program)?.args(arguments))
}
