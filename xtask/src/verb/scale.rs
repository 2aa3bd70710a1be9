//! `cargo x scale`: the client with many waiters, many holds and several processes, against a private server. `cargo x scale
//! operators`: what looking at locks costs.
//!
//! Invariant: the figures are printed and none of them is asserted, because they depend on the machine.

use anyhow::Result;

use crate::{server, shell};

/// Runs all scenarios, some ten minutes, or those that the arguments name.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    println!("server: {}", server::ensure_installed()?);
    let (bench, arguments) = match arguments {
        [first, rest @ ..] if first == "operators" => (["leasehold-cli", "--bench", "operators"], rest),
        all => (["leasehold", "--bench", "scale"], all),
    };
    shell::run(shell::cargo(&["bench", "-p"])?.args(bench).arg("--").args(arguments))
}
