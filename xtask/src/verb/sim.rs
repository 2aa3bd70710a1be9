//! `cargo x sim`: the simulator, for a fixed share of seeds in each mode, and the check that a seed repeats itself.
//!
//! Invariant: any broken promise, and any seed whose two runs differ, is an error. Without an argument the seeds are the
//! same everywhere, so a change is judged by what it changed.
//! Called by: `main`; `verify`.

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, run as run_command};

/// The modes: how many seeds are run twice in each, how many are the share of every change, and its tenths of a time.
const MODES: [(&str, &str, &str, u64); 3] =
    [("fast", "200", "20000", 5), ("full", "20", "400", 4), ("quorum", "100", "2000", 1)];

/// Without arguments the share of every change, some three minutes; `--minutes n` is as many seeds as fit into that time.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let minutes: Option<u64> = match arguments {
        [] => None,
        [flag, minutes] if flag == "--minutes" => Some(minutes.parse().context("--minutes takes a number")?),
        _ => bail!("this verb takes --minutes and a number, and was given {}", arguments.join(" ")),
    };
    for (mode, twice, ..) in MODES {
        simulate(&["--mode", mode, "--seeds", twice, "--twice"])?;
    }
    for (mode, _, seeds, tenths) in MODES {
        match minutes {
            None => simulate(&["--mode", mode, "--seeds", seeds])?,
            Some(minutes) => {
                let seconds = (minutes * 60 * tenths / 10).to_string();
                simulate(&["--mode", mode, "--endless", "--seconds", &seconds])?;
            }
        }
    }
    Ok(())
}

fn simulate(arguments: &[&str]) -> Result<()> {
    let program = ["run", "--locked", "--release", "--quiet", "-p", "leasehold-sim", "--"];
    run_command(cargo(&program)?.args(arguments))
}
