//! `cargo x bench`: the benchmarks of the library.
//!
//! Invariant: benchmarks run against the server that the tests use.

use anyhow::Result;

use crate::{server, shell};

/// Runs the benchmarks against the first server of this machine. Arguments go to `cargo bench`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    println!("server: {}", server::ensure_installed()?);
    shell::run(shell::cargo(&["bench", "-p", "leasehold"])?.args(arguments))
}
