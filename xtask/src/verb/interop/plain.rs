//! `cargo x interop plain`: the plain lock beside libraries in other languages, each in a process of its own.
//!
//! Invariant: a peer runs the version that its lock file pins, or its tests do not run.

mod peers;
mod table;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};

use crate::apt::{self, ThisMachine};
use crate::server;
use crate::shell::{Done, cargo, on_ci, run as run_command};
use crate::toolchains::{Language, Profile, Workshop};
use peers::Peer;

/// The argument that adds the peers that CI leaves out, and makes the crowds longer.
const ALL: &str = "--all";
/// The duration of a crowd with [`ALL`], in seconds.
const LONG_CROWD: &str = "60";

/// The variables that say to the tests how to start the peers, where to write, and how long a crowd lasts.
const PROGRAMS: &str = "LEASEHOLD_PLAIN_PEERS";
const REPORT: &str = "LEASEHOLD_PLAIN_REPORT";
const SECONDS: &str = "LEASEHOLD_PLAIN_SECONDS";

/// Builds the peers and runs the tests with them, if the machine has their languages. On CI it installs these first.
/// Arguments after `--all` go to the test program, as in `cargo x interop plain redsync::`.
pub(super) fn run_or_skip(arguments: &[String]) -> Result<Done> {
    let (all, words) = match arguments {
        [first, rest @ ..] if first == ALL => (true, rest),
        _ => (false, arguments),
    };
    let chosen: Vec<&Peer> = peers::ALL.iter().filter(|peer| all || peer.in_ci).collect();
    let languages: BTreeSet<Language> = chosen.iter().map(|peer| peer.language).collect();
    if let Some(reason) = install_missing(&languages) {
        return Ok(Done::Skipped(reason));
    }
    server::ensure_installed()?;
    let workshop = Workshop::new("interop/plain", "plain-peers", Profile::Dev)?;
    for language in languages {
        println!("building the peers in {}", language.name());
        workshop.build(language)?;
    }
    let outcome = run_tests(&workshop, &chosen, all, words);
    let table = table::write(&workshop, &chosen)?;
    println!("\n{table}");
    outcome.map(|()| Done::Fully)
}

/// Returns the reason why a language cannot be used, after an attempt to install it on CI.
fn install_missing(languages: &BTreeSet<Language>) -> Option<String> {
    let mut missing: Vec<Language> =
        languages.iter().copied().filter(|language| !language.is_installed()).collect();
    if missing.is_empty() {
        return None;
    }
    let reason = reason(&missing);
    if !on_ci() {
        return Some(reason);
    }
    println!("{reason}");
    let packages: Vec<&str> = missing.iter().flat_map(|language| language.packages()).copied().collect();
    if let Err(error) = apt::install(&ThisMachine, &packages) {
        return Some(format!("{reason}, and installing them failed: {error:#}"));
    }
    missing.retain(|language| !language.is_installed());
    (!missing.is_empty()).then_some(reason)
}

/// Names the languages and the packages that bring them.
fn reason(missing: &[Language]) -> String {
    let names: Vec<&str> = missing.iter().map(|language| language.name()).collect();
    let packages: Vec<&str> = missing.iter().flat_map(|language| language.packages()).copied().collect();
    let (names, packages) = (names.join(", "), packages.join(" "));
    format!(
        "the peers in {names} need tools that are missing; on Debian `apt-get install {packages}` brings them"
    )
}

fn run_tests(workshop: &Workshop, chosen: &[&Peer], all: bool, words: &[String]) -> Result<()> {
    let rows = table::folder(workshop);
    // The rows of an earlier run are none of this run.
    if rows.is_dir() {
        fs::remove_dir_all(&rows)?;
    }
    fs::create_dir_all(&rows)?;
    let programs = chosen.iter().map(|peer| peer.line(workshop)).collect::<Result<Vec<String>>>()?;
    let tests = ["test", "--locked", "--workspace", "--all-features", "--test", "plain_peers", "--"];
    let mut command = cargo(&tests)?;
    command.args(words).env(PROGRAMS, programs.join("\n")).env(REPORT, &rows);
    // More threads than processors wait for peers that sleep.
    command.env("RUST_TEST_THREADS", "4");
    if all {
        command.arg("--include-ignored").env(SECONDS, LONG_CROWD);
    }
    run_command(&mut command).context("the peers of the plain lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_languages_are_named_with_their_packages() {
        let reason = reason(&[Language::Go, Language::Node]);
        assert!(
            reason.contains("Go, Node") && reason.contains("apt-get install golang nodejs npm"),
            "{reason}"
        );
    }
}
