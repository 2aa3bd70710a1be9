//! Commands that print their line, and parts that print their time.
//!
//! Invariant: the error of a failed program names its whole command line.

use std::env;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Returns the root of the checkout.
pub(crate) fn root() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .context("run this as `cargo x`, which says where the checkout is")?;
    Ok(PathBuf::from(manifest).join(".."))
}

/// Returns the cargo that runs this program, at the root of the checkout.
pub(crate) fn cargo(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()?);
    Ok(command)
}

/// Runs a program with its output on the terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("cannot run {line}"))?;
    ensure!(status.success(), "{line}: {status}");
    Ok(())
}

/// Runs a test program with its output on the terminal. The error names the tests that failed, each with its panic, since
/// a log may be cut before the place where they stand.
pub(crate) fn run_tests(command: &mut Command) -> Result<()> {
    let line = describe(command);
    println!("$ {line}");
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {line}"))?;
    let printed = child.stdout.take().context("the output is piped")?;
    let mut failures = Failures::default();
    for line in BufReader::new(printed).split(b'\n') {
        let line = line.with_context(|| "cannot read the output of the tests")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        failures.add(&line);
    }
    let status = child.wait().with_context(|| format!("cannot wait for {line}"))?;
    ensure!(status.success(), "{line}: {status}; {failures}");
    Ok(())
}

/// The failed tests in the output of test programs, each with the lines of its panic.
#[derive(Debug, Default)]
struct Failures {
    tests: Vec<(String, Vec<String>)>,
    /// The lines that still belong to the last panic.
    lines_left: usize,
}

impl Failures {
    /// The lines of a panic that are kept: its place, and the beginning of its message.
    const LINES: usize = 4;

    fn add(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            self.tests.push((name.to_owned(), Vec::new()));
            self.lines_left = 0;
        } else if let Some((_, lines)) = self.tests.last_mut() {
            if lines.is_empty() && line.contains("panicked at") {
                self.lines_left = Self::LINES;
            }
            if self.lines_left > 0 {
                self.lines_left -= 1;
                lines.push(line.trim().to_owned());
            }
        }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed", self.tests.len())?;
        self.tests.iter().try_for_each(|(name, lines)| write!(f, "\n    {name}: {}", lines.join(" | ")))
    }
}

/// Runs a program, and prints its output in one piece when it ends, so that programs can run at the same time.
pub(crate) fn run_gathered(command: &mut Command) -> Result<()> {
    let line = describe(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {line}"))?;
    let [printed, complaint] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    println!("$ {line}\n{printed}{complaint}");
    ensure!(output.status.success(), "{line}: {}", output.status);
    Ok(())
}

/// Runs a program quietly and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {line}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {}\n{}", output.status, complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// One part of a verb, with its outcome and its duration.
pub(crate) struct Part {
    name: &'static str,
    took: Duration,
    outcome: Result<Done>,
}

/// The outcome of work that did not fail.
#[derive(Debug)]
pub(crate) enum Done {
    Fully,
    /// Done, apart from this check, which the machine cannot run.
    Except(String),
    /// Not done, for this reason. On CI that is a failure.
    Skipped(String),
}

impl Done {
    /// Returns the reason if the work was skipped.
    pub(crate) fn skipped(self) -> Option<String> {
        match self {
            Self::Skipped(reason) => Some(reason),
            Self::Fully | Self::Except(_) => None,
        }
    }

    /// Returns an error if the work was skipped, for a verb of its own.
    pub(crate) fn unless_skipped(self) -> Result<()> {
        match self {
            Self::Skipped(reason) => bail!(reason),
            Self::Fully | Self::Except(_) => Ok(()),
        }
    }
}

impl Part {
    pub(crate) fn run(name: &'static str, work: impl FnOnce() -> Result<()>) -> Self {
        Self::run_or_skip(name, || work().map(|()| Done::Fully))
    }

    /// Runs work that may skip itself, if this machine lacks a requirement.
    pub(crate) fn run_or_skip(name: &'static str, work: impl FnOnce() -> Result<Done>) -> Self {
        println!("\n== {name}");
        let started = Instant::now();
        let outcome = work();
        Self { name, took: started.elapsed(), outcome }
    }

    /// Returns true if the work did not fail.
    pub(crate) fn passed(&self) -> bool {
        self.outcome.is_ok()
    }
}

/// Returns true on CI, where a part that does not run is a failure.
pub(crate) fn on_ci() -> bool {
    env::var_os("CI").is_some()
}

/// Prints the outcome and the time of each part. Fails if a part failed, or did not run on CI.
pub(crate) fn summary(parts: &[Part]) -> Result<()> {
    judge(parts, on_ci())
}

fn judge(parts: &[Part], on_ci: bool) -> Result<()> {
    println!();
    let mut failed = Vec::new();
    for Part { name, took, outcome } in parts {
        let (word, reason) = match outcome {
            Ok(Done::Fully) => ("ok", String::new()),
            Ok(Done::Except(limit)) => ("ok", format!("; not shown here: {limit}")),
            Ok(Done::Skipped(reason)) => ("SKIPPED", format!(": {reason}")),
            Err(error) => ("FAILED", format!(": {error:#}")),
        };
        println!("{word:<8}{:>8.1} s  {name}{reason}", took.as_secs_f64());
        if outcome.is_err() || (on_ci && matches!(outcome, Ok(Done::Skipped(_)))) {
            failed.push(*name);
        }
    }
    let total: Duration = parts.iter().map(|part| part.took).sum();
    println!("{:<8}{:>8.1} s  altogether", "", total.as_secs_f64());
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn describe(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    command.get_args().fold(program, |line, argument| line + " " + &argument.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_named_with_their_panics() {
        let mut failures = Failures::default();
        let output = "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\n\n\
            thread 'a::b' panicked at x.rs:1:2:\nleft\nright\nnote\nmore\n\nfailures:\n    a::b\n";
        output.lines().for_each(|line| failures.add(line));
        let shown = "1 failed\n    a::b: thread 'a::b' panicked at x.rs:1:2: | left | right | note";
        assert_eq!(failures.to_string(), shown);
    }

    #[test]
    fn a_failure_names_the_command_and_its_output() {
        let error =
            output(Command::new("sh").args(["-c", "echo oh no >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c") && error.contains("oh no") && error.contains('3'), "{error}");
    }

    #[test]
    fn one_failed_part_fails_the_run() {
        let parts = [Part::run("good", || Ok(())), Part::run("bad", || anyhow::bail!("broken"))];
        assert_eq!(judge(&parts, false).unwrap_err().to_string(), "failed: bad");
        assert!(judge(&parts[..1], false).is_ok());
    }

    #[test]
    fn a_part_that_does_not_run_fails_on_ci_and_one_with_a_limit_does_not() {
        let parts = [
            Part::run_or_skip("limited", || Ok(Done::Except("power loss".to_owned()))),
            Part::run_or_skip("skipped", || Ok(Done::Skipped("it needs a tool".to_owned()))),
        ];
        assert!(judge(&parts, false).is_ok());
        assert_eq!(judge(&parts, true).unwrap_err().to_string(), "failed: skipped");
        assert!(judge(&parts[..1], true).is_ok());
    }
}
