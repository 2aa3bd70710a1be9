//! `cargo x fix`: the repairs that a tool can make by itself.
//!
//! Invariant: the verb makes only the changes that a tool is certain of, and commits nothing.

use anyhow::Result;

use super::take_none;
use crate::shell;

/// Applies clippy's machine-applicable suggestions, then formats. The working tree may have other changes.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    take_none(arguments)?;
    let everything = ["--workspace", "--all-targets", "--all-features"];
    let anyway = ["--allow-dirty", "--allow-staged"];
    shell::run(shell::cargo(&["clippy", "--fix"])?.args(anyway).args(everything))?;
    shell::run(&mut shell::cargo(&["fmt", "--all"])?)
}
