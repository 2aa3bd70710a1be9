//! The logs of the workers, read while the workers write them.
//!
//! Invariant: each line is read once, as soon as it is whole.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};

use crate::attempt::{Attempt, attempts};
use crate::event::{Event, Record};
use crate::policy::{Kind, Policy};
use crate::rush::{is_of_a_round, is_of_round};

/// The log of one worker.
#[derive(Debug)]
pub(crate) struct Log {
    file: BufReader<File>,
    line: String,
    records: Vec<Record>,
    /// The attempts without an outcome.
    open: HashMap<u64, Waiter>,
    /// The holds that are not released yet.
    held: HashMap<u64, Waiter>,
    /// The time of the last grant of each policy's probe.
    probed: BTreeMap<Policy, u64>,
    /// The locks of rounds that were granted.
    of_rounds: Vec<(Policy, String)>,
}

/// An attempt that has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiter {
    /// The time before the acquire.
    pub(crate) at: u64,
    /// The policy of the client.
    pub(crate) policy: Policy,
    /// The primitive.
    pub(crate) kind: Kind,
    /// The name of the lock.
    pub(crate) name: String,
}

impl Log {
    /// Opens the log of a worker.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("no log {}", path.display()))?;
        Ok(Self {
            file: BufReader::new(file),
            line: String::new(),
            records: Vec::new(),
            open: HashMap::new(),
            held: HashMap::new(),
            probed: BTreeMap::new(),
            of_rounds: Vec::new(),
        })
    }

    /// Reads the lines that are new. A worker that was killed can leave half a line at the end.
    pub(crate) fn read(&mut self) -> Result<()> {
        while self.file.read_line(&mut self.line)? > 0 && self.line.ends_with('\n') {
            let record = serde_json::from_str(&self.line).context("a line of a log is no record")?;
            self.line.clear();
            self.note(&record);
            self.records.push(record);
        }
        Ok(())
    }

    fn note(&mut self, Record { at, attempt, event }: &Record) {
        match event {
            Event::Attempt { policy, kind, name, .. } => {
                let waiter = Waiter { at: *at, policy: *policy, kind: *kind, name: name.clone() };
                self.open.insert(*attempt, waiter);
            }
            Event::Granted { .. } => {
                let Some(waiter) = self.open.remove(attempt) else { return };
                if waiter.kind == Kind::Probe {
                    self.probed.insert(waiter.policy, *at);
                }
                if is_of_a_round(&waiter.name) {
                    self.of_rounds.push((waiter.policy, waiter.name.clone()));
                }
                self.held.insert(*attempt, waiter);
            }
            Event::Refused | Event::Failed { .. } => drop(self.open.remove(attempt)),
            Event::Released { .. } => drop(self.held.remove(attempt)),
            Event::Write { .. } | Event::Lost { .. } | Event::Releasing { .. } => {}
        }
    }

    /// Returns true if a probe of the policy was granted after a time.
    pub(crate) fn is_served(&self, policy: Policy, after: u64) -> bool {
        self.probed.get(&policy).is_some_and(|&at| at > after)
    }

    /// Returns the number of locks of a round that were granted to these policies.
    pub(crate) fn granted_of_round(&self, round: u64, policies: &[Policy]) -> usize {
        let counts =
            |(policy, name): &&(Policy, String)| policies.contains(policy) && is_of_round(name, round);
        self.of_rounds.iter().filter(counts).count()
    }

    /// Returns the number of attempts for locks of a round that have no outcome yet.
    pub(crate) fn asked_of_round(&self, round: u64) -> usize {
        self.open.values().filter(|waiter| is_of_round(&waiter.name, round)).count()
    }

    /// Returns the attempts without an outcome, by their numbers.
    pub(crate) const fn waiters(&self) -> &HashMap<u64, Waiter> {
        &self.open
    }

    /// Returns true if the worker itself holds the name. Its waiters then wait without the server.
    pub(crate) fn holds(&self, policy: Policy, name: &str) -> bool {
        self.held.values().any(|hold| hold.policy == policy && hold.name == name)
    }

    /// Returns the attempts of a worker, from all lines.
    pub(crate) fn into_attempts(self, worker: usize) -> Vec<Attempt> {
        attempts(worker, self.records)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_is_read_once_it_is_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut log = Log::open(file.path()).unwrap();
        let event = Event::Attempt { policy: Policy::All, kind: Kind::Probe, name: "lab:x".into(), wait: 5 };
        let line = serde_json::to_string(&Record { at: 7, attempt: 1, event }).unwrap();
        let (first, rest) = line.split_at(10);
        write!(file, "{first}").unwrap();
        log.read().unwrap();
        assert!(log.waiters().is_empty());
        writeln!(file, "{rest}").unwrap();
        log.read().unwrap();
        assert_eq!(log.waiters()[&1].at, 7);
        let granted = Record { at: 9, attempt: 1, event: Event::Granted { valid_until: 20, token: None } };
        writeln!(file, "{}", serde_json::to_string(&granted).unwrap()).unwrap();
        log.read().unwrap();
        assert!(log.waiters().is_empty());
        assert_eq!((log.is_served(Policy::All, 8), log.is_served(Policy::All, 9)), (true, false));
    }
}
