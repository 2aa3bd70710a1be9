//! `cargo x tidy`: checks the repository's own rules, which no compiler checks.
//!
//! Invariant: the verb reads the checkout and changes nothing.

use anyhow::{Result, ensure};

use super::take_none;
use crate::tidy;

/// Prints every finding. Fails if there is one.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    take_none(arguments)?;
    let report = tidy::check()?;
    for note in &report.notes {
        println!("note: {note}");
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    ensure!(report.findings.is_empty(), "{} broken rule(s)", report.findings.len());
    println!("tidy: {} source files, nothing found", report.sources);
    Ok(())
}
