//! `cargo x bench`: the benchmark of an uncontended lock, `cargo x bench peers`, the comparison with other libraries, and
//! `cargo x bench build`, the cost of building a program that uses the library.
//!
//! Invariant: the benchmark runs against the server that the tests use.

mod cold_build;
mod peers;

use anyhow::Result;

use crate::{server, shell};

/// Runs the benchmark against the first server of this machine. Arguments go to `cargo bench`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [first, rest @ ..] if first == "peers" => return peers::run(rest),
        [only] if only == "build" => return cold_build::run(),
        _ => {}
    }
    println!("server: {}", server::ensure_installed()?);
    shell::run(shell::cargo(&["bench", "-p", "leasehold", "--bench", "uncontended"])?.args(arguments))
}
