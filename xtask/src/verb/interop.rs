//! `cargo x interop`: the library and the real Redisson on the same locks.
//!
//! Invariant: the tests run against a jar of the present sources, or not at all.
//! Called by: `main`; `verify`.

use anyhow::{Result, bail};

use crate::interop::{install, jar, missing};
use crate::server;
use crate::server::install::ThisMachine;
use crate::shell::{Done, cargo, on_ci, run as run_command};

/// What tells the tests where the Java process is.
const VARIABLE: &str = "LEASEHOLD_INTEROP_JAR";

/// Builds the Java process and runs the tests with it; arguments go to the test program, as in `cargo x interop lock::`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match if_possible(arguments)? {
        Done::Fully | Done::Except(_) => Ok(()),
        Done::Skipped(reason) => bail!(reason),
    }
}

/// The same where there is Java; on CI it is installed if need be.
pub(crate) fn if_possible(arguments: &[String]) -> Result<Done> {
    if let Some(reason) = missing(&ThisMachine) {
        if !on_ci() {
            return Ok(Done::Skipped(reason));
        }
        println!("{reason}");
        if let Err(error) = install(&ThisMachine) {
            return Ok(Done::Skipped(format!("{reason}, and installing it failed: {error:#}")));
        }
        if let Some(reason) = missing(&ThisMachine) {
            return Ok(Done::Skipped(reason));
        }
    }
    server::ensure_installed()?;
    let jar = jar()?;
    let tests = ["test", "--locked", "-p", "leasehold", "--all-features", "--test", "interop", "--"];
    // More at once than there are processors wait for each other, and for the Java process.
    run_command(cargo(&tests)?.args(arguments).env(VARIABLE, jar).env("RUST_TEST_THREADS", "4"))?;
    Ok(Done::Fully)
}
