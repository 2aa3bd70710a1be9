//! `cargo x fuzz`: generated inputs, guided by the code that they reach.
//!
//! Invariant: each finding becomes a file, and the verb prints the command that repeats it. The verb needs no tool,
//! because cargo builds libFuzzer with the targets, with the compiler of the workspace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::shell::{cargo, root, run as run_command};

/// The default time of each target.
const SECONDS: u32 = 10;
/// The limits of a target: memory, and time per input. An input that exceeds a limit is a finding.
const BOUNDS: [&str; 3] = ["-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1"];
/// The compiler flags that count the edges that an input takes, as cargo-fuzz sets them. They leave sanitizers out,
/// which need a nightly compiler. The code has no `unsafe`, and it asserts its invariants.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The arguments of one run.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    extent: Option<Extent>,
    target: Option<String>,
    /// The files to run once, in place of a search.
    inputs: Vec<PathBuf>,
}

/// The end of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Extent {
    /// A time, for a search that continues with the inputs of earlier searches.
    Seconds(u32),
    /// A number of inputs, which are the same each time.
    Runs(u32),
}

/// Runs each target, or one target, or one target on the named inputs.
///
/// `cargo x fuzz --seconds 600 step` searches ten minutes with one target, `cargo x fuzz --runs 20000` tries the same
/// inputs each time, and `cargo x fuzz step fuzz/artifacts/step/crash-...` repeats a finding.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let wanted = read(arguments)?;
    let fuzz = root()?.join("fuzz");
    let known = targets(&fuzz)?;
    let chosen: Vec<&String> =
        known.iter().filter(|name| wanted.target.as_ref().is_none_or(|target| target == *name)).collect();
    ensure!(!chosen.is_empty(), "there is no such target; there are {}", known.join(", "));
    let programs = build(&fuzz)?;
    if !wanted.inputs.is_empty() {
        return run_command(Command::new(programs.join(chosen[0])).args(BOUNDS).args(&wanted.inputs));
    }
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    for name in chosen {
        println!("\n== {name}");
        match search(&fuzz, &programs, name, wanted.extent.unwrap_or(Extent::Seconds(SECONDS))) {
            Ok(line) => lines.push(format!("{name:<10}{line}")),
            Err(error) => {
                lines.push(format!("{name:<10}FAILED: {error:#}"));
                failed.push(name.as_str());
            }
        }
    }
    println!("\n{:<10}{:>12}{:>12}{:>8}{:>10}", "target", "executions", "per second", "edges", "features");
    lines.iter().for_each(|line| println!("{line}"));
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn read(arguments: &[String]) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--seconds" || argument == "--runs" {
            let number = rest.next().with_context(|| format!("{argument} takes a number"))?;
            let number = number.parse().with_context(|| format!("{number:?} is no number for {argument}"))?;
            let extent = if argument == "--runs" { Extent::Runs } else { Extent::Seconds };
            wanted.extent = Some(extent(number));
        } else if argument.starts_with('-') {
            bail!("there is no option {argument}; there are --seconds, --runs, a target, and files for it");
        } else if wanted.target.is_none() {
            wanted.target = Some(argument.clone());
        } else {
            wanted.inputs.push(argument.into());
        }
    }
    Ok(wanted)
}

/// Returns the targets, which are the programs of the fuzz crate.
fn targets(fuzz: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(fuzz.join("fuzz_targets")).context("cannot list the targets")? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort_unstable();
    Ok(names)
}

/// Builds all targets and returns their folder.
fn build(fuzz: &Path) -> Result<PathBuf> {
    let host = host()?;
    let target = root()?.join("target/fuzz");
    // An explicit target keeps the flags away from build scripts and macros, which run during the build.
    let build = ["build", "--locked", "--release", "--bins", "--target", &host, "--manifest-path"];
    let mut command = cargo(&build)?;
    command.arg(fuzz.join("Cargo.toml")).arg("--target-dir").arg(&target).env("RUSTFLAGS", COVERAGE);
    run_command(&mut command)?;
    Ok(target.join(host).join("release"))
}

/// Returns the machine's own target, as the compiler names it.
fn host() -> Result<String> {
    let printed = crate::shell::output(Command::new("rustc").arg("-vV"))?;
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say which target is its host")
}

