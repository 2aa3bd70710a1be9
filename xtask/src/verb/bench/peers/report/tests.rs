//! Tests of the tables.

use super::super::record::Figures;
use super::*;

fn workload(name: &str) -> Workload {
    workloads::all().into_iter().find(|workload| workload.name == name).unwrap()
}

fn runs(figure: &str, values: &[f64]) -> Entry {
    Entry::Runs(values.iter().map(|value| Figures::from([(figure.to_owned(), *value)])).collect())
}

fn record(entries: &[(&str, Entry)]) -> Record {
    let mut record = Record::of("2026-01-01, abc, 3 rounds of 1 s");
    for (name, entry) in entries {
        record.add(name, entry.clone());
    }
    record
}

#[test]
fn a_row_has_the_median_the_range_and_both_ratios() {
    let record = record(&[
        ("leasehold", runs("rate", &[300.0, 100.0, 200.0])),
        (HANDWRITTEN, runs("rate", &[100.0, 50.0, 100.0])),
        ("rlock", runs("rate", &[150.0, 200.0, 200.0])),
    ]);
    let text = section(&workload("pairs-8"), &record);
    assert!(text.contains("| leasehold | 200 (100..300) | 1.00 | 2.00 |"), "{text}");
    assert!(text.contains("| hand-written | 100 (50..100) | 0.50 | 1.00 |"), "{text}");
    assert!(text.contains("pairs-8: 2026-01-01, abc, 3 rounds of 1 s."), "{text}");
}

#[test]
fn less_is_better_for_times() {
    let column = columns(&workload("handover"))[0];
    let record =
        record(&[("leasehold", runs(column.figure, &[100.0])), (HANDWRITTEN, runs(column.figure, &[400.0]))]);
    assert_eq!(beside(&record, column, "leasehold", HANDWRITTEN), "4.00");
    assert_eq!(beside(&record, column, "leasehold", "rlock"), "–");
    assert_eq!(best(&record, column, |_| true).unwrap().0.name, "leasehold");
}

#[test]
fn a_peer_without_a_workload_has_a_dash_and_the_reason() {
    let record = record(&[("rslock", Entry::refused("it does not | renew"))]);
    let text = section(&workload("held-1000"), &record);
    let line = text.lines().find(|line| line.starts_with("| rslock")).unwrap();
    assert!(line.starts_with("| rslock | – it does not / renew |"), "{line}");
    let header = text.lines().find(|line| line.starts_with("| contender")).unwrap();
    assert_eq!(line.matches('|').count(), header.matches('|').count(), "{line}");
}

#[test]
fn a_contender_that_breaks_exclusion_is_named_and_never_the_best() {
    let wrong = Figures::from([("rate".to_owned(), 900.0), ("violations".to_owned(), 2.0)]);
    let record = record(&[("rlock", Entry::Runs(vec![wrong])), ("rslock", runs("rate", &[10.0]))]);
    let workload = workload("hot-8-0ms");
    assert_eq!(best(&record, columns(&workload)[0], |_| true).unwrap().0.name, "rslock");
    assert!(section(&workload, &record).contains("**rlock: 2 sections overlapped another section**"));
}

#[test]
fn the_overview_reports_a_loss() {
    let record = record(&[
        ("leasehold", runs("rate", &[50.0])),
        ("leasehold run", runs("rate", &[40.0])),
        (HANDWRITTEN, runs("rate", &[100.0])),
    ]);
    let line = overview_row(&workload("pairs-64"), &record);
    assert!(
        line.ends_with("| 50 pairs/s (leasehold) | 100 pairs/s (hand-written) | 0.50 | 0.50 |\n"),
        "{line}"
    );
}

#[test]
fn the_overview_keeps_the_rows_of_groups_that_were_not_measured() {
    let title = |name| workload(name).title;
    let (held, one, many) = (title("held-1000"), title("pairs-1"), title("pairs-8"));
    let page = format!(
        "\n## Overview\n\n| {held} | kept |\n| {one} | earlier |\n| {many} | earlier |\n\n## Contenders\n"
    );
    let measured = record(&[("leasehold", runs("p50", &[50.0]))]);
    let workloads =
        [(workload("held-1000"), None), (workload("pairs-1"), Some(measured)), (workload("pairs-8"), None)];
    let text = overview(&workloads, &Earlier::of(&page));
    assert!(text.contains(&format!("| {held} | kept |\n")), "{text}");
    assert!(text.contains(&one) && !text.contains("earlier") && !text.contains(&many), "{text}");
}

#[test]
fn every_workload_has_a_group_and_columns() {
    for workload in workloads::all() {
        assert!(GROUPS.iter().any(|(group, _)| *group == workload.group), "{}", workload.name);
        assert!(!columns(&workload).is_empty());
    }
}
