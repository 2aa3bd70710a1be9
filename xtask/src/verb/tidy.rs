//! `cargo x tidy`: checks the repository's own rules, which no compiler checks.
//!
//! Invariant: the verb reads the checkout and changes nothing.

use anyhow::{Result, bail, ensure};

use crate::tidy;

/// Prints every finding. Fails if there is one.
///
/// `cargo x tidy --voice` also prints the figures of the prose, per crate and page.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let prints_voice = match arguments {
        [] => false,
        [option] if option == "--voice" => true,
        _ => bail!("this verb takes --voice or nothing, and was given {}", arguments.join(" ")),
    };
    let report = tidy::check()?;
    if prints_voice {
        println!("{}", report.voice.join("\n"));
    }
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
        assert!(run(&["--vioce".to_owned()]).unwrap_err().to_string().contains("--voice"));
    }
}
