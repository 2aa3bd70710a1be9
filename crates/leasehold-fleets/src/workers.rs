//! The worker processes of one fleet, and their logs.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::attempt::Attempt;
use crate::clock::{SECOND, now};
use crate::fault::Topology;
use crate::fleet::Fleet;
use crate::logs::Log;
use crate::rush::Order;

/// The time limit for a worker to end its last attempts and close its clients.
const ENDS_WITHIN: u64 = 30 * SECOND;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The pause of frozen workers in milliseconds. It is short enough for a hold that was renewed before a failover to be
/// valid after it.
const PAUSE_MS: std::ops::Range<u64> = 400..1000;

/// The workers. They are killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Workers {
    children: Vec<Child>,
    logs: Vec<Log>,
}

impl Workers {
    /// Starts workers that log into the folder.
    pub(crate) fn start(
        count: usize,
        topology: Topology,
        fleet: &Fleet,
        resource: &str,
        folder: &Path,
    ) -> Result<Self> {
        let mut workers = Self { children: Vec::new(), logs: Vec::new() };
        for number in 0..count {
            let log = folder.join(format!("{topology:?}-{number}.jsonl").to_lowercase());
            std::fs::write(&log, "").with_context(|| format!("no log {}", log.display()))?;
            workers.logs.push(Log::open(&log)?);
            let mut command = Command::new(std::env::current_exe().context("this program has no path")?);
            command.arg("worker").arg("--log").arg(&log).args(["--resource", resource]);
            command.args(["--replicas", &topology.replicas().to_string()]);
            command.args(["--lease-ms", &topology.lease().as_millis().to_string()]);
            command.args(["--policies", &serde_json::to_string(topology.policies())?]);
            command.args(fleet.urls().iter().flat_map(|url| ["--url", url.as_str()]));
            command.args(fleet.nodes().iter().flat_map(|node| ["--node".into(), node.port().to_string()]));
            command.args(fleet.ca_file().into_iter().flat_map(|file| ["--ca-file", file]));
            let child = command.stdin(Stdio::piped()).spawn().context("a worker does not start")?;
            workers.children.push(child);
        }
        Ok(workers)
    }

    /// Returns true if all workers run.
    pub(crate) fn run(&mut self) -> bool {
        self.children.iter_mut().all(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Freezes half of the workers for a random time.
    pub(crate) fn pause_half(&self, random: &mut fastrand::Rng) -> Result<()> {
        let mut frozen: Vec<&Child> = self.children.iter().collect();
        random.shuffle(&mut frozen);
        frozen.truncate(self.children.len().div_ceil(2));
        signal(&frozen, Signal::STOP)?;
        thread::sleep(Duration::from_millis(random.u64(PAUSE_MS)));
        signal(&frozen, Signal::CONT)
    }

    /// Returns two different workers.
    pub(crate) fn two(&self, random: &mut fastrand::Rng) -> Result<(usize, usize)> {
        ensure!(self.children.len() > 1, "this fault needs two workers");
        let one = random.usize(..self.children.len());
        Ok((one, (one + random.usize(1..self.children.len())) % self.children.len()))
    }

    /// Gives an order to a worker.
    pub(crate) fn order(&mut self, worker: usize, order: Order) -> Result<()> {
        let mut line = serde_json::to_string(&order)?;
        line.push('\n');
        let orders = self.children[worker].stdin.as_mut().context("the worker takes no orders any more")?;
        orders.write_all(line.as_bytes()).context("a worker has ended by itself")
    }

    /// Reads what a worker has written.
    pub(crate) fn log(&mut self, worker: usize) -> Result<&Log> {
        self.logs[worker].read()?;
        Ok(&self.logs[worker])
    }

    /// Reads what the workers have written.
    pub(crate) fn read(&mut self) -> Result<()> {
        self.logs.iter_mut().try_for_each(Log::read)
    }

    /// Returns the logs, as far as they were read.
    pub(crate) fn logs(&self) -> &[Log] {
        &self.logs
    }

    /// Lets the workers end, and returns their number that did not end well in time.
    pub(crate) fn stop(&mut self) -> usize {
        self.children.iter_mut().for_each(|child| drop(child.stdin.take()));
        let until = now() + ENDS_WITHIN;
        let ends_well = |child: &mut Child| loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                _ if now() > until => return false,
                _ => thread::sleep(LOOK_EVERY),
            }
        };
        self.children.iter_mut().map(ends_well).filter(|well| !well).count()
    }

    /// Returns the attempts of all workers.
    pub(crate) fn attempts(&mut self) -> Result<Vec<Attempt>> {
        self.read()?;
        let logs = std::mem::take(&mut self.logs).into_iter().enumerate();
        Ok(logs.flat_map(|(worker, log)| log.into_attempts(worker)).collect())
    }
}

fn signal(children: &[&Child], signal: Signal) -> Result<()> {
    let send = |child: &&Child| kill_process(Pid::from_child(child), signal);
    children.iter().try_for_each(send).context("a worker has ended by itself")
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // An error means that the worker has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
