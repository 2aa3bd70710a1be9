//! `cargo x fix`: what can be repaired without thinking.
//!
//! Invariant: only what a tool is certain of is changed, and nothing is committed.
//! Called by: `main`.

use anyhow::Result;

use super::take_none;
use crate::shell;

/// Applies what clippy suggests with certainty, then formats. The working tree may hold other changes.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    take_none(arguments)?;
    let everything = ["--workspace", "--all-targets", "--all-features"];
    let anyway = ["--allow-dirty", "--allow-staged"];
    shell::run(shell::cargo(&["clippy", "--fix"])?.args(anyway).args(everything))?;
    shell::run(&mut shell::cargo(&["fmt", "--all"])?)
}
