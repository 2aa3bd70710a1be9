//! `cargo x fleets`: random faults against real fleets of servers, with workers in processes of their own and a judge.
//!
//! Invariant: a broken promise of a tier is an error, and so is a laboratory that shows no double grant without
//! confirmation.

use anyhow::Result;

use crate::{private_network, server, shell};

/// The share of every change: some faults of each fleet, from a fixed seed.
const SHARE: [&str; 4] = ["--minutes", "5", "--seed", "1"];

/// Runs the share of every change. Takes `--minutes`, `--seed`, `--topology`, `--faults`, `--secured`,
/// `--workers` and `--logs`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    println!("server: {}", server::ensure_installed()?);
    // The build may fetch crates, which the network of the laboratory cannot.
    shell::run(&mut shell::cargo(&["build", "--locked", "--quiet", "-p", "leasehold-fleets"])?)?;
    let mut laboratory = shell::cargo(&["run", "--locked", "--quiet", "-p", "leasehold-fleets", "--"])?;
    if arguments.is_empty() {
        laboratory.args(SHARE);
    }
    laboratory.args(arguments);
    match private_network::command(&laboratory) {
        Ok(mut private) => shell::run(&mut private),
        Err(reason) => {
            println!("without a private network: {reason:#}");
            shell::run(&mut laboratory)
        }
    }
}
