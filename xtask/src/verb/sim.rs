//! `cargo x sim`: the simulator, for a fixed share of time in each mode, and the check that a seed repeats itself.
//!
//! Invariant: any broken promise, and any seed whose two runs differ, is an error.
//! Called by: `main`; `verify`.

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, run as run_command};

/// How long it runs unless it is told otherwise: the share of every change.
const MINUTES: u64 = 10;
/// How many seeds are run twice, in each mode.
const TWICE: [(&str, &str); 2] = [("fast", "200"), ("full", "20")];

/// Takes `--minutes n`; half of it for each mode.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let minutes = match arguments {
        [] => MINUTES,
        [flag, minutes] if flag == "--minutes" => minutes.parse().context("--minutes takes a number")?,
        _ => bail!("this verb takes --minutes and a number, and was given {}", arguments.join(" ")),
    };
    let seconds = (minutes * 60 / 2).to_string();
    for (mode, seeds) in TWICE {
        simulate(&["--mode", mode, "--seeds", seeds, "--twice"])?;
    }
    for (mode, _) in TWICE {
        simulate(&["--mode", mode, "--endless", "--seconds", &seconds])?;
    }
    Ok(())
}

fn simulate(arguments: &[&str]) -> Result<()> {
    let program = ["run", "--locked", "--release", "--quiet", "-p", "leasehold-sim", "--"];
    run_command(cargo(&program)?.args(arguments))
}
