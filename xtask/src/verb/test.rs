//! `cargo x test`: runs all tests, against a real server.
//!
//! Invariant: without arguments every test runs, and a missing server is installed or is an error.

use anyhow::Result;

use crate::server;
use crate::shell::{Part, cargo, run as run_command, summary};

/// The tests of the model check.
const MODEL: &str = "model::";
/// The test programs of the model check, each with its package: the plain lock over the engine alone, and the family
/// over engines and databases.
const MODELS: [[&str; 2]; 2] = [["leasehold-proto", "engine"], ["leasehold-sim", "models"]];
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// Finds or installs a server, then runs the tests and prints the time of each part.
///
/// Without arguments it runs all tests, doc tests included. Arguments go to `cargo test`, as in
/// `cargo x test -p leasehold-proto -- lease`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if arguments.is_empty() {
        return summary(&everything());
    }
    let mut parts = vec![find_server()];
    if parts[0].passed() {
        parts.push(Part::run("tests", || run_command(cargo(&chosen(arguments))?.args(arguments))));
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

/// Runs all tests: finds the server, compiles, runs the tests and the examples of the documentation.
///
/// This is the whole of `cargo x test` without arguments, and the test part of `cargo x verify`.
pub(crate) fn everything() -> Vec<Part> {
    let test = |more: &[&str]| run_command(cargo(&["test", "--locked"])?.args(EVERYTHING).args(more));
    let mut parts = vec![find_server()];
    if parts[0].passed() {
        parts.push(Part::run("compile tests", || test(&["--no-run"])));
    }
    if parts.iter().all(Part::passed) {
        // The targets of `cargo test` without the doc tests, whose time has a line of its own.
        let targets = ["--lib", "--bins", "--tests", "--examples", "--no-fail-fast", "--", "--skip", MODEL];
        parts.push(Part::run("tests", || test(&targets)));
        // The model check has a part of its own, because it prints the number of explored states.
        parts.push(Part::run("model check", || MODELS.iter().try_for_each(run_model)));
        parts.push(Part::run("doc tests", || test(&["--doc", "--no-fail-fast"])));
    }
    parts
}

/// Runs one package's model checks, one after the other, because each uses all cores.
fn run_model([package, target]: &[&str; 2]) -> Result<()> {
    let model = ["test", "--locked", "-p", package, "--test", target, MODEL];
    run_command(cargo(&model)?.args(["--", "--nocapture", "--test-threads", "1"]))
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
    fn a_chosen_package_replaces_the_workspace() {
        assert_eq!(chosen_for("-p leasehold-proto"), "test --all-features");
        assert_eq!(chosen_for("--package=leasehold"), "test --all-features");
        assert_eq!(chosen_for("--test lock -- -p"), "test --workspace --all-features");
    }
}
