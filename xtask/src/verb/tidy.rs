//! `cargo x tidy`: checks the repository's own rules, which no compiler checks.
//!
//! Invariant: the verb reads the checkout and changes nothing.

use anyhow::{Result, ensure};

use crate::tidy;

/// Prints every finding. Fails if there is one.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "this verb takes no arguments, and was given {}", arguments.join(" "));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_option_is_an_error() {
        assert!(run(&["--voice".to_owned()]).unwrap_err().to_string().contains("--voice"));
    }
}
