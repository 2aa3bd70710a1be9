//! `cargo x bench`: the benchmark of an uncontended lock, and `cargo x bench peers`, the comparison with other libraries.
//!
//! Invariant: the benchmark runs against the server that the tests use.

mod peers;

use anyhow::Result;

use crate::{server, shell};

/// Runs the benchmark against the first server of this machine. Arguments go to `cargo bench`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if let [first, rest @ ..] = arguments
        && first == "peers"
    {
        return peers::run(rest);
    }
    println!("server: {}", server::ensure_installed()?);
    shell::run(shell::cargo(&["bench", "-p", "leasehold", "--bench", "uncontended"])?.args(arguments))
}
