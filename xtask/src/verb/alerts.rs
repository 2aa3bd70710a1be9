//! `cargo x alerts`: checks the alerts of the documentation and runs their tests, with `promtool` of Prometheus.
//!
//! Invariant: the alerts are tested by the program that evaluates them, or not at all.

use std::process::Command;

use anyhow::{Context, Result};

use super::take_none;
use crate::apt::{self, ThisMachine};
use crate::shell::{Done, output, root, run as run_command};

const PROGRAM: &str = "promtool";
/// The Debian package of the program.
const PACKAGE: &str = "prometheus";
const FOLDER: &str = "docs/observability";

/// Runs the checks, with `promtool` installed first if necessary.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    take_none(arguments)?;
    run_or_skip()?.unless_skipped()
}

/// Runs the checks if `promtool` is installed or can be.
pub(crate) fn run_or_skip() -> Result<Done> {
    if let Err(error) = ensure_installed() {
        return Ok(Done::Skipped(format!("{error:#}")));
    }
    let folder = root()?.join(FOLDER);
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        run_command(Command::new(PROGRAM).args(arguments).current_dir(&folder))?;
    }
    Ok(Done::Fully)
}

fn ensure_installed() -> Result<()> {
    let version = || output(Command::new(PROGRAM).arg("--version"));
    if version().is_ok() {
        return Ok(());
    }
    println!("no {PROGRAM} on PATH: installing {PACKAGE}");
    apt::install(&ThisMachine, &[PACKAGE])
        .with_context(|| format!("{PROGRAM} is not installed; install {PACKAGE}, which has it"))?;
    version().map(drop).with_context(|| format!("{PACKAGE} was installed, and yet no {PROGRAM} is on PATH"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_alert_has_a_test_of_its_own() {
        let read = |file: &str| fs::read_to_string(root().unwrap().join(FOLDER).join(file)).unwrap();
        let (alerts, tests) = (read("alerts.yml"), read("alerts_test.yml"));
        let names: Vec<&str> =
            alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        assert!(names.len() >= 5, "{names:?}");
        for name in names {
            assert!(tests.contains(&format!("- name: {name} ")), "{name}");
            assert!(tests.contains(&format!("- alertname: {name}\n")), "{name}");
        }
    }
}
