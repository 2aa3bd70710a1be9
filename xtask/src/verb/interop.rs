//! `cargo x interop`: the library and the real Redisson on the same locks, and `cargo x interop plain`, the plain lock
//! beside other libraries.
//!
//! Invariant: the tests run against a jar of the current sources, or not at all.

mod plain;

use anyhow::Result;

use crate::apt::{self, ThisMachine};
use crate::interop::{PACKAGES, class_path, missing};
use crate::server;
use crate::shell::{Done, cargo, on_ci, run as run_command};

/// The variable that gives the tests the class path of the Java process.
const CLASS_PATH: &str = "LEASEHOLD_INTEROP_CLASS_PATH";
/// The variable that gives the tests the release of Redisson.
const RELEASE: &str = "LEASEHOLD_INTEROP_RELEASE";

/// The release that all tests run with.
const NEWEST: &str = "4.7.0";
/// The older releases that run for every change, with [`SHARED`]. Waiters of releases before 3.28.0 can miss a message
/// (redisson/redisson#5761).
const OLDER: [&str; 2] = ["3.28.0", "3.50.0"];
/// The other releases of `--all`.
const OTHERS: [&str; 5] = ["3.16.8", "3.20.1", "3.37.0", "3.45.1", "4.0.0"];
/// The tests of features that every release has, on a plain server, because the releases differ in their scripts.
const SHARED: [&str; 7] = [
    "fair::plain::",
    "fair_order::plain::",
    "lock::plain::",
    "read_write::plain::",
    "expirable::plain::",
    "semaphore::plain::",
    "latch::plain::",
];

/// The tests of features that came with a release of Redisson. They do not run with an older release.
const SINCE: [((u32, u32), &str); 15] = [
    // The Java program's crowds of clients use fenced locks.
    ((3, 19), "lose_no_count"),
    ((3, 19), "readers_and_writers_of_both_sides_exclude_each_other"),
    ((3, 19), "a_java_downgrade_admits_rust_readers_within_one_lease"),
    // Requests for several permits, and a read lock that reports itself locked while a writer reads.
    ((3, 27), "expirable::"),
    ((3, 27), "a_rust_downgrade_wakes_java_readers"),
    ((3, 27), "a_rust_upgrade_waits_for_java_readers_and_then_excludes_java"),
    ((3, 29), "permits_set_with_an_expiry_expire_for_both_sides"),
    // Threads of earlier versions that begin to wait at once can fail with "Unable to acquire subscription lock", probably by a
    // race within the Java client (redisson/redisson#6047).
    ((3, 34), "java_threads_and_"),
    ((3, 41), "java_reads_and_changes_the_lease_of_a_rust_permit"),
    ((3, 41), "rust_reads_and_changes_the_lease_of_a_java_permit"),
    ((3, 41), "the_watchdog_renews_permits_against_java_for_several_leases"),
    ((3, 44), "a_rust_forced_unlock_of_either_side_wakes_java"),
    ((4, 0), "both_sides_see_one_number_of_permits"),
    // Java threads of earlier versions that wait for several permits need one message per permit, also when a Java
    // client releases them.
    ((4, 0), "multiple_permits_are_handed_over_in_both_directions"),
    ((4, 4), "javas_non_reentrant_lock_is_handed_over_in_both_directions"),
];

/// Returns the tests that the test program skips with a release.
fn left_out(release: &str) -> Vec<&'static str> {
    let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let release = (next(), next());
    let missing = SINCE.iter().filter(|(since, _)| release < *since);
    missing.flat_map(|(_, test)| ["--skip", *test]).collect()
}

/// Runs the tests with Redisson, then those of the plain lock's peers. `--all` runs every release and every peer, and
/// `plain` the peers alone. Other arguments go to the test program of Redisson, as in `cargo x interop lock::`, and
/// `--redisson 3.50.0` before them chooses a release.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    run_or_skip(arguments)?.unless_skipped()
}

/// Runs the tests whose languages the machine has. A language that is missing skips its part, and the other part runs
/// nevertheless.
pub(crate) fn run_or_skip(arguments: &[String]) -> Result<Done> {
    match arguments {
        [first, rest @ ..] if first == "plain" => return plain::run_or_skip(rest),
        [] => {}
        [only] if only == "--all" => {}
        _ => return redisson_or_skip(arguments),
    }
    let parts = [redisson_or_skip(arguments)?, plain::run_or_skip(arguments)?];
    let skipped: Vec<String> = parts.into_iter().filter_map(Done::skipped).collect();
    Ok(if skipped.is_empty() { Done::Fully } else { Done::Skipped(skipped.join("; ")) })
}

/// Builds the Java process and runs the tests with it, if the machine has Java. On CI it installs Java first. Without
/// arguments it runs all tests with the newest release, and [`SHARED`] with two older releases.
fn redisson_or_skip(arguments: &[String]) -> Result<Done> {
    if let Some(reason) = missing(&ThisMachine) {
        if !on_ci() {
            return Ok(Done::Skipped(reason));
        }
        println!("{reason}");
        if let Err(error) = apt::install(&ThisMachine, &PACKAGES) {
            return Ok(Done::Skipped(format!("{reason}, and installing it failed: {error:#}")));
        }
        if let Some(reason) = missing(&ThisMachine) {
            return Ok(Done::Skipped(reason));
        }
    }
    server::ensure_installed()?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => run_releases(&OLDER)?,
        ["--all"] => run_releases(&[&OLDER[..], &OTHERS].concat())?,
        ["--redisson", release, ref rest @ ..] => run_with(release, rest)?,
        ref rest => run_with(NEWEST, rest)?,
    }
    Ok(Done::Fully)
}

/// Runs all tests with the newest release, then the tests of [`SHARED`] with the older releases.
fn run_releases(older: &[&str]) -> Result<()> {
    run_with(NEWEST, &[])?;
    older.iter().try_for_each(|release| run_with(release, &SHARED))
}

/// Runs the tests that these words choose with a release.
fn run_with(release: &str, words: &[&str]) -> Result<()> {
    let class_path = class_path(release)?;
    println!("interop with Redisson {release}");
    let tests = ["test", "--locked", "--workspace", "--all-features", "--test", "interop", "--"];
    // More threads than processors would wait for each other and for the Java process.
    let mut command = cargo(&tests)?;
    command
        .args(words)
        .args(left_out(release))
        .env(CLASS_PATH, class_path)
        .env(RELEASE, release)
        .env("RUST_TEST_THREADS", "4");
    run_command(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redisson_release_runs_only_the_tests_that_it_supports() {
        assert!(left_out(NEWEST).is_empty());
        assert_eq!(
            left_out("4.0.0"),
            ["--skip", "javas_non_reentrant_lock_is_handed_over_in_both_directions"]
        );
        assert_eq!(left_out("3.16.8").len(), 2 * SINCE.len());
    }
}
