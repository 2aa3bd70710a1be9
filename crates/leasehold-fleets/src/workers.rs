//! The worker processes of one fleet, and their logs.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::attempt::{Attempt, attempts};
use crate::clock::{SECOND, now};
use crate::event::Record;
use crate::fault::Topology;

/// The time limit for a worker to end its last attempts and close its clients.
const ENDS_WITHIN: u64 = 30 * SECOND;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The workers. They are killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Workers {
    workers: Vec<(Child, PathBuf)>,
}

impl Workers {
    /// Starts workers that log into the folder.
    pub(crate) fn start(
        count: usize,
        topology: Topology,
        urls: &[String],
        resource: &str,
        folder: &Path,
    ) -> Result<Self> {
        let mut workers = Self { workers: Vec::new() };
        for number in 0..count {
            let log = folder.join(format!("{topology:?}-{number}.jsonl").to_lowercase());
            let mut command = Command::new(std::env::current_exe().context("this program has no path")?);
            command.arg("worker").arg("--log").arg(&log).args(["--resource", resource]);
            command.args(["--replicas", &topology.replicas().to_string()]);
            command.args(["--policies", &serde_json::to_string(topology.policies())?]);
            command.args(urls.iter().flat_map(|url| ["--url", url.as_str()]));
            let child = command.stdin(Stdio::piped()).spawn().context("a worker does not start")?;
            workers.workers.push((child, log));
        }
        Ok(workers)
    }

    /// Returns true if all workers run.
    pub(crate) fn run(&mut self) -> bool {
        self.workers.iter_mut().all(|(child, _)| matches!(child.try_wait(), Ok(None)))
    }

    /// Lets the workers end, and returns their number that did not end well in time.
    pub(crate) fn stop(&mut self) -> usize {
        self.workers.iter_mut().for_each(|(child, _)| drop(child.stdin.take()));
        let until = now() + ENDS_WITHIN;
        let ends_well = |(child, _): &mut (Child, PathBuf)| loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                _ if now() > until => return false,
                _ => thread::sleep(LOOK_EVERY),
            }
        };
        self.workers.iter_mut().map(ends_well).filter(|well| !well).count()
    }

    /// Reads all logs.
    pub(crate) fn attempts(&self) -> Result<Vec<Attempt>> {
        let mut all = Vec::new();
        for (worker, (_, log)) in self.workers.iter().enumerate() {
            let file = File::open(log).with_context(|| format!("no log {}", log.display()))?;
            let mut records: Vec<Record> = Vec::new();
            for line in BufReader::new(file).lines() {
                // A killed worker can leave half a line at the end.
                let Ok(record) = serde_json::from_str(&line?) else { break };
                records.push(record);
            }
            all.extend(attempts(worker, records));
        }
        Ok(all)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (child, _) in &mut self.workers {
            // An error means that the worker has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
