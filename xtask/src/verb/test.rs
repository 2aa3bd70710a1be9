//! `cargo x test`: runs all tests, against a real server.
//!
//! Invariant: without arguments every test runs, and a missing server is installed or is an error.

use std::env;
use std::ffi::OsString;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::Result;

use crate::server;
use crate::shell::{Part, cargo, run as run_command, run_tests, summary};

/// The tests of the model check.
const MODEL: &str = "model::";
/// Those of them that take minutes each.
const DEEP: &str = "model::deep_";
/// The variable that says how many tests of one program run at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// The tests that run at once, per core. They spend most of their time on leases, pauses and replies: with one test per
/// core, two cores have a load of 0.5. Three leave room for the few that compute.
const THREADS_PER_CORE: usize = 3;
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];
/// The targets of `cargo test` without the doc tests, whose time has a line of its own.
const PROGRAMS: [&str; 4] = ["--lib", "--bins", "--tests", "--examples"];

/// Finds or installs a server, then runs the tests and prints the time of each part.
///
/// Without arguments it runs all tests, doc tests included. Arguments go to `cargo test`, as in
/// `cargo x test -p leasehold-proto -- lease`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if arguments.is_empty() {
        let mut parts = everything();
        if parts.iter().all(Part::passed) {
            parts.push(Part::run("model check", || model_check(Depth::Full)));
        }
        return summary(&parts);
    }
    let mut parts = vec![find_server()];
    if parts[0].passed() {
        parts.push(Part::run("tests", || run_command(at_once(cargo(&chosen(arguments))?.args(arguments)))));
    }
    summary(&parts)
}

/// Finds the server, as a part of a run.
fn find_server() -> Part {
    Part::run("server", || {
        println!("{}", server::ensure_installed()?);
        Ok(())
    })
}

/// Runs all tests but the model check: finds the server, compiles, runs the tests and the examples of the
/// documentation.
///
/// This is `cargo x test` without arguments and without its last part, and the test part of `cargo x verify`.
pub(crate) fn everything() -> Vec<Part> {
    let command = |more: &[&str]| -> Result<Command> {
        let mut command = cargo(&["test", "--locked"])?;
        command.args(EVERYTHING).args(more);
        Ok(command)
    };
    let test = |more: &[&str]| run_command(&mut command(more)?);
    let mut parts = vec![find_server()];
    if parts[0].passed() {
        parts.push(Part::run("compile tests", || test(&["--no-run"])));
    }
    if parts.iter().all(Part::passed) {
        let targets = [&PROGRAMS[..], &["--no-fail-fast", "--", "--skip", MODEL]].concat();
        parts.push(Part::run("tests", || run_tests(at_once(&mut command(&targets)?))));
        parts.push(Part::run("doc tests", || test(&["--doc", "--no-fail-fast"])));
    }
    parts
}

/// Sets the number of tests that run at once.
fn at_once(command: &mut Command) -> &mut Command {
    let cores = available_parallelism().map_or(1, usize::from);
    command.env(THREADS, threads(env::var_os(THREADS), cores))
}

/// Returns the number of tests that run at once: the caller's, or [`THREADS_PER_CORE`] for each core.
fn threads(of_caller: Option<OsString>, cores: usize) -> OsString {
    of_caller.unwrap_or_else(|| (THREADS_PER_CORE * cores).to_string().into())
}

/// The model checks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Without those that take minutes each.
    Share,
    Full,
}

/// Runs the model checks, which print the number of explored states, one after the other, because each uses all cores.
pub(crate) fn model_check(depth: Depth) -> Result<()> {
    let mut command = named(&[MODEL])?;
    command.args(["--nocapture", "--test-threads", "1"]);
    if depth == Depth::Share {
        println!("left out: {DEEP}.., which `cargo x test` and `cargo x hunt` run");
        command.args(["--skip", DEEP]);
    }
    run_command(&mut command)
}

/// Returns the command for all tests of the workspace that have one of these texts in their names. Further words are
/// arguments of the tests. It selects every program, as the test part does, because cargo builds dependencies again for
/// another selection.
pub(super) fn named(parts: &[&str]) -> Result<Command> {
    let mut command = cargo(&["test", "--locked"])?;
    command.args(EVERYTHING).args(PROGRAMS).arg("--").args(parts);
    at_once(&mut command);
    Ok(command)
}

/// Returns the first words of the command for chosen tests. A chosen package replaces the whole workspace.
fn chosen(arguments: &[String]) -> Vec<&'static str> {
    let own = arguments.iter().take_while(|argument| *argument != "--");
    let names_package =
        own.into_iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package"));
    if names_package { vec!["test", "--all-features"] } else { [&["test"], &EVERYTHING[..]].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen_for(line: &str) -> String {
        chosen(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn three_tests_run_per_core_unless_the_caller_overrides_it() {
        assert_eq!(threads(None, 2), "6");
        assert_eq!(threads(Some("1".into()), 2), "1");
    }

    #[test]
    fn a_chosen_package_replaces_the_workspace() {
        assert_eq!(chosen_for("-p leasehold-proto"), "test --all-features");
        assert_eq!(chosen_for("--package=leasehold"), "test --all-features");
        assert_eq!(chosen_for("--test lock -- -p"), "test --workspace --all-features");
    }
}
