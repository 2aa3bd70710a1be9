//! `cargo x test`: all tests, against a real server.
//!
//! Invariant: without arguments nothing is left out, and a server that is missing is installed or is an error.
//! Called by: `main`; `verify` for its test part.

use anyhow::Result;

use crate::server;
use crate::shell::{Part, cargo, run as run_command, summary};

/// The tests of the model check.
const MODEL: &str = "model::";
/// Where they are: of the plain lock over the engine alone, and of the family over engines and databases.
const MODELS: [[&str; 2]; 2] = [["leasehold-proto", "engine"], ["leasehold-sim", "models"]];
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// Finds or installs a server, then runs the tests and shows how long each part took.
///
/// Without arguments that is everything, doc tests included. Arguments go to `cargo test`, as in
/// `cargo x test -p leasehold-proto -- lease`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if arguments.is_empty() {
        return summary(&everything());
    }
    let mut parts = vec![find_server()];
    if parts[0].passed() {
        parts.push(Part::of("tests", || run_command(cargo(&chosen(arguments))?.args(arguments))));
    }
    summary(&parts)
}

/// The server, as a part of a run.
fn find_server() -> Part {
    Part::of("server", || {
        println!("{}", server::ensure_installed()?);
        Ok(())
    })
}

/// All tests: the server for them, compiled, run, and the examples in the documentation run.
///
/// This is the whole of `cargo x test` without arguments, and the test part of `cargo x verify`.
pub(crate) fn everything() -> Vec<Part> {
    let test = |more: &[&str]| run_command(cargo(&["test", "--locked"])?.args(EVERYTHING).args(more));
    let mut parts = vec![find_server()];
    if parts[0].passed() {
        parts.push(Part::of("compile tests", || test(&["--no-run"])));
    }
    if parts.iter().all(Part::passed) {
        // As `cargo test` chooses them, but without the doc tests, whose time is told apart.
        let targets = ["--lib", "--bins", "--tests", "--examples", "--no-fail-fast", "--", "--skip", MODEL];
        parts.push(Part::of("tests", || test(&targets)));
        // By itself, since it prints the states that it has explored.
        parts.push(Part::of("model check", || MODELS.iter().try_for_each(run_model)));
        parts.push(Part::of("doc tests", || test(&["--doc", "--no-fail-fast"])));
    }
    parts
}

/// One package's model checks, one after the other: each uses all cores.
fn run_model([package, target]: &[&str; 2]) -> Result<()> {
    let model = ["test", "--locked", "-p", package, "--test", target, MODEL];
    run_command(cargo(&model)?.args(["--", "--nocapture", "--test-threads", "1"]))
}

/// The beginning of the command for chosen tests; a chosen package replaces the whole workspace.
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
