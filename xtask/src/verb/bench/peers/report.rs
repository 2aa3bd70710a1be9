//! The report: `RESULTS.md` and its plots.
//!
//! Invariant: a group of which nothing was measured keeps its part of the earlier report.

mod earlier;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::columns::{Column, columns};
use super::contenders::{self, Contender, HANDWRITTEN};
use super::machine;
use super::plot::{self, Bar, Panel};
use super::record::{Entry, Record, Results};
use super::statistics::{median, range, ratio};
use super::workloads::{self, Workload};
use crate::shell::output;
use crate::toolchains::{Workshop, versions};
use earlier::Earlier;

/// The groups of the report, with their titles.
const GROUPS: [(&str, &str); 7] = [
    ("pairs", "Locks of their own"),
    ("hot", "One hot lock in one process"),
    ("fleet", "One hot lock over processes"),
    ("handover", "Hand-over between processes"),
    ("held", "Held locks"),
    ("idle", "Idle waiters"),
    ("kinds", "Fair lock, read-write lock and semaphore"),
];

/// Writes the report of all records into a folder.
pub(super) fn write(folder: &Path, results: &Results, server: &str, workshop: &Workshop) -> Result<()> {
    let mut workloads = Vec::new();
    for workload in workloads::all() {
        let record = results.load(&workload.name)?;
        workloads.push((workload, record));
    }
    let path = folder.join("RESULTS.md");
    let earlier = Earlier::read(&path);
    let plots = folder.join("plots");
    fs::create_dir_all(&plots)?;
    let mut page = head(server)?;
    page += &contender_table(workshop)?;
    page += &overview(&workloads, &earlier);
    for (group, title) in GROUPS {
        let members: Vec<_> = members(&workloads, group).collect();
        if members.is_empty() {
            page += earlier.group(title).unwrap_or_default();
            continue;
        }
        let panels: Vec<Panel> = members.iter().map(|(workload, record)| panel(workload, record)).collect();
        fs::write(plots.join(format!("{group}.svg")), plot::svg(title, &panels))?;
        let _ = write!(page, "\n## {title}\n\n![{title}](plots/{group}.svg)\n");
        for (workload, record) in members {
            page += &section(workload, record);
        }
    }
    Ok(fs::write(path, page)?)
}

/// The workloads of a group that were measured, with their records.
fn members<'a>(
    workloads: &'a [(Workload, Option<Record>)],
    group: &str,
) -> impl Iterator<Item = (&'a Workload, &'a Record)> {
    let of_group = workloads.iter().filter(move |(workload, _)| workload.group == group);
    of_group.filter_map(|(workload, record)| Some((workload, record.as_ref()?)))
}

fn head(server: &str) -> Result<String> {
    Ok(format!(
        "# Results\n\nWritten by `cargo x bench peers`; [the method](peers/README.md) says what is measured. {}, {server}, \
         client and server on one machine.\n\nA value is the median of the rounds, with the range of its first column. \
         The two ratios compare the first column with that of the best peer and of the hand-written lock, as the median \
         of the ratios of each round. Above 1 is better. CPU and commands are per pair or grant unless the header says \
         otherwise.\n",
        machine()?
    ))
}

fn contender_table(workshop: &Workshop) -> Result<String> {
    let mut table =
        "\n## Contenders\n\n| contender | package | language | waits by |\n|---|---|---|---|\n".to_owned();
    for contender in &contenders::ALL {
        let version = versions::of(contender.language, contender.package, workshop)?;
        let tool = output(&mut contender.language.version()).unwrap_or_else(|_| "not installed".to_owned());
        let tool = tool.lines().next().unwrap_or_default();
        let Contender { name, package, waits, language, .. } = contender;
        let _ = writeln!(table, "| {name} | {package} {version} | {}: {tool} | {waits} |", language.name());
    }
    Ok(table)
}

/// The best contender of this library beside the best peer, for each workload.
fn overview(workloads: &[(Workload, Option<Record>)], earlier: &Earlier) -> String {
    let mut table =
        "\n## Overview\n\n| workload | leasehold | best peer | beside best peer | beside hand-written |\n\
                     |---|--:|--:|--:|--:|\n"
            .to_owned();
    for (workload, record) in workloads {
        match record {
            Some(record) => table += &overview_row(workload, record),
            None if members(workloads, workload.group).next().is_none() => {
                table += earlier.overview_row(&workload.title).unwrap_or_default();
            }
            None => {}
        }
    }
    table
}

fn overview_row(workload: &Workload, record: &Record) -> String {
    let column = columns(workload)[0];
    let ours = best(record, column, |contender| contender.is_ours() && !contender.is_pinned);
    let peer = best(record, column, |contender| !contender.is_ours());
    let describe = |found: Option<(&Contender, f64)>| {
        found.map_or_else(
            || "–".to_owned(),
            |(contender, value)| format!("{} {} ({})", column.format(value), column.header, contender.name),
        )
    };
    let beside = |other: Option<&str>| {
        ours.zip(other)
            .map_or_else(|| "–".to_owned(), |((own, _), other)| beside(record, column, own.name, other))
    };
    format!(
        "| {} | {} | {} | {} | {} |\n",
        workload.title,
        describe(ours),
        describe(peer),
        beside(peer.map(|(contender, _)| contender.name)),
        beside(Some(HANDWRITTEN)),
    )
}

