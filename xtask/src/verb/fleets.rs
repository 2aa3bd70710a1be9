//! `cargo x fleets`: random faults against real fleets of servers, with workers in processes of their own and a judge.
//!
//! Invariant: a broken promise of a tier is an error, and so is a laboratory that shows no double grant without
//! confirmation.

use std::process::Command;
use std::thread;

use anyhow::Result;

use crate::shell::Done;
use crate::{private_network, server, shell};

/// The share of every change: each fault once, from a fixed seed. The lanes run at the same time, since a fleet waits for its
/// servers most of the time. Each is a program with a network of its own.
const SHARE: [&str; 4] = ["--rounds", "1", "--seed", "1"];
const LANES: [&str; 2] = ["sentinel", "cluster,independent,single"];

/// Runs the share of every change. Takes `--minutes` or `--rounds`, `--seed`, `--topology`, `--faults`, `--secured`,
/// `--workers` and `--logs`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if arguments.is_empty() {
        return run_share().map(drop);
    }
    let (mut laboratory, _) = prepared(arguments)?;
    shell::run(&mut laboratory)
}

/// Runs the share of every change, apart from lost packets if this machine cannot lose some.
pub(super) fn run_share() -> Result<Done> {
    let mut lanes = Vec::new();
    let mut done = Done::Fully;
    for lane in LANES {
        let arguments: Vec<String> =
            SHARE.iter().chain(&["--topology", lane]).map(|&word| word.to_owned()).collect();
        let (laboratory, extent) = prepared(&arguments)?;
        lanes.push(laboratory);
        done = extent;
    }
    thread::scope(|scope| {
        let started: Vec<_> =
            lanes.iter_mut().map(|lane| scope.spawn(|| shell::run_gathered(lane))).collect();
        let ended = started.into_iter().map(|lane| lane.join().expect("a lane does not panic"));
        ended.collect::<Vec<_>>().into_iter().collect::<Result<()>>()
    })?;
    Ok(done)
}

/// Builds the laboratory, and returns the command that runs it, with what it leaves out on this machine.
fn prepared(arguments: &[String]) -> Result<(Command, Done)> {
    println!("server: {}", server::ensure_installed()?);
    // The build may fetch crates, which the network of the laboratory cannot.
    shell::run(&mut shell::cargo(&["build", "--locked", "--quiet", "-p", "leasehold-fleets"])?)?;
    let mut laboratory = shell::cargo(&["run", "--locked", "--quiet", "-p", "leasehold-fleets", "--"])?;
    laboratory.args(arguments);
    match private_network::command(&laboratory) {
        Ok(private) => Ok((private, Done::Fully)),
        Err(reason) => {
            let reason = format!("no packets were lost: {reason:#}");
            println!("{reason}");
            Ok((laboratory, Done::Except(reason)))
        }
    }
}
