//! `cargo x page`: the page of `leasehold dashboard` in a headless Chromium.
//!
//! Invariant: the page is tested by a browser that people use, or not at all.

use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::{self, ThisMachine};
use crate::shell::{Done, cargo, output, run as run_command};

/// The program, and its Debian package.
const CHROMIUM: &str = "chromium";

/// Runs the tests, with Chromium installed first if necessary. Arguments go to the test program.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    run_or_skip(arguments)?.unless_skipped()
}

/// Runs the tests if Chromium is installed or can be.
pub(crate) fn run_or_skip(arguments: &[String]) -> Result<Done> {
    if let Err(error) = ensure_installed() {
        return Ok(Done::Skipped(format!("{error:#}")));
    }
    // As the other tests are built, so that nothing is built twice.
    let mut tests = cargo(&["test", "--locked", "--workspace", "--all-features", "--test", "page", "--"])?;
    run_command(tests.args(arguments))?;
    Ok(Done::Fully)
}

fn ensure_installed() -> Result<()> {
    let version = || output(Command::new(CHROMIUM).arg("--version"));
    if version().is_ok() {
        return Ok(());
    }
    println!("no {CHROMIUM} on PATH: installing it");
    apt::install(&ThisMachine, &[CHROMIUM]).with_context(|| format!("{CHROMIUM} is not installed"))?;
    version().map(drop).with_context(|| format!("{CHROMIUM} was installed, and does not run"))
}