/// Searches with one target. New inputs go to the target directory. Inputs of the checkout are only read.
fn search(fuzz: &Path, programs: &Path, name: &str, extent: Extent) -> Result<String> {
    // The seed 0 stands for a random one.
    let (found, end, seed) = match extent {
        Extent::Seconds(seconds) => ("corpus", format!("-max_total_time={seconds}"), "-seed=0"),
        Extent::Runs(runs) => ("runs", format!("-runs={runs}"), "-seed=1"),
    };
    let found = root()?.join("target/fuzz").join(found).join(name);
    let artifacts = fuzz.join("artifacts").join(name);
    if matches!(extent, Extent::Runs(_)) && found.exists() {
        fs::remove_dir_all(&found).with_context(|| format!("cannot empty {}", found.display()))?;
    }
    for folder in [&found, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let log = root()?.join("target/fuzz").join(format!("{name}.log"));
    let mut command = Command::new(programs.join(name));
    command.arg(&found).arg(fuzz.join("corpus").join(name)).args(BOUNDS);
    command.arg(end).args(["-max_len=4096", seed]);
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log)?);
    let status = command.status().with_context(|| format!("cannot run {name}"))?;
    let printed = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if status.success() {
        return figures(&printed).context("libFuzzer printed no figures");
    }
    let tail: Vec<&str> = printed.lines().rev().take(40).collect();
    tail.iter().rev().for_each(|line| println!("{line}"));
    match artifact(&printed) {
        Some(input) => bail!("{status}; {}; `cargo x fuzz {name} {input}` repeats it", finding(&printed)),
        None => bail!("{status}; see {}", log.display()),
    }
}

/// Returns the panic and the input in base64, for a log that outlives the file of the input.
fn finding(printed: &str) -> String {
    let is_told = |line: &&str| line.contains("panicked at") || line.starts_with("Base64:");
    let message = |at: usize| printed.lines().nth(at + 1).unwrap_or_default();
    let panic = printed.lines().position(|line| line.contains("panicked at")).map(message);
    let told = printed.lines().filter(is_told).chain(panic);
    told.collect::<Vec<_>>().join("; ")
}

/// Executions, executions per second, edges and features, from the output of libFuzzer.
fn figures(printed: &str) -> Option<String> {
    let stat = |name: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        line.map(|rest| rest.trim_start_matches(':').trim())
    };
    let last = |name: &str| {
        let line = printed.lines().rev().find(|line| line.contains(" cov: "))?;
        line.split_whitespace().skip_while(|word| *word != name).nth(1)
    };
    let (runs, pace) = (stat("number_of_executed_units")?, stat("average_exec_per_sec")?);
    Some(format!("{runs:>12}{pace:>12}{:>8}{:>10}", last("cov:")?, last("ft:")?))
}

/// Returns the path of the input that failed, relative to the root of the checkout.
fn artifact(printed: &str) -> Option<&str> {
    let path = printed.lines().find_map(|line| line.split_once("Test unit written to "))?.1.trim();
    Some(path.find("fuzz/artifacts").map_or(path, |at| &path[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_target_its_time_and_its_inputs_are_parsed() {
        let wanted = read(&words("--seconds 600 step a b")).unwrap();
        let inputs = vec![PathBuf::from("a"), PathBuf::from("b")];
        assert_eq!(
            wanted,
            Wanted { extent: Some(Extent::Seconds(600)), target: Some("step".to_owned()), inputs }
        );
        assert_eq!(read(&words("--runs 9")).unwrap().extent, Some(Extent::Runs(9)));
        assert_eq!(read(&[]).unwrap(), Wanted::default());
        assert!(read(&words("--seconds soon")).is_err() && read(&words("--jobs 2")).is_err());
    }

    #[test]
    fn figures_and_findings_are_read_from_the_log() {
        let printed = "#2\tINITED cov: 3 ft: 3 corp: 1/1b\n#9\tDONE   cov: 90 ft: 123 corp: 4/9b\n\
                    stat::number_of_executed_units: 9\nstat::average_exec_per_sec:     4\n";
        assert_eq!(figures(printed).unwrap().split_whitespace().collect::<Vec<_>>(), ["9", "4", "90", "123"]);
        assert_eq!(figures("nothing"), None);
        let printed = "artifact_prefix='x'; Test unit written to /x/fuzz/artifacts/step/crash-1\n";
        assert_eq!(artifact(printed), Some("fuzz/artifacts/step/crash-1"));
    }

    #[test]
    fn a_finding_has_its_panic_and_its_input() {
        let printed =
            "#12 NEW\nthread '<unnamed>' (7) panicked at src/a.rs:7:2:\nit is wrong\nstack\nBase64: AAE=\n";
        let expected = "thread '<unnamed>' (7) panicked at src/a.rs:7:2:; Base64: AAE=; it is wrong";
        assert_eq!(finding(printed), expected);
    }
}
