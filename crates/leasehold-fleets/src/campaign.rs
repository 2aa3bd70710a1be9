//! A campaign: fleets one after the other, and faults for the given time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use leasehold_testkit::servers::RedisServer;

use crate::clock::{SECOND, now};
use crate::fault::{Fault, REST, Topology};
use crate::faults::inject;
use crate::fleet::Fleet;
use crate::logs::Log;
use crate::network;
use crate::policy::PREFIX;
use crate::report::{Outcome, SERVED_WITHIN, print};
use crate::subscriptions::{Listeners, channels, listeners};
use crate::workers::Workers;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The time for keys to expire after the last worker has closed its clients, longer than the longest lease.
const KEYS_EXPIRE_WITHIN: Duration = Duration::from_secs(20);

/// The choice of fleets and faults.
#[derive(Debug, Clone, clap::Args)]
pub struct Plan {
    /// The minutes of the campaign, without the start of the fleets.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// The rounds of each fleet, in each of which every fault comes once, however long they take.
    #[arg(long, conflicts_with = "minutes")]
    rounds: Option<usize>,
    /// The seed of the faults (the processes and the network add chance of their own).
    #[arg(long)]
    seed: Option<u64>,
    /// These topologies alone.
    #[arg(long, value_delimiter = ',')]
    topology: Vec<Topology>,
    /// These faults alone.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
    /// The number of worker processes.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// TLS and users with the fewest rights, or neither. The seed decides it for each fleet otherwise.
    #[arg(long)]
    secured: Option<bool>,
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
    let can_lose_packets = network::check();
    if let Err(reason) = &can_lose_packets {
        println!("no fault loses packets, because {reason:#}");
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let temporary = tempfile::tempdir()?;
    let folder = plan.logs.as_deref().unwrap_or(temporary.path());
    let mut all_kept = true;
    for (topology, share) in Topology::ALL {
        if !plan.topology.is_empty() && !plan.topology.contains(&topology) {
            continue;
        }
        let shares = Topology::ALL.iter().filter(|(other, _)| plan.topology.contains(other));
        let shares = if plan.topology.is_empty() { 100 } else { shares.map(|(_, share)| share).sum() };
        let seconds = plan.minutes * 60 * share / shares;
        let faults = chosen(plan, topology, can_lose_packets.is_ok());
        let outcome = endure(plan, topology, &faults, seconds * SECOND, &mut random, folder)?;
        all_kept &= print(&outcome);
    }
    Ok(all_kept)
}

/// Runs one fleet under faults.
fn endure(
    plan: &Plan,
    topology: Topology,
    faults: &[Fault],
    time: u64,
    random: &mut fastrand::Rng,
    folder: &Path,
) -> Result<Outcome> {
    let is_secured = random.bool();
    let is_secured = plan.secured.unwrap_or(is_secured);
    let resource = RedisServer::start();
    let mut fleet = Fleet::start(topology, is_secured);
    let mut workers = Workers::start(plan.workers, topology, &fleet, &resource.url(), folder)?;
    let (mut aftermaths, mut findings) = (Vec::new(), Vec::new());
    // A majority counts no server before the longest lease is over.
    aftermath(&fleet, topology, &mut workers, (now(), REST))?;
    let until = if plan.rounds.is_some() { u64::MAX } else { now() + time };
    let (mut courses, mut judged_until) = (Vec::new(), u64::MAX);
    let most = plan.rounds.map_or(usize::MAX, |rounds| rounds * faults.len());
    'faults: while courses.len() < most && !faults.is_empty() && now() < until {
        let mut round = faults.to_vec();
        if !courses.is_empty() {
            random.shuffle(&mut round);
        }
        for fault in round {
            if now() >= until {
                break;
            }
            let began = now();
            let mut course = match caught(|| inject(&mut fleet, &mut workers, topology, fault, random)) {
                Ok(course) => course,
                Err(error) => {
                    findings.push(format!("{fault:?} did not end: {error:#}"));
                    judged_until = began;
                    break 'faults;
                }
            };
            println!("{course}");
            aftermaths.push(aftermath(&fleet, topology, &mut workers, (course.settled, fault.rest()))?);
            course.keep_masters(&fleet.ports_of_masters());
            courses.push(course);
        }
    }
    let unended = workers.stop();
    if unended > 0 {
        findings.push(format!("{unended} workers did not end well"));
    }
    findings.extend(leftovers(&fleet));
    let mut attempts = workers.attempts()?;
    attempts.retain(|attempt| attempt.at < judged_until);
    Ok(Outcome { topology, is_secured, courses, aftermaths, attempts, findings })
}

/// Runs a step. The kit panics if a server refuses it, and the campaign reports what it has seen until then.
fn caught<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| Err(anyhow!("the message above says why")))
}

/// Lets the workers run until the probe of each client was granted a lock, and counts the subscriptions of waiters.
fn aftermath(
    fleet: &Fleet,
    topology: Topology,
    workers: &mut Workers,
    (settled, rest): (u64, Duration),
) -> Result<Listeners> {
    std::thread::sleep(rest);
    let until = now() + SERVED_WITHIN;
    loop {
        ensure!(workers.run(), "a worker of {topology:?} has ended by itself");
        workers.read()?;
        let is_served = |log: &Log| topology.policies().iter().all(|policy| log.is_served(*policy, settled));
        // The report tells which policy was not served.
        if workers.logs().iter().all(is_served) || now() > until {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    listeners(fleet, workers)
}

fn chosen(plan: &Plan, topology: Topology, can_lose_packets: bool) -> Vec<Fault> {
    let is_chosen = |fault: &&Fault| plan.faults.is_empty() || plan.faults.contains(fault);
    let can_be = |fault: &&Fault| can_lose_packets || !fault.loses_packets();
    topology.faults().iter().filter(is_chosen).filter(can_be).copied().collect()
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
