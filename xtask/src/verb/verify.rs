//! `cargo x verify`: everything that must hold before a change is good.
//!
//! Invariant: changes no file of the checkout; what cannot be checked here is said aloud.
//! Called by: `main`; `.ci/run`.

mod dependencies;
mod oldest_rust;

use anyhow::Result;

use super::{fuzz, interleave, interop, mutants, package, sim, take_none, test, tidy};
use crate::shell::{Part, cargo, run as run_command, summary};

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
    parts.push(Part::if_possible("oldest Rust", oldest_rust::check));
    parts.push(Part::if_possible("dependencies", dependencies::check));
    parts.push(Part::if_possible("packages", package::check));
    summary(&parts)
}

fn clippy() -> Result<()> {
    let everything = ["clippy", "--locked", "--workspace", "--all-targets", "--all-features"];
    run_command(cargo(&everything)?.args(["--", "-D", "warnings"]))?;
    // A target that `cargo test` leaves out is none of all targets.
    let interop = ["clippy", "--locked", "-p", "leasehold", "--all-features", "--test", "interop"];
    run_command(cargo(&interop)?.args(["--", "-D", "warnings"]))
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
