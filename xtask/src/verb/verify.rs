//! `cargo x verify`: everything that must hold before a change is good.
//!
//! Invariant: changes no file of the checkout; what cannot be checked here is said aloud.
//! Called by: `main`; `.ci/run`.

use std::process::Command;

use anyhow::Result;

use super::{fuzz, interleave, interop, mutants, sim, take_none, test, tidy};
use crate::shell::{Done, Part, cargo, output, root, run as run_command, summary};

/// The oldest Rust that builds this, as the workspace's manifest declares it.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// How long each fuzz target runs for every change.
const FUZZ_SHARE: [&str; 2] = ["--seconds", "10"];
/// The features that a user may choose.
const CHOICES: [&str; 8] =
    ["", "redis", "embedded", "redis,embedded", "blocking", "macros", "config", "config,redis"];

/// Runs all checks, the quick ones first, and goes on after a failure so that one run shows everything.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    take_none(arguments)?;
    let mut parts = vec![
        Part::of("format", || run_command(&mut cargo(&["fmt", "--all", "--check"])?)),
        Part::of("tidy", || tidy::run(&[])),
        Part::of("clippy", clippy),
    ];
    // What `cargo x test` runs, and nothing else.
    parts.extend(test::everything());
    parts.push(Part::if_possible("interop", || interop::if_possible(&[])));
    parts.push(Part::of("documentation", documentation));
    parts.push(Part::of("each feature alone", each_feature));
    parts.push(Part::of("simulation", || sim::run(&[])));
    parts.push(Part::of("mutants", || mutants::run(&[])));
    parts.push(Part::of("interleavings", || interleave::run(&[])));
    parts.push(Part::of("fuzz targets", || fuzz::run(&FUZZ_SHARE.map(str::to_owned))));
    parts.push(Part::if_possible("oldest Rust", oldest_rust));
    parts.push(Part::if_possible("dependencies", dependencies));
    summary(&parts)
}

fn clippy() -> Result<()> {
    let everything = ["clippy", "--locked", "--workspace", "--all-targets", "--all-features"];
    run_command(cargo(&everything)?.args(["--", "-D", "warnings"]))
}

/// That the library builds with no feature, and with each by itself; what the attribute says without its feature.
fn each_feature() -> Result<()> {
    // The library alone: its tests want both.
    let alone = ["clippy", "--locked", "-p", "leasehold", "--lib", "--no-default-features", "--features"];
    CHOICES
        .iter()
        .try_for_each(|features| run_command(cargo(&alone)?.args([features, "--", "-D", "warnings"])))?;
    // The tests of the workspace have the feature `blocking`, and so leave out what is said without it.
    run_command(&mut cargo(&["test", "--locked", "-p", "leasehold-macros"])?)
}

fn documentation() -> Result<()> {
    let everything = ["doc", "--locked", "--workspace", "--all-features", "--no-deps"];
    run_command(cargo(&everything)?.env("RUSTDOCFLAGS", "-D warnings"))
}

/// That the oldest Rust which the manifests declare builds everything, where it is installed.
fn oldest_rust() -> Result<Done> {
    let installed = output(Command::new("rustup").args(["toolchain", "list"])).unwrap_or_default();
    let Some(toolchain) = toolchain_of(OLDEST, &installed) else {
        let by_hand = format!("`rustup toolchain install {OLDEST} --profile minimal` brings it");
        return Ok(Done::Skipped(format!("Rust {OLDEST} is not installed; {by_hand}")));
    };
    // As `cargo +toolchain check`; the cargo that runs us is not rustup's and does not know the plus.
    let mut check = Command::new("rustup");
    check.args(["run", toolchain, "cargo", "check", "--workspace", "--locked"]).current_dir(root()?);
    run_command(&mut check)?;
    Ok(Done::Fully)
}

/// The installed toolchain of this version, which may be called `1.88-host` or `1.88.0-host`.
fn toolchain_of<'a>(version: &str, installed: &'a str) -> Option<&'a str> {
    let names = installed.lines().filter_map(|line| line.split(' ').next());
    names.into_iter().find(|name| name.strip_prefix(version).is_some_and(|rest| rest.starts_with(['-', '.'])))
}

/// Licences, advisories and sources of the dependencies, where the tool for it is installed.
fn dependencies() -> Result<Done> {
    if output(&mut cargo(&["deny", "--version"])?).is_err() {
        let reason = "cargo-deny is not installed, and building it takes longer than all else here; \
                      `cargo install --locked cargo-deny` brings it";
        return Ok(Done::Skipped(reason.to_owned()));
    }
    run_command(&mut cargo(&["deny", "--locked", "check"])?)?;
    Ok(Done::Fully)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_is_found_by_its_whole_version() {
        let installed =
            "stable-x86_64-unknown-linux-gnu (active, default)\n1.8.0-x\n1.880.0-x\n1.88.0-x (old)\n";
        assert_eq!(toolchain_of("1.88", installed), Some("1.88.0-x"));
        assert_eq!(toolchain_of("1.88", "1.88-x"), Some("1.88-x"));
        assert_eq!(toolchain_of("1.88", "stable-x\n1.95.0-x"), None);
        assert_eq!(toolchain_of("1.88", ""), None);
    }
}
