//! `cargo x verify`: runs the checks of every change, in minutes. `cargo x verify --all` runs all checks, as CI does.
//!
//! Invariant: the verb changes no file of the checkout, and reports each check that this machine cannot run.

mod dependencies;
mod oldest_rust;

use anyhow::{Result, bail};

use super::{
    alerts, counts, fleets, fuzz, interleave, interop, mutants, package, page, sim, test, tidy, valkey,
};
use crate::shell::{Done, Part, cargo, run as run_command, summary};

/// The mutants that CI tries after the tests have passed, one of the engine and one of the wire, since each crate is a
/// build more. `cargo x hunt` tries all mutants.
pub(super) const CHOICE_OF_MUTANTS: [&str; 3] =
    ["--passed", "a second waiter does not see the record", "a call that may have run is sent again"];
/// The number of schedules of each kind in each scenario of the interleavings.
const SCHEDULES_SHARE: &str = "2000";
/// The inputs of each fuzz target, which are the same each time. `cargo x hunt` searches on.
const FUZZ_SHARE: [&str; 2] = ["--runs", "20000"];
/// The combinations of features that the check builds.
const CHOICES: [&str; 8] =
    ["", "redis", "embedded", "blocking,macros", "config", "config,redis", "tracing", "metrics"];

/// The name of the tests, which have several parts.
const TESTS: &str = "tests";
/// The argument that asks for all checks.
const ALL: &str = "--all";

/// A part: its name and its work.
type Check = (&'static str, fn() -> Result<Done>);

const BEFORE_TESTS: [Check; 3] = [
    ("tidy", || fully(tidy::run(&[]))),
    ("format", || fully(run_command(&mut cargo(&["fmt", "--all", "--check"])?))),
    ("clippy", || fully(clippy())),
];
const AFTER_TESTS: [Check; 1] = [("documentation", || fully(documentation()))];
/// The checks that take long or need much: CI runs them, and a change when they concern it.
const IN_CI: [Check; 15] = [
    ("counts", || fully(counts::run(&[]))),
    ("model check", || fully(test::model_check(test::Depth::Share))),
    ("valkey", valkey::run_or_skip),
    ("alerts", alerts::run_or_skip),
    ("page", || page::run_or_skip(&[])),
    ("interop", || interop::run_or_skip(&[])),
    ("features", || fully(each_feature())),
    ("simulation", || fully(sim::run(&[]))),
    ("fleets", fleets::run_share),
    ("mutants", || fully(mutants::run(&CHOICE_OF_MUTANTS.map(str::to_owned)))),
    ("interleavings", || fully(interleave::run(&[SCHEDULES_SHARE.to_owned()]))),
    ("fuzzing", || fully(fuzz::run(&FUZZ_SHARE.map(str::to_owned)))),
    ("oldest-rust", oldest_rust::check),
    ("dependencies", dependencies::check),
    ("packages", package::check),
];

/// Runs the checks of every change, or all checks with `--all`. It goes on after a failure so that one run shows
/// everything.
///
/// `cargo x verify tidy dependencies` runs those parts alone.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let every_change = || BEFORE_TESTS.iter().chain(&AFTER_TESTS).map(|(name, _)| *name).chain([TESTS]);
    let names: Vec<&str> = every_change().chain(IN_CI.iter().map(|(name, _)| *name)).collect();
    let is_known = |argument: &&String| *argument == ALL || names.contains(&argument.as_str());
    if let Some(unknown) = arguments.iter().find(|argument| !is_known(argument)) {
        bail!("there is no part {unknown}; there are {ALL}, {}", names.join(", "));
    }
    let is_wanted = |name: &str| match arguments {
        [] => every_change().any(|part| part == name),
        _ => arguments.iter().any(|argument| argument == name || argument == ALL),
    };
    let does = |checks: &[Check]| -> Vec<Part> {
        let chosen = checks.iter().filter(|(name, _)| is_wanted(name));
        chosen.map(|(name, work)| Part::run_or_skip(name, work)).collect()
    };
    let mut parts = does(&BEFORE_TESTS);
    if is_wanted(TESTS) {
        // The same parts as `cargo x test`, so the two verbs agree.
        parts.extend(test::everything());
    }
    parts.extend(does(&AFTER_TESTS));
    parts.extend(does(&IN_CI));
    summary(&parts)
}

fn fully(outcome: Result<()>) -> Result<Done> {
    outcome.map(|()| Done::Fully)
}

fn clippy() -> Result<()> {
    let everything = ["clippy", "--locked", "--workspace", "--all-targets", "--all-features"];
    run_command(cargo(&everything)?.args(["--", "-D", "warnings"]))?;
    // The targets have `test = false`, and `--all-targets` leaves them out.
    let by_name = ["--test", "interop", "--test", "plain_peers", "--test", "page"];
    let mut named = cargo(&["clippy", "--locked", "--workspace", "--all-features"])?;
    run_command(named.args(by_name).args(["--", "-D", "warnings"]))
}

/// Checks that the library builds without features and with each choice of them, and tests the messages of the
/// attribute without the feature `blocking`.
fn each_feature() -> Result<()> {
    // The library alone, because its tests need both stores.
    let alone = ["clippy", "--locked", "-p", "leasehold", "--lib", "--no-default-features", "--features"];
    CHOICES
        .iter()
        .try_for_each(|features| run_command(cargo(&alone)?.args([features, "--", "-D", "warnings"])))?;
    // The tests of the workspace have the feature `blocking`, so they skip the messages without it.
    run_command(&mut cargo(&["test", "--locked", "-p", "leasehold-macros"])?)
}

fn documentation() -> Result<()> {
    let everything = ["doc", "--locked", "--workspace", "--all-features", "--no-deps"];
    run_command(cargo(&everything)?.env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tidy_runs_first() {
        assert_eq!(BEFORE_TESTS[0].0, "tidy");
    }

    #[test]
    fn an_unknown_part_is_an_error_that_lists_the_parts() {
        let error = run(&["tidi".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("tidi") && error.contains("tidy") && error.contains("tests"), "{error}");
    }
}
