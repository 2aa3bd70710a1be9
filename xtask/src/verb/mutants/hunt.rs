//! The hunt for one mutant: its build and the check that notices it.
//!
//! Invariant: a mutant that does not compile and a missing test are errors. Only a broken promise or a failed test
//! counts as noticed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::tree::Tree;
use crate::mutants::{Killer, Mutant};
use crate::shell::cargo;

/// The limits of the simulator's search for a mutant.
const SEEDS: &str = "10000";
const SECONDS: &str = "60";
/// The time limit of a test. A test that exceeds it has noticed its mutant, which made it hang.
const TEST_WITHIN: Duration = Duration::from_secs(90);
/// The most parts of a crate that are compiled at once, in place of the 256 of the checkout.
const OWN_UNITS: u32 = 255;
/// The interval at which the end of a test is polled.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// The evidence that a mutant was noticed.
pub(super) struct Found {
    /// The number of seeds that the simulator ran, if it noticed the mutant.
    pub(super) seed: Option<u64>,
    /// The broken promises, or the test program.
    pub(super) by: String,
    /// The duration of the hunt without the build.
    pub(super) seconds: f64,
}

/// Builds an applied mutant and runs its killer.
pub(super) fn hunt(tree: &Tree, mutant: &Mutant) -> Result<Option<Found>> {
    match &mutant.killer {
        Killer::Simulator { mode } => simulate(tree, mode),
        Killer::Test { package, target, test: name } => {
            let program = build(tree, package, target)?;
            let begin = Instant::now();
            let passed = passes(tree, &program, name)?;
            let seconds = begin.elapsed().as_secs_f64();
            Ok((!passed).then(|| Found { seed: None, by: format!("{package} {target}"), seconds }))
        }
    }
}

/// Runs the simulator until it finds a broken promise.
fn simulate(tree: &Tree, mode: &str) -> Result<Option<Found>> {
    // The dev profile optimizes the engine, the store and the simulator, so a seed takes 1.4 times as long as in a
    // release, and the build of a mutant seconds in place of minutes.
    let build = ["build", "--quiet", "--locked", "-p", "leasehold-sim", "--bin", "leasehold-sim"];
    let built = at(tree, &build)?.output().context("cannot run cargo")?;
    ensure!(built.status.success(), "it does not compile: {}", String::from_utf8_lossy(&built.stderr));
    let begin = Instant::now();
    let mut hunt = Command::new(tree.target().join("debug/leasehold-sim"));
    let hunt = hunt.args(["--mode", mode, "--seeds", SEEDS, "--seconds", SECONDS, "--brief"]).output()?;
    let printed = String::from_utf8_lossy(&hunt.stdout);
    let Some(line) = printed.lines().find_map(|line| line.strip_prefix("broken ")) else {
        ensure!(hunt.status.success(), "the simulator failed in another way: {printed}");
        return Ok(None);
    };
    let (seed, id) = line.split_once(' ').context("the simulator says the seed and the promise")?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Some(Found { seed: Some(seed.parse()?), by: id.to_owned(), seconds }))
}

/// Returns true if a killer's test passes on the tree as it is.
pub(super) fn test(tree: &Tree, killer: &Killer) -> Result<bool> {
    let Killer::Test { package, target, test } = killer else { return Ok(true) };
    passes(tree, &build(tree, package, target)?, test)
}

/// Builds a package's test program and returns its path.
fn build(tree: &Tree, package: &str, target: &str) -> Result<PathBuf> {
    let mut build = at(tree, &["test", "--no-run", "--quiet", "--locked", "--all-features", "-p", package])?;
    match target {
        "lib" => build.arg("--lib"),
        target => build.args(["--test", target]),
    };
    let built = build.args(["--message-format", "json"]).stderr(Stdio::inherit()).output()?;
    ensure!(built.status.success(), "it does not compile");
    let printed = String::from_utf8_lossy(&built.stdout);
    executable(&printed).with_context(|| format!("{package} has no test program {target}"))
}

/// Returns the program that cargo built last, by its messages. The earlier programs are programs that the tests start.
fn executable(messages: &str) -> Option<PathBuf> {
    let mut built = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"] == true;
        message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
    });
    built.next_back()
}

/// Runs one test of a program and returns true if it passes.
fn passes(tree: &Tree, program: &Path, test: &str) -> Result<bool> {
    let log = tree.target().join("test.log");
    let mut run = Command::new(program);
    run.args(["--exact", test]).current_dir(tree.path()).stdin(Stdio::null());
    run.stdout(File::create(&log)?).stderr(Stdio::null());
    let ended = within(run.spawn().context("cannot run the test")?, TEST_WITHIN)?;
    ensure!(is_there(&fs::read_to_string(&log)?), "there is no test {test}");
    Ok(ended.is_some_and(|status| status.success()))
}

/// Returns true if the test program ran exactly one test, by its first line of output.
fn is_there(printed: &str) -> bool {
    printed.lines().any(|line| line.trim() == "running 1 test")
}

/// Builds a cargo command that runs in the copy. It uses the dependencies that the checkout has built, with the same
/// flags. The finished programs lie in a folder of their own, and its own crates have a setting that separates them from
/// those of the checkout. Cargo names what it builds by its path inside the workspace, so without that setting the
/// checkout would use the crates of a mutant.
fn at(tree: &Tree, arguments: &[&str]) -> Result<Command> {
    let mut command = cargo(arguments)?;
    command.current_dir(tree.path()).env("CARGO_BUILD_BUILD_DIR", tree.build()).env("CARGO_INCREMENTAL", "1");
    command.env("CARGO_TARGET_DIR", tree.target());
    for own in tree.crates()? {
        command.args(["--config", &format!("profile.dev.package.{own}.codegen-units={OWN_UNITS}")]);
    }
    Ok(command)
}

/// Waits for the end of a program. Kills it at the limit, and then returns `None`.
fn within(mut child: Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begin.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_test_is_distinguished_from_one_that_ran() {
        assert!(is_there("\nrunning 1 test\n.\ntest result: ok. 1 passed\n"));
        assert!(!is_there("\nrunning 0 tests\n\ntest result: ok. 0 passed\n"));
        assert!(!is_there(""));
    }

    #[test]
    fn the_test_program_is_read_from_cargos_messages() {
        let messages = "{\"executable\": \"/t/leasehold\", \"profile\": {\"test\": false}}\n\
                        {\"executable\": \"/t/run-1\", \"profile\": {\"test\": true}}\n\
                        {\"reason\": \"build-finished\"}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/run-1")));
        assert_eq!(executable("{\"executable\": null}\n"), None);
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let endless = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(within(endless, Duration::from_millis(30)).unwrap().is_none());
        let quick = Command::new("true").spawn().unwrap();
        assert!(within(quick, Duration::from_secs(60)).unwrap().unwrap().success());
    }
}
