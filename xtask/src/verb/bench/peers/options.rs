//! The options of the verb.

use anyhow::{Context, Result, bail, ensure};

use super::contenders;
use super::workloads::{self, Workload};

/// The choice of the caller.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) quick: bool,
    pub(super) lists: bool,
    /// True if the report of earlier measurements is written, and nothing is measured.
    pub(super) reports_only: bool,
    /// The number of rounds.
    pub(super) repeats: usize,
    /// The warm-up of each contender in seconds.
    pub(super) warm_up: f64,
    /// The window of the workloads that are measured by their rate, in seconds.
    seconds: Option<f64>,
    only: Vec<String>,
    workloads: Vec<String>,
}

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            quick: false,
            lists: false,
            reports_only: false,
            repeats: 5,
            warm_up: 0.5,
            seconds: None,
            only: Vec::new(),
            workloads: Vec::new(),
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--quick" => (options.quick, options.repeats, options.warm_up) = (true, 1, 0.2),
                "--list" => options.lists = true,
                "--report" => options.reports_only = true,
                "--only" => options.only.push(value()?.clone()),
                "--workload" => options.workloads.push(value()?.clone()),
                "--repeats" => options.repeats = value()?.parse().context("--repeats takes a number")?,
                "--seconds" => {
                    options.seconds = Some(value()?.parse().context("--seconds takes a number")?);
                }
                other => bail!(
                    "{other} is no option; there are --quick, --only NAME, --workload NAME, --repeats N, \
                     --seconds S, --report and --list"
                ),
            }
        }
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<()> {
        ensure!(self.repeats > 0, "--repeats is at least 1");
        ensure!(self.seconds.is_none_or(|seconds| seconds > 0.0), "--seconds is above 0");
        let known = contenders::names();
        for name in &self.only {
            ensure!(known.contains(&name.as_str()), "no contender {name}; there are {}", known.join(", "));
        }
        let known = workloads::all();
        for name in &self.workloads {
            let is_known = known.iter().any(|workload| workload.is_named(name));
            ensure!(is_known, "no workload {name}; --list prints the names");
        }
        Ok(())
    }

    pub(super) fn has_contender(&self, name: &str) -> bool {
        !self.reports_only && (self.only.is_empty() || self.only.iter().any(|only| only == name))
    }

    pub(super) fn has_workload(&self, workload: &Workload) -> bool {
        !self.reports_only
            && (self.workloads.is_empty() || self.workloads.iter().any(|name| workload.is_named(name)))
    }

    /// Changes the duration of a workload as the options say.
    pub(super) fn adapt(&self, mut workload: Workload) -> Workload {
        if let Some(seconds) = self.seconds
            && workload.is_measured_by_rate()
        {
            workload.seconds = seconds;
        }
        if self.quick {
            workload.shorten();
        }
        workload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_default_is_everything_five_times() {
        let options = parse("").unwrap();
        assert_eq!(options.repeats, 5);
        assert!(options.has_contender("rlock"));
        assert!(workloads::all().iter().all(|workload| options.has_workload(workload)));
    }

    #[test]
    fn a_report_measures_nothing() {
        let options = parse("--report --workload pairs").unwrap();
        assert!(!options.has_contender("rlock"));
        assert!(!workloads::all().iter().any(|workload| options.has_workload(workload)));
    }

    #[test]
    fn a_name_chooses_a_workload_or_its_group() {
        let options = parse("--only rlock --workload held --workload pairs-8").unwrap();
        assert!(options.has_contender("rlock") && !options.has_contender("redsync"));
        let chosen: Vec<String> = workloads::all()
            .into_iter()
            .filter(|workload| options.has_workload(workload))
            .map(|workload| workload.name)
            .collect();
        assert_eq!(chosen, ["pairs-8", "held-1000", "held-10000", "held-100000"]);
    }

    #[test]
    fn quick_is_one_short_round_and_seconds_change_windows() {
        let quick = parse("--quick").unwrap();
        assert_eq!(quick.repeats, 1);
        let window = |options: &Options, name: &str| {
            let workload = workloads::all().into_iter().find(|workload| workload.name == name).unwrap();
            options.adapt(workload).seconds
        };
        assert!(window(&quick, "pairs-8") < 0.5);
        let longer = parse("--seconds 9").unwrap();
        assert!((window(&longer, "pairs-8") - 9.0).abs() < f64::EPSILON);
        assert!(window(&longer, "held-1000") > 9.0, "a lease decides");
    }

    #[test]
    fn wrong_words_are_errors_that_list_the_right_ones() {
        for (line, hint) in [
            ("--fast", "--quick"),
            ("--only redlok", "redlock"),
            ("--workload nothing", "--list"),
            ("--repeats 0", "at least 1"),
            ("--seconds", "needs a value"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(hint), "{line}: {error}");
        }
    }
}
