//! `cargo x bench peers`: measures this library beside others, each in its own language, on a private server.
//!
//! Invariant: the contenders of a workload take turns in every round, so that the load of the machine affects all.
//!
//! # How it works
//! A contender is a program that runs one workload after the other (`bench/peers/README.md`). A workload has rounds. In a
//! round each contender runs once, in an order that rotates. The runs of a workload are a file below
//! `target/peers/results`, and the report is made from all these files. A group of workloads without such a file keeps its
//! part of the report. A part of the workloads can therefore be measured again.

mod columns;
mod contenders;
mod conversation;
mod measure;
mod monitor;
mod options;
mod plot;
mod private_server;
mod record;
mod report;
mod statistics;
mod workloads;

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::server;
use crate::toolchains::{Profile, Workshop};
use contenders::Contender;
use measure::Bench;
use options::Options;
use private_server::PrivateServer;
use record::{Entry, Record, Results};
use workloads::Workload;

/// Opens the workshop of the contenders.
fn workshop() -> Result<Workshop> {
    Workshop::new("bench/peers", "peers", Profile::Release)
}

/// Measures the chosen workloads with the chosen contenders, and writes the report.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    if options.lists {
        println!("contenders: {}", contenders::names().join(", "));
        let names: Vec<String> = workloads::all().into_iter().map(|workload| workload.name).collect();
        println!("workloads: {}", names.join(", "));
        return Ok(());
    }
    let workloads: Vec<Workload> =
        workloads::all().into_iter().filter(|workload| options.has_workload(workload)).collect();
    let contenders: Vec<&Contender> =
        contenders::ALL.iter().filter(|contender| options.has_contender(contender.name)).collect();
    let has_choice = !workloads.is_empty() && !contenders.is_empty();
    ensure!(options.reports_only || has_choice, "nothing is chosen; --list prints the names");
    let program = server::ensure_installed()?;
    println!("server: {program}");
    let workshop = workshop()?;
    let built = build(&workshop, &contenders);
    let results = Results::at(workshop.folder.join(if options.quick { "quick" } else { "results" }))?;
    for workload in workloads {
        let workload = options.adapt(workload);
        let server = PrivateServer::start(program.path(), &workshop.folder)?;
        let record = one_workload(&workshop, &server, &options, &workload, &built)?;
        results.merge(&workload.name, record)?;
    }
    let place = if options.quick { workshop.folder.join("quick") } else { workshop.root.join("bench") };
    fs::create_dir_all(&place)?;
    report::write(&place, &results, &program.to_string(), &workshop)?;
    println!("\nwrote {}", place.join("RESULTS.md").display());
    Ok(())
}

/// The contenders, each with the reason why it cannot be built on this machine.
type Built<'a> = Vec<(&'a Contender, Option<String>)>;

/// Builds the programs of each language once.
fn build<'a>(workshop: &Workshop, contenders: &[&'a Contender]) -> Built<'a> {
    let mut reasons = BTreeMap::new();
    for contender in contenders {
        reasons.entry(contender.language).or_insert_with(|| {
            println!("building the contenders in {}", contender.language.name());
            workshop.build(contender.language).err().map(|error| one_line(&format!("{error:#}")))
        });
    }
    contenders.iter().map(|contender| (*contender, reasons[&contender.language].clone())).collect()
}

/// Runs all rounds of a workload.
fn one_workload(
    workshop: &Workshop,
    server: &PrivateServer,
    options: &Options,
    workload: &Workload,
    built: &Built,
) -> Result<Record> {
    println!("\n{}: {}", workload.name, workload.title);
    let mut benches: Vec<Bench> = Vec::new();
    let mut record = Record::new(&workshop.commit()?, options.repeats, workload.seconds)?;
    for (contender, reason) in built {
        match reason {
            Some(reason) => record.add(contender.name, Entry::refused(reason)),
            None => benches.push(Bench::new(workshop, server, workload, contender)),
        }
    }
    for bench in &mut benches {
        if let Err(error) = bench.warm_up(options.warm_up) {
            bench.refuse(&error);
        }
    }
    for round in 0..options.repeats {
        for turn in 0..benches.len() {
            let at = (round + turn) % benches.len();
            let bench = &mut benches[at];
            if let Err(error) = bench.run() {
                bench.refuse(&error);
            }
        }
    }
    for bench in benches {
        println!("  {}", bench.summary());
        record.add(bench.contender.name, bench.into_entry());
    }
    Ok(record)
}

/// Returns the first line of a failed build, which names its command, and the first line that names an error.
fn one_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("no reason given");
    match lines.find(|line| line.to_lowercase().contains("error")) {
        Some(error) => format!("{first}: {error}"),
        None => first.to_owned(),
    }
}

/// Describes the processor of this machine.
fn machine() -> Result<String> {
    let cores = std::thread::available_parallelism().context("cannot count the cores")?;
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    Ok(format!("{cores} cores, {}", model.unwrap_or("an unknown processor").trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_is_told_in_one_line() {
        let text =
            "the Go contenders: go build: exit status: 1\n# peers\n\n./a.go:1: Error: no such module\nmore\n";
        assert_eq!(
            one_line(text),
            "the Go contenders: go build: exit status: 1: ./a.go:1: Error: no such module"
        );
        assert_eq!(one_line("the Java contenders: cannot run mvn\n"), "the Java contenders: cannot run mvn");
    }
}
