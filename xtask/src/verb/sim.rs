//! `cargo x sim`: runs the simulator on a fixed number of seeds in each mode, and checks that a seed repeats itself.
//!
//! Invariant: a broken promise is an error, and so is a seed whose two runs differ. Without an argument the seeds are
//! the same everywhere, so a new failure comes from the change under test.

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, run as run_command};

/// The modes, each with its number of seeds that run twice, its number of seeds for every change, and its tenths of a
/// given time. The share takes two minutes on two slow cores, of the time that a change waits; `cargo x hunt` runs more.
const MODES: [(&str, &str, &str, u64); 4] = [
    ("single", "200", "2500", 5),
    ("quorum", "100", "500", 1),
    ("fleet", "100", "900", 2),
    ("election", "50", "1000", 2),
];

/// Runs the share of every change, some two minutes. `--minutes n` runs as many seeds as fit into that time.
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
    let program = ["run", "--locked", "--profile", "sim", "--quiet", "-p", "leasehold-sim", "--"];
    run_command(cargo(&program)?.args(arguments))
}
