//! A campaign: fleets one after the other, and faults for the given time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use leasehold_testkit::servers::RedisServer;

use crate::clock::{SECOND, now};
use crate::fault::{Fault, Topology};
use crate::faults::inject;
use crate::fleet::{Fleet, wait_until};
use crate::policy::PREFIX;
use crate::report::{Outcome, print};
use crate::worker::LEASE;
use crate::workers::Workers;

/// The time after a fault in which the workers run undisturbed, so that double grants end and waiters are served.
const REST: Duration = Duration::from_millis(1200);
/// The time for keys to expire after the last worker has closed its clients.
const KEYS_EXPIRE_WITHIN: Duration = Duration::from_secs(10);

/// The choice of fleets and faults.
#[derive(Debug, Clone, clap::Args)]
pub struct Plan {
    /// The minutes of the campaign, without the start of the fleets.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// The seed of the faults (the processes and the network add chance of their own).
    #[arg(long)]
    seed: Option<u64>,
    /// One topology alone.
    #[arg(long)]
    topology: Option<Topology>,
    /// These faults alone.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
    /// The number of worker processes.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// The folder for the logs, which are deleted otherwise.
    #[arg(long)]
    logs: Option<PathBuf>,
}

/// Runs a campaign and prints its tables. Returns true if each tier kept its promises.
///
/// # Errors
/// A fleet does not start, does not recover, or a worker ends by itself.
pub fn run(plan: &Plan) -> Result<bool> {
    ensure!(plan.workers > 0, "a campaign needs workers");
    let seed = plan.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let temporary = tempfile::tempdir()?;
    let folder = plan.logs.as_deref().unwrap_or(temporary.path());
    let mut all_kept = true;
    for (topology, share) in Topology::ALL {
        let seconds = match plan.topology {
            None => plan.minutes * 60 * share / 100,
            Some(only) if only == topology => plan.minutes * 60,
            Some(_) => continue,
        };
        let outcome = endure(plan, topology, seconds * SECOND, &mut random, folder)?;
        all_kept &= print(&outcome);
    }
    Ok(all_kept)
}

/// Runs one fleet under faults.
fn endure(
    plan: &Plan,
    topology: Topology,
    time: u64,
    random: &mut fastrand::Rng,
    folder: &Path,
) -> Result<Outcome> {
    let faults: Vec<Fault> = chosen(plan, topology);
    let resource = RedisServer::start();
    let mut fleet = Fleet::start(topology);
    let mut workers = Workers::start(plan.workers, topology, &fleet.urls(), &resource.url(), folder)?;
    let until = now() + time;
    let mut courses = Vec::new();
    while !faults.is_empty() && now() < until {
        let mut round = faults.clone();
        if !courses.is_empty() {
            random.shuffle(&mut round);
        }
        for fault in round {
            if now() >= until {
                break;
            }
            std::thread::sleep(REST);
            ensure!(workers.run(), "a worker of {topology:?} has ended by itself");
            let course = inject(&mut fleet, fault, random)?;
            println!("{course}");
            courses.push(course);
        }
    }
    std::thread::sleep(LEASE);
    let mut findings = Vec::new();
    if wait_until("a subscription", || channels(&fleet) > 0).is_err() {
        findings.push("no waiter has a subscription".to_owned());
    }
    let unended = workers.stop();
    if unended > 0 {
        findings.push(format!("{unended} workers did not end well"));
    }
    findings.extend(leftovers(&fleet));
    Ok(Outcome { topology, courses, attempts: workers.attempts()?, findings })
}

fn chosen(plan: &Plan, topology: Topology) -> Vec<Fault> {
    let is_chosen = |fault: &&Fault| plan.faults.is_empty() || plan.faults.contains(fault);
    topology.faults().iter().filter(is_chosen).copied().collect()
}

/// Returns the channels of the laboratory's locks that have subscribers.
fn channels(fleet: &Fleet) -> usize {
    let count = |node: &RedisServer, verb: &str| {
        let reply = node.command(&["PUBSUB", verb, &format!("*{PREFIX}*")]);
        reply.map_or(0, |channels| channels.list().len())
    };
    let of = |node: &RedisServer| count(node, "CHANNELS") + count(node, "SHARDCHANNELS");
    fleet.nodes().iter().filter(|node| node.is_up()).map(of).sum()
}

/// Finds channels and keys that outlive the workers.
fn leftovers(fleet: &Fleet) -> Vec<String> {
    let mut findings = Vec::new();
    let until = now() + KEYS_EXPIRE_WITHIN.as_secs() * SECOND;
    loop {
        let (channels, keys) = (channels(fleet), keys(fleet));
        if channels == 0 && keys.is_empty() {
            return findings;
        }
        if now() > until {
            if channels > 0 {
                findings.push(format!("{channels} channels have subscribers after all workers ended"));
            }
            findings.extend(keys.into_iter().map(|key| format!("the key {key} outlives its lease")));
            return findings;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns the keys of the laboratory that should be gone: all but permits, tokens and their like, which have no expiry
/// by design.
fn keys(fleet: &Fleet) -> Vec<String> {
    let mut keys = Vec::new();
    for node in fleet.nodes().iter().filter(|node| node.is_up()) {
        let Ok(names) = node.command(&["KEYS", &format!("*{PREFIX}*")]) else { continue };
        let lasts = |key: &str| key.contains("semaphore") || key.contains("token");
        keys.extend(names.list().iter().map(|key| key.text().to_owned()).filter(|key| !lasts(key)));
    }
    keys
}
