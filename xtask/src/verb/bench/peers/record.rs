//! The figures of a workload, as a file between the measurement and the report.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::shell::output;

/// The figures of one run of a contender, by name.
pub(super) type Figures = BTreeMap<String, f64>;

/// The figures of one contender.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    /// One for each round.
    Runs(Vec<Figures>),
    /// The reason why there are none.
    Refused(String),
}

impl Entry {
    pub(super) fn refused(reason: &str) -> Self {
        Self::Refused(reason.to_owned())
    }

    /// Returns a figure of all rounds that have it.
    pub(super) fn figures(&self, name: &str) -> Vec<f64> {
        match self {
            Self::Runs(runs) => runs.iter().filter_map(|run| run.get(name).copied()).collect(),
            Self::Refused(_) => Vec::new(),
        }
    }
}

/// The figures of a workload.
#[derive(Debug)]
pub(super) struct Record {
    /// The date, the commit and the rounds of new entries, in words.
    origin: String,
    /// The same for each entry.
    pub(super) origins: BTreeMap<String, String>,
    pub(super) entries: BTreeMap<String, Entry>,
}

impl Record {
    pub(super) fn new(commit: &str, rounds: usize, seconds: f64) -> Result<Self> {
        let date = output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
        let times = if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") };
        Ok(Self::of(&format!("{}, {commit}, {times} of {seconds} s", date.trim())))
    }

    /// Returns a record without entries.
    pub(super) fn of(origin: &str) -> Self {
        Self { origin: origin.to_owned(), origins: BTreeMap::new(), entries: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, contender: &str, entry: Entry) {
        let origin = self.origin.clone();
        self.add_from(contender, entry, origin);
    }

    fn add_from(&mut self, contender: &str, entry: Entry, origin: String) {
        self.entries.insert(contender.to_owned(), entry);
        self.origins.insert(contender.to_owned(), origin);
    }

    fn to_json(&self) -> Value {
        let entry = |(name, entry): (&String, &Entry)| {
            let value = match entry {
                Entry::Runs(runs) => json!({ "origin": self.origins[name], "runs": runs }),
                Entry::Refused(reason) => json!({ "origin": self.origins[name], "refused": reason }),
            };
            (name.clone(), value)
        };
        Value::Object(self.entries.iter().map(entry).collect::<Map<String, Value>>())
    }

    fn from_json(value: &Value) -> Option<Self> {
        let mut record = Self::of("");
        for (name, value) in value.as_object()? {
            let entry = match value["refused"].as_str() {
                Some(reason) => Entry::refused(reason),
                None => Entry::Runs(value["runs"].as_array()?.iter().map(figures).collect::<Option<_>>()?),
            };
            record.add_from(name, entry, value["origin"].as_str()?.to_owned());
        }
        Some(record)
    }
}

fn figures(run: &Value) -> Option<Figures> {
    run.as_object()?.iter().map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
}

/// The folder of the records.
pub(super) struct Results(PathBuf);

impl Results {
    pub(super) fn at(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// Returns the record of a workload, if it was measured.
    pub(super) fn load(&self, workload: &str) -> Result<Option<Record>> {
        let path = self.0.join(format!("{workload}.json"));
        if !path.is_file() {
            return Ok(None);
        }
        let value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        let record = Record::from_json(&value).with_context(|| format!("{} is no record", path.display()))?;
        Ok(Some(record))
    }

    /// Saves a record. Contenders that it lacks keep their earlier figures.
    pub(super) fn merge(&self, workload: &str, mut record: Record) -> Result<()> {
        if let Some(earlier) = self.load(workload)? {
            for (name, entry) in earlier.entries {
                if !record.entries.contains_key(&name) {
                    let origin = earlier.origins.get(&name).cloned().unwrap_or_default();
                    record.add_from(&name, entry, origin);
                }
            }
        }
        let text = serde_json::to_string_pretty(&record.to_json())?;
        Ok(fs::write(self.0.join(format!("{workload}.json")), text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(origin: &str, entries: &[(&str, Entry)]) -> Record {
        let mut record = Record::of(origin);
        for (name, entry) in entries {
            record.add(name, entry.clone());
        }
        record
    }

    #[test]
    fn a_second_measurement_replaces_only_its_contenders() {
        let folder = std::env::temp_dir().join(format!("peers-results-{}", std::process::id()));
        let results = Results::at(folder.clone()).unwrap();
        let runs = |rate| Entry::Runs(vec![Figures::from([("rate".to_owned(), rate)])]);
        results.merge("w", record("monday", &[("a", runs(1.0)), ("b", Entry::refused("cannot"))])).unwrap();
        results.merge("w", record("tuesday", &[("a", runs(2.0))])).unwrap();
        let loaded = results.load("w").unwrap().unwrap();
        assert_eq!(loaded.entries["a"].figures("rate"), [2.0]);
        assert_eq!((loaded.origins["a"].as_str(), loaded.origins["b"].as_str()), ("tuesday", "monday"));
        assert_eq!(loaded.entries["b"], Entry::refused("cannot"));
        assert!(results.load("other").unwrap().is_none());
        fs::remove_dir_all(folder).unwrap();
    }
}
