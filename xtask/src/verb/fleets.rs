//! `cargo x fleets`: random faults against real fleets of servers, with workers in processes of their own and a judge.
//!
//! Invariant: a broken promise of a tier is an error, and so is a laboratory that shows no double grant without
//! confirmation.

use anyhow::Result;

use crate::shell::Done;
use crate::{private_network, server, shell};

/// The share of every change: some faults of each fleet, from a fixed seed.
const SHARE: [&str; 4] = ["--minutes", "5", "--seed", "1"];

/// Runs the share of every change. Takes `--minutes`, `--seed`, `--topology`, `--faults`, `--secured`,
/// `--workers` and `--logs`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let share = SHARE.map(str::to_owned);
    endure(if arguments.is_empty() { &share } else { arguments }).map(drop)
}

/// Runs the share of every change, apart from lost packets if this machine cannot lose some.
pub(super) fn run_share() -> Result<Done> {
    endure(&SHARE.map(str::to_owned))
}

fn endure(arguments: &[String]) -> Result<Done> {
    println!("server: {}", server::ensure_installed()?);
    // The build may fetch crates, which the network of the laboratory cannot.
    shell::run(&mut shell::cargo(&["build", "--locked", "--quiet", "-p", "leasehold-fleets"])?)?;
    let mut laboratory = shell::cargo(&["run", "--locked", "--quiet", "-p", "leasehold-fleets", "--"])?;
    laboratory.args(arguments);
    match private_network::command(&laboratory) {
        Ok(mut private) => shell::run(&mut private).map(|()| Done::Fully),
        Err(reason) => {
            let reason = format!("no packets were lost: {reason:#}");
            println!("{reason}");
            shell::run(&mut laboratory).map(|()| Done::Except(reason))
        }
    }
}