/// The table of a workload, and what its figures hide.
fn section(workload: &Workload, record: &Record) -> String {
    let columns = columns(workload);
    let peer =
        best(record, columns[0], |contender| !contender.is_ours()).map(|(contender, _)| contender.name);
    let mut text = format!("\n### {}\n\n", capital(&workload.title));
    let headers: Vec<&str> = columns[1..].iter().map(|column| column.header).collect();
    let _ = writeln!(
        text,
        "| contender | {} | beside best peer | beside hand-written | {} |\n|---|--:|--:|--:|{}",
        columns[0].header,
        headers.join(" | "),
        "--:|".repeat(headers.len())
    );
    for contender in &contenders::ALL {
        match record.entries.get(contender.name) {
            Some(entry @ Entry::Runs(_)) => {
                let _ = writeln!(text, "{}", row(contender.name, entry, record, columns, peer));
            }
            Some(Entry::Refused(reason)) => {
                let rest = " |".repeat(columns.len() + 2);
                let _ = writeln!(text, "| {} | – {}{rest}", contender.name, cell(reason));
            }
            None => {}
        }
    }
    let warnings = warnings(record);
    if !warnings.is_empty() {
        let _ = write!(text, "\n{}\n", warnings.join("\n"));
    }
    let _ = write!(text, "\n{}: {}.\n", workload.name, record.origins().join("; "));
    text
}

fn row(name: &str, entry: &Entry, record: &Record, columns: &[Column], peer: Option<&str>) -> String {
    let first = columns[0];
    let values = entry.figures(first.figure);
    let value = median(&values).map_or_else(
        || "–".to_owned(),
        |value| {
            let (least, most) = range(&values);
            let value = first.format(value);
            if values.len() > 1 {
                format!("{value} ({}..{})", first.format(least), first.format(most))
            } else {
                value
            }
        },
    );
    let others = columns[1..].iter().map(|column| {
        median(&entry.figures(column.figure)).map_or_else(|| "–".to_owned(), |value| column.format(value))
    });
    let ratios = [peer, Some(HANDWRITTEN)]
        .map(|other| other.map_or_else(|| "–".to_owned(), |other| beside(record, first, name, other)));
    let cells: Vec<String> = [value].into_iter().chain(ratios).chain(others).collect();
    format!("| {name} | {} |", cells.join(" | "))
}

/// Returns the ratio of two contenders, above 1 if the first is better.
fn beside(record: &Record, column: Column, one: &str, other: &str) -> String {
    let figures = |name: &str| record.entries.get(name).map(|entry| entry.figures(column.figure));
    let (Some(one), Some(other)) = (figures(one), figures(other)) else {
        return "–".to_owned();
    };
    let found = if column.more_is_better { ratio(&one, &other) } else { ratio(&other, &one) };
    found.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// Returns the contender with the best median. Contenders that broke the rules of locks do not count.
fn best(
    record: &Record,
    column: Column,
    is_chosen: fn(&Contender) -> bool,
) -> Option<(&'static Contender, f64)> {
    let chosen = contenders::ALL.iter().filter(|contender| is_chosen(contender));
    let medians = chosen.filter_map(|contender| {
        let entry = record.entries.get(contender.name)?;
        let is_right = FAULTS.iter().all(|(fault, _)| entry.figures(fault).iter().sum::<f64>() == 0.0);
        Some((contender, median(&entry.figures(column.figure)).filter(|_| is_right)?))
    });
    medians.min_by(|one, other| {
        let order = one.1.total_cmp(&other.1);
        if column.more_is_better { order.reverse() } else { order }
    })
}

/// The figures that are wrong above zero.
const FAULTS: [(&str, &str); 4] = [
    ("violations", "sections overlapped another section"),
    ("errors", "sections failed"),
    ("lost", "held locks were lost"),
    ("unserved", "waiters were not served in time"),
];

fn warnings(record: &Record) -> Vec<String> {
    let mut warnings = Vec::new();
    for contender in &contenders::ALL {
        let Some(entry) = record.entries.get(contender.name) else { continue };
        for (figure, what) in FAULTS {
            let sum: f64 = entry.figures(figure).iter().sum();
            if sum > 0.0 {
                warnings.push(format!("- **{}: {sum:.0} {what}**, in all rounds together.", contender.name));
            }
        }
    }
    warnings
}

fn panel(workload: &Workload, record: &Record) -> Panel {
    let column = columns(workload)[0];
    let bars = contenders::ALL.iter().filter_map(|contender| {
        let value = median(&record.entries.get(contender.name)?.figures(column.figure))?;
        let label = contender.name.to_owned();
        Some(Bar { label, value, text: column.format(value), is_ours: contender.is_ours() })
    });
    let direction = if column.more_is_better { "more" } else { "less" };
    let title = format!("{}: {}, {direction} is better", workload.title, column.header);
    Panel { title, bars: bars.collect() }
}

/// Returns a text that fits into a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "/").replace('\n', " ")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}

impl Record {
    /// Returns the origins of all entries, each once.
    fn origins(&self) -> Vec<String> {
        let origins: BTreeSet<&String> = self.origins.values().collect();
        origins.into_iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
