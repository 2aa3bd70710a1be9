//! The runs of one contender in one workload.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::columns::columns;
use super::contenders::Contender;
use super::conversation::Process;
use super::monitor::{Monitor, Sent};
use super::private_server::{Counters, PrivateServer};
use super::record::{Entry, Figures};
use super::statistics::{hand_overs, jain, median, percentile};
use super::workloads::{What, Workload};
use crate::toolchains::{Language, Workshop};

/// The time in which a contender sets a workload up.
const SET_UP: Duration = Duration::from_secs(120);
/// The time in which it ends one, apart from its window. Libraries that poll let the last tasks of a window wait long.
const END: Duration = Duration::from_secs(60);
/// The factor of the warm-up of a virtual machine, which compiles in it.
const COMPILES: f64 = 6.0;
/// The most waiters of a workload that is also run for its warm-up, if each run sets all of them up.
const WARMED_UP: u32 = 1_000;

/// A contender in a workload.
pub(super) struct Bench<'a> {
    pub(super) contender: &'a Contender,
    workshop: &'a Workshop,
    server: &'a PrivateServer,
    workload: &'a Workload,
    processes: Vec<Process>,
    sent: Sent,
    started: u32,
    runs: Vec<Figures>,
    error: Option<String>,
    refused: Option<String>,
}

/// Everything that one run gives.
struct Observed {
    /// The figures of each process.
    figures: Vec<Value>,
    counters: Counters,
    commands: f64,
    keys: u32,
    /// The least remaining lease of all keys at the end of the window.
    least_remaining_ms: Option<u32>,
    /// The median of bare round trips, if they are the measure of the workload.
    trip_us: Option<f64>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        workshop: &'a Workshop,
        server: &'a PrivateServer,
        workload: &'a Workload,
        contender: &'a Contender,
    ) -> Self {
        Self {
            contender,
            workshop,
            server,
            workload,
            processes: Vec::new(),
            sent: Sent::default(),
            started: 0,
            runs: Vec::new(),
            error: None,
            refused: None,
        }
    }

    /// Runs the workload for a time that does not count, and learns which commands the contender sends.
    pub(super) fn warm_up(&mut self, seconds: f64) -> Result<()> {
        let is_renewal = self.workload.what == What::Held;
        if is_renewal || (self.workload.measures_memory() && self.workload.tasks > WARMED_UP) {
            return Ok(());
        }
        let factor = if self.contender.language == Language::Java { COMPILES } else { 1.0 };
        let monitor = Monitor::start(self.server.connect()?)?;
        let observed = self.observe(seconds * factor);
        self.sent.extend(monitor.stop());
        observed.map(drop)
    }

    /// Runs the workload once.
    pub(super) fn run(&mut self) -> Result<()> {
        if self.refused.is_none() {
            let observed = self.observe(self.workload.seconds)?;
            let first = observed.figures.iter().find_map(|figures| figures["error"].as_str());
            self.error = self.error.take().or_else(|| first.map(str::to_owned));
            self.runs.push(derive(self.workload, &observed));
        }
        Ok(())
    }

    /// Ends the runs of this contender.
    pub(super) fn refuse(&mut self, error: &anyhow::Error) {
        self.processes.clear();
        self.refused = Some(format!("{error:#}"));
    }

    pub(super) fn into_entry(self) -> Entry {
        match self.refused {
            Some(reason) => Entry::Refused(reason),
            None => Entry::Runs(self.runs),
        }
    }

    /// Returns a line for the terminal.
    pub(super) fn summary(&self) -> String {
        let name = self.contender.name;
        if let Some(reason) = &self.refused {
            return format!("{name:<20} - {reason}");
        }
        let column = columns(self.workload)[0];
        let values: Vec<f64> = self.runs.iter().filter_map(|run| run.get(column.figure).copied()).collect();
        let value = median(&values).map_or_else(|| "nothing".to_owned(), |value| column.format(value));
        let error = self.error.as_ref().map(|error| format!("; sections failed: {error}"));
        format!("{name:<20} {value} {}{}", column.header, error.unwrap_or_default())
    }

    /// Runs the workload, and clears the server before.
    fn observe(&mut self, seconds: f64) -> Result<Observed> {
        let mut server = self.server.connect()?;
        server.call(&["FLUSHALL"])?;
        self.start_processes()?;
        self.set_up(seconds)?;
        thread::sleep(Duration::from_secs_f64(self.workload.settle));
        let trip_us = (self.workload.what == What::Handover).then(|| server.trip_us()).transpose()?;
        let before = server.counters()?;
        self.tell("go")?;
        for process in &self.processes {
            process.expect("end", Duration::from_secs_f64(seconds) + END)?;
        }
        let counters = server.counters()?.since(&before);
        let keys = server.keys()?;
        let is_held = self.workload.what == What::Held;
        let least_remaining_ms = if is_held { server.least_remaining_ms()? } else { None };
        self.tell("finish")?;
        let last = "figures, because a task did not end";
        let figures = self.processes.iter().map(|process| process.read(last, END));
        let figures = figures.collect::<Result<Vec<_>>>()?;
        if self.workload.measures_memory() {
            self.processes.clear();
        }
        let commands = self.sent.commands(&counters);
        Ok(Observed { figures, counters, commands, keys, least_remaining_ms, trip_us })
    }

    fn start_processes(&mut self) -> Result<()> {
        for number in self.processes.len()..self.workload.processes as usize {
            let command = self.contender.command(self.workshop, &self.server.url());
            let name = self.contender.name.replace(['/', ' '], "-");
            let complaints = self.workshop.folder.join(format!("{name}-{number}.stderr"));
            self.processes.push(Process::start(command, complaints)?);
        }
        Ok(())
    }

    /// Writes the workload to each process and waits until all have set it up.
    fn set_up(&mut self, seconds: f64) -> Result<()> {
        self.started += 1;
        let prefix = format!("bench:{}", self.started);
        let witness = self.workshop.folder.join("witness");
        // The files of an earlier run, if there was one.
        let _ = fs::remove_file(&witness);
        let _ = fs::remove_file(witness.with_extension("held"));
        let witness = (self.workload.processes > 1).then(|| witness.to_string_lossy().into_owned());
        for (index, process) in (0..).zip(&mut self.processes) {
            process.write(&self.workload.line(&prefix, index, seconds, witness.as_deref()))?;
        }
        for process in &self.processes {
            let answer = process.read("ready", SET_UP)?;
            if let Some(reason) = answer["unsupported"].as_str() {
                bail!("{reason}");
            }
            if answer != json!("ready") {
                bail!("the contender wrote {answer} in place of ready");
            }
        }
        Ok(())
    }

    fn tell(&mut self, word: &str) -> Result<()> {
        self.processes.iter_mut().try_for_each(|process| process.write(&json!(word)))
    }
}

