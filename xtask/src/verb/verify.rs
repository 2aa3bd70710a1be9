//! `cargo x verify`: everything that must hold before a change is good. Changes nothing.

use anyhow::Result;

use super::{take_none, test, tidy};
use crate::shell::{Part, cargo, output, run as run_command, summary};

/// Runs all checks, the quick ones first, and goes on after a failure so that one run shows everything.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    take_none(arguments)?;
    let mut parts = vec![
        Part::of("format", || run_command(&mut cargo(&["fmt", "--all", "--check"])?)),
        Part::of("tidy", || tidy::run(&[])),
        Part::of("clippy", clippy),
    ];
    let server = test::find_server();
    let has_server = server.passed();
    parts.push(server);
    if has_server {
        parts.extend(test::everything());
    }
    parts.push(Part::of("documentation", documentation));
    parts.push(Part::of("dependencies", dependencies));
    summary(&parts)
}

fn clippy() -> Result<()> {
    let everything = ["clippy", "--locked", "--workspace", "--all-targets", "--all-features"];
    run_command(cargo(&everything)?.args(["--", "-D", "warnings"]))
}

fn documentation() -> Result<()> {
    let everything = ["doc", "--locked", "--workspace", "--all-features", "--no-deps"];
    run_command(cargo(&everything)?.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Licences, advisories and sources of the dependencies, where the tool for it is installed.
fn dependencies() -> Result<()> {
    if output(&mut cargo(&["deny", "--version"])?).is_ok() {
        return run_command(&mut cargo(&["deny", "--locked", "check"])?);
    }
    println!(
        "SKIPPED: cargo-deny is not installed, and building it takes longer than all else here; \
         `cargo install --locked cargo-deny` brings it"
    );
    Ok(())
}
