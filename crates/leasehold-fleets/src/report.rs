//! The tables, and the verdict.

use std::collections::{BTreeMap, BTreeSet};

use crate::attempt::Attempt;
use crate::clock::SECOND;
use crate::fault::{Fault, Topology};
use crate::faults::Course;
use crate::judge::{Overlap, losses, overlaps, tokens, waits};
use crate::policy::{Kind, Policy};

/// The longest time from the end of a wait to its outcome. The machine that runs a whole fleet is busy.
const LATE: u64 = 3 * SECOND;
/// The number of faults that lose grants after which *replicated* must have shown a double grant.
const TOO_GENTLE_AFTER: usize = 8;

/// The results of one fleet.
#[derive(Debug)]
pub struct Outcome {
    /// The topology.
    pub topology: Topology,
    /// The faults.
    pub courses: Vec<Course>,
    /// The attempts of all workers.
    pub attempts: Vec<Attempt>,
    /// The findings that need no log: keys and channels left, workers that did not end.
    pub findings: Vec<String>,
}

/// One row: a fault and what followed.
#[derive(Debug, Default)]
struct Row {
    faults: usize,
    /// For each policy: the faults with double grants, and the double grants.
    doubles: BTreeMap<Policy, (BTreeSet<u64>, usize)>,
    /// The longest time until the server side served again.
    serves: u64,
    settles: u64,
    /// For each policy: the longest time without a grant after that, up to the next fault.
    grants: BTreeMap<Policy, u64>,
}

/// Prints the tables of one fleet. Returns true if each tier kept its promises.
#[must_use]
pub fn print(outcome: &Outcome) -> bool {
    let topology = outcome.topology;
    let doubles = overlaps(&outcome.attempts);
    let rows = rows(outcome, &doubles);
    print_rows(topology, &rows);
    print_totals(outcome);
    let findings = findings(outcome, &doubles);
    findings.iter().for_each(|finding| println!("BROKEN: {finding}"));
    findings.is_empty()
}

/// Returns the last fault that began before a time.
fn cause(courses: &[Course], at: u64) -> Option<&Course> {
    courses.iter().rev().find(|course| course.began <= at)
}

fn rows(outcome: &Outcome, doubles: &[Overlap]) -> BTreeMap<Fault, Row> {
    let mut rows: BTreeMap<Fault, Row> = BTreeMap::new();
    for course in &outcome.courses {
        let row = rows.entry(course.fault).or_default();
        row.faults += 1;
        row.serves = row.serves.max(course.serves - course.began);
        row.settles = row.settles.max(course.settled - course.began);
    }
    for double in doubles {
        let Some(course) = cause(&outcome.courses, double.at) else { continue };
        let row = rows.entry(course.fault).or_default();
        let (faults, count) = row.doubles.entry(double.policy).or_default();
        faults.insert(course.began);
        *count += 1;
    }
    for ((policy, _), granted) in probes(&outcome.attempts) {
        for (place, course) in outcome.courses.iter().enumerate() {
            let next_fault = outcome.courses.get(place + 1).map_or(u64::MAX, |next| next.began);
            let first = granted.get(granted.partition_point(|&at| at < course.serves)).copied();
            // Replicas that confirm have to follow first.
            let ready = if policy.confirm(1).is_some() { course.settled } else { course.serves };
            // After the last fault the workers may have ended.
            let end = if next_fault == u64::MAX { ready } else { next_fault };
            let without = first.unwrap_or(end).min(end).saturating_sub(ready);
            let longest = rows.entry(course.fault).or_default().grants.entry(policy).or_default();
            *longest = (*longest).max(without);
        }
    }
    rows
}

/// Returns the times of the grants of each probe.
fn probes(attempts: &[Attempt]) -> BTreeMap<(Policy, &str), Vec<u64>> {
    let mut probes: BTreeMap<(Policy, &str), Vec<u64>> = BTreeMap::new();
    for attempt in attempts.iter().filter(|attempt| attempt.kind == Kind::Probe) {
        let granted = probes.entry((attempt.policy, attempt.name.as_str())).or_default();
        granted.extend(attempt.hold.as_ref().map(|hold| hold.from));
    }
    probes.values_mut().for_each(|granted| granted.sort_unstable());
    probes
}