/// Computes the figures of the report.
fn derive(workload: &Workload, observed: &Observed) -> Figures {
    let all = |name: &str| -> Vec<f64> {
        observed.figures.iter().filter_map(|figures| number(figures, name)).collect()
    };
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let grants: f64 = all("/grants").iter().sum();
    let elapsed_us = most(&all("/elapsed_us"));
    let client_us: f64 = all("/cpu_us").iter().sum();
    let tasks = f64::from(workload.tasks) * f64::from(workload.processes);
    let memory: f64 = all("/rss_kib").iter().sum::<f64>() - all("/rss_before_kib").iter().sum::<f64>();
    let longest_us = most(&all("/wait/max"));
    let mut figures = vec![
        ("client_percent", Some(client_us / elapsed_us * 100.0)),
        ("server_percent", Some(observed.counters.cpu_us / elapsed_us * 100.0)),
        ("commands_s", Some(observed.commands / elapsed_us * 1e6)),
        ("violations", Some(all("/violations").iter().sum())),
        ("errors", Some(all("/errors").iter().sum())),
    ];
    match workload.what {
        What::Pairs | What::Hot => figures.extend([
            ("rate", Some(grants / elapsed_us * 1e6)),
            ("p50_us", median(&all("/latency/p50"))),
            ("p99_us", median(&all("/latency/p99"))),
            ("jain", jain(&shares(workload, &observed.figures))),
            ("longest_ms", Some(longest_us / 1e3)),
            // A fair share of the waits is as long as the grants of all other tasks.
            ("longest_share", per(longest_us, per(tasks * elapsed_us, grants).unwrap_or(0.0))),
            ("commands", per(observed.commands, grants)),
            ("client_us", per(client_us, grants)),
            ("server_us", per(observed.counters.cpu_us, grants)),
        ]),
        What::Held => figures.extend([
            ("memory_b", Some(memory * 1_024.0 / tasks)),
            ("lost", Some((tasks - f64::from(observed.keys)).max(0.0))),
            (
                "least_remaining",
                observed.least_remaining_ms.map(|left| f64::from(left) / workload.lease_ms() * 100.0),
            ),
        ]),
        What::Idle => figures.extend([
            ("memory_b", Some(memory * 1_024.0 / tasks)),
            ("drain_ms", all("/drain_us").first().map(|drain| drain / 1e3)),
            ("unserved", Some(tasks - grants)),
        ]),
        What::Handover => {
            let times = hand_overs(&observed.figures.iter().map(holds).collect::<Vec<_>>());
            figures.extend([
                ("handover_p50_us", median(&times)),
                ("trips", median(&times).zip(observed.trip_us).map(|(time, trip)| time / trip)),
                ("handover_p99_us", percentile(&times, 0.99)),
                ("hand_overs", u32::try_from(times.len()).ok().map(f64::from)),
            ]);
        }
    }
    figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn number(figures: &Value, path: &str) -> Option<f64> {
    figures.pointer(path)?.as_f64()
}

fn per(value: f64, count: f64) -> Option<f64> {
    (count > 0.0).then(|| value / count)
}

/// Returns the grants of each process, or of each task if there is one process.
fn shares(workload: &Workload, figures: &[Value]) -> Vec<f64> {
    let tasks = |figures: &Value| -> Vec<f64> {
        figures["per_task"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    if workload.processes > 1 {
        figures.iter().map(|figures| tasks(figures).iter().sum()).collect()
    } else {
        figures.iter().flat_map(tasks).collect()
    }
}

fn holds(figures: &Value) -> Vec<(f64, f64)> {
    let holds = figures["holds"].as_array().into_iter().flatten();
    holds.filter_map(|hold| Some((hold[0].as_f64()?, hold[1].as_f64()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::workloads;
    use super::*;

    fn workload(name: &str) -> Workload {
        workloads::all().into_iter().find(|workload| workload.name == name).unwrap()
    }

    fn observed(figures: Vec<Value>) -> Observed {
        let counters = Counters { cpu_us: 50_000.0, ..Counters::default() };
        let (least_remaining_ms, trip_us) = (Some(15_000), Some(2.5));
        Observed { figures, counters, commands: 400.0, keys: 990, least_remaining_ms, trip_us }
    }

    fn is(figures: &Figures, name: &str, wanted: f64) -> bool {
        (figures[name] - wanted).abs() < 1e-6
    }

    #[test]
    fn a_fleet_is_fair_over_processes_and_waits_as_long_as_its_longest_waiter() {
        let process = |grants: f64, wait: f64| {
            json!({
                "grants": grants, "elapsed_us": 1e6, "per_task": [grants, 0], "cpu_us": 1e5, "violations": 0,
                "errors": 0, "latency": {"p50": 1.0, "p99": 2.0}, "wait": {"max": wait},
            })
        };
        let observed = observed(vec![process(50.0, 4e5), process(150.0, 8e5)]);
        let figures = derive(&workload("fleet-0ms"), &observed);
        assert!(is(&figures, "rate", 200.0) && is(&figures, "commands", 2.0));
        assert!(is(&figures, "jain", 0.8), "{figures:?}");
        assert!(is(&figures, "client_us", 1_000.0) && is(&figures, "server_us", 250.0));
        // 32 tasks share 200 grants a second, so each waits 160 ms if the lock is fair.
        assert!(is(&figures, "longest_ms", 800.0) && is(&figures, "longest_share", 5.0));
    }

    #[test]
    fn no_grants_are_a_rate_of_zero_and_no_cost_of_a_grant() {
        let figures = json!({"grants": 0, "elapsed_us": 1e6, "per_task": [0], "cpu_us": 1.0});
        let figures = derive(&workload("pairs-1"), &observed(vec![figures]));
        assert!(is(&figures, "rate", 0.0));
        assert!(!figures.contains_key("commands") && !figures.contains_key("jain"));
    }

    #[test]
    fn held_locks_cost_memory_and_may_be_lost() {
        let figures = json!({"elapsed_us": 1e6, "cpu_us": 2e4, "rss_kib": 3_000, "rss_before_kib": 2_000});
        let figures = derive(&workload("held-1000"), &observed(vec![figures]));
        assert!(is(&figures, "memory_b", 1_024.0) && is(&figures, "lost", 10.0));
        assert!(is(&figures, "least_remaining", 50.0), "half of the lease is left of the oldest");
        assert!(is(&figures, "client_percent", 2.0) && is(&figures, "server_percent", 5.0));
    }

    #[test]
    fn idle_waiters_that_were_not_served_are_counted() {
        let figures =
            json!({"grants": 990, "elapsed_us": 1e6, "drain_us": 2e4, "rss_kib": 1, "rss_before_kib": 1});
        let figures = derive(&workload("idle-1000-one"), &observed(vec![figures]));
        assert!(is(&figures, "unserved", 10.0) && is(&figures, "drain_ms", 20.0));
    }

    #[test]
    fn hand_overs_are_those_between_processes() {
        let one = json!({"elapsed_us": 1e6, "holds": [[0.0, 5.0], [20.0, 25.0]]});
        let other = json!({"elapsed_us": 1e6, "holds": [[7.0, 12.0]]});
        let figures = derive(&workload("handover"), &observed(vec![one, other]));
        assert!(is(&figures, "handover_p50_us", 5.0) && is(&figures, "hand_overs", 2.0));
        assert!(is(&figures, "trips", 2.0));
    }
}