fn print_rows(topology: Topology, rows: &BTreeMap<Fault, Row>) {
    println!(
        "\n{topology:?}: faults with double grants (and double grants); times are the longest, in seconds"
    );
    print!("{:<22}{:>7}", "fault", "faults");
    topology.policies().iter().for_each(|policy| print!("{:>13}", policy.name()));
    println!("{:>9}{:>9}  then a grant, by policy", "serves", "settled");
    for (fault, row) in rows {
        print!("{:<22}{:>7}", format!("{fault:?}"), row.faults);
        for policy in topology.policies() {
            let cell = match row.doubles.get(policy) {
                None => "0".to_owned(),
                Some((faults, count)) => format!("{} ({count})", faults.len()),
            };
            print!("{cell:>13}");
        }
        let grants: Vec<_> =
            topology.policies().iter().map(|policy| row.grants.get(policy).copied()).collect();
        let grants: Vec<_> = grants.into_iter().map(|time| time.map_or("-".to_owned(), seconds)).collect();
        println!("{:>9}{:>9}  {}", seconds(row.serves), seconds(row.settles), grants.join(" "));
    }
}

fn print_totals(outcome: &Outcome) {
    let waits = waits(&outcome.attempts);
    println!(
        "attempts {}, grants {}, failed {}, without an outcome {}, outcome after the wait at most {} s",
        waits.attempts,
        waits.grants,
        waits.failed,
        waits.stuck,
        seconds(waits.latest)
    );
    for (policy, losses) in losses(&outcome.attempts) {
        println!(
            "lost {:<12}{:?}, latest {} s after the last sight of a valid guard, {} while valid",
            policy.name(),
            losses.reasons,
            seconds(losses.latest),
            losses.premature
        );
    }
}

/// Returns each broken promise.
fn findings(outcome: &Outcome, doubles: &[Overlap]) -> Vec<String> {
    let mut findings = outcome.findings.clone();
    findings.extend(doubles.iter().filter_map(|double| {
        let fault = cause(&outcome.courses, double.at).map(|course| course.fault);
        let covered = fault.is_none_or(|fault| fault.is_covered_by(double.policy, outcome.topology));
        covered.then(|| format!("double grant under {fault:?}: {double:?}"))
    }));
    findings.extend(tokens(&outcome.attempts).iter().map(|breach| format!("{breach:?}")));
    let waits = waits(&outcome.attempts);
    if waits.stuck > 0 {
        findings.push(format!("{} attempts without an outcome", waits.stuck));
    }
    if waits.latest > LATE {
        findings.push(format!("an outcome {} s after the end of its wait", seconds(waits.latest)));
    }
    for (policy, losses) in losses(&outcome.attempts) {
        if losses.premature > 0 {
            findings.push(format!("{} of {} were lost while valid", losses.premature, policy.name()));
        }
    }
    findings.extend(too_gentle(outcome, doubles));
    findings
}

/// The control of the laboratory: without confirmation, faults that lose grants must grant twice.
fn too_gentle(outcome: &Outcome, doubles: &[Overlap]) -> Option<String> {
    let policies = outcome.topology.policies();
    let losing = outcome.courses.iter().filter(|course| course.fault.loses_grants()).count();
    let shown = doubles.iter().any(|double| double.policy == Policy::Replicated);
    let gentle = policies.contains(&Policy::Replicated) && losing >= TOO_GENTLE_AFTER && !shown;
    gentle.then(|| format!("no double grant without confirmation in {losing} faults: too gentle"))
}

fn seconds(microseconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "times of minutes")]
    let seconds = microseconds as f64 / 1e6;
    format!("{seconds:.2}")
}
