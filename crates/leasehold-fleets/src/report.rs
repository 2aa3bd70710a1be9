//! Prints the tables and the verdict of a campaign.

use std::collections::{BTreeMap, BTreeSet};

use crate::attempt::Attempt;
use crate::clock::SECOND;
use crate::fault::{Fault, Topology};
use crate::faults::{Course, cause};
use crate::judge::{KeptLoss, Overlap, kept_losses, losses, overlaps, probes, tokens, waits};
use crate::policy::Policy;
use crate::subscriptions::Listeners;

/// The longest time from the end of a wait to its outcome, and from the last sight of a valid guard to the report of its
/// loss. The machine that runs a whole fleet is busy, and frozen workers sleep for up to a second.
const LATE: u64 = 3 * SECOND;
/// The time limit for each client to be granted a lock after a fault.
pub(crate) const SERVED_WITHIN: u64 = 10 * SECOND;
/// The number of faults that lose grants after which a policy without confirmation must have shown a double grant.
const TOO_GENTLE_AFTER: usize = 16;

/// The results of one fleet.
#[derive(Debug)]
pub struct Outcome {
    /// The topology.
    pub topology: Topology,
    /// True if the connections were encrypted and the workers' user had the fewest rights.
    pub is_secured: bool,
    /// The faults.
    pub courses: Vec<Course>,
    /// The subscriptions of waiters after each fault.
    pub aftermaths: Vec<Listeners>,
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
    /// The holds that were lost although the fleet had kept them.
    kept: usize,
    /// The sums of the subscriptions after each fault.
    listeners: Listeners,
}

/// Prints the tables of one fleet. Returns true if each tier kept its promises.
#[must_use]
pub fn print(outcome: &Outcome) -> bool {
    let topology = outcome.topology;
    let doubles = overlaps(&outcome.attempts);
    let kept = kept_losses(&outcome.attempts, &outcome.courses, topology);
    let rows = rows(outcome, &doubles, &kept);
    print_rows(outcome, &rows);
    print_old_masters(topology, &rows);
    print_overlaps(outcome, &doubles);
    print_totals(outcome);
    let mut findings = findings(outcome, &doubles, &kept);
    findings.extend(unserved(&rows));
    findings.iter().for_each(|finding| println!("BROKEN: {finding}"));
    findings.is_empty()
}

fn rows(outcome: &Outcome, doubles: &[Overlap], kept: &[KeptLoss]) -> BTreeMap<Fault, Row> {
    let mut rows: BTreeMap<Fault, Row> = BTreeMap::new();
    for (course, listeners) in outcome.courses.iter().zip(&outcome.aftermaths) {
        let row = rows.entry(course.fault).or_default();
        row.faults += 1;
        row.serves = row.serves.max(course.serves - course.began);
        row.settles = row.settles.max(course.settled - course.began);
        row.listeners.waiting += listeners.waiting;
        row.listeners.alive += listeners.alive;
    }
    kept.iter().filter_map(|loss| loss.fault).for_each(|fault| rows.entry(fault).or_default().kept += 1);
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
            let ready = course.ready(policy);
            // After the last fault the workers may have ended.
            let end = if next_fault == u64::MAX { ready } else { next_fault };
            let without = first.unwrap_or(end).min(end).saturating_sub(ready);
            let longest = rows.entry(course.fault).or_default().grants.entry(policy).or_default();
            *longest = (*longest).max(without);
        }
    }
    rows
}

fn print_rows(outcome: &Outcome, rows: &BTreeMap<Fault, Row>) {
    let topology = outcome.topology;
    let secured = if outcome.is_secured { " with TLS and the fewest rights" } else { "" };
    println!(
        "\n{topology:?}{secured}: faults with double grants (and double grants); times are the longest, in seconds; \
         lost holds that the fleet had kept; subscriptions of those that waited"
    );
    print!("{:<22}{:>7}", "fault", "faults");
    topology.policies().iter().for_each(|policy| print!("{:>13}", policy.name()));
    println!("{:>8}{:>8}{:>5}{:>12}  then a grant, by policy", "serves", "settled", "kept", "listening");
    for (fault, row) in rows {
        print!("{:<22}{:>7}", format!("{fault:?}"), row.faults);
        topology.policies().iter().for_each(|policy| print!("{:>13}", row.cell(*policy)));
        let grants: Vec<_> =
            topology.policies().iter().map(|policy| row.grants.get(policy).copied()).collect();
        let grants: Vec<_> = grants.into_iter().map(|time| time.map_or("-".to_owned(), seconds)).collect();
        let listening = format!("{}/{}", row.listeners.alive, row.listeners.waiting);
        let (serves, settles, kept) = (seconds(row.serves), seconds(row.settles), row.kept);
        println!("{serves:>8}{settles:>8}{kept:>5}{listening:>12}  {}", grants.join(" "));
    }
}

impl Row {
    fn cell(&self, policy: Policy) -> String {
        match self.doubles.get(&policy) {
            None => "0".to_owned(),
            Some((faults, count)) => format!("{} ({count})", faults.len()),
        }
    }
}

/// Prints how often a master that wakes after a failover shared in a double grant, for each policy.
fn print_old_masters(topology: Topology, rows: &BTreeMap<Fault, Row>) {
    let rows: Vec<&Row> =
        rows.iter().filter(|(fault, _)| fault.wakes_an_old_master()).map(|(_, row)| row).collect();
    let faults: usize = rows.iter().map(|row| row.faults).sum();
    if faults == 0 {
        return;
    }
    let of = |policy: &Policy| {
        let doubled: usize =
            rows.iter().filter_map(|row| row.doubles.get(policy)).map(|(faults, _)| faults.len()).sum();
        format!("{} {doubled}", policy.name())
    };
    let cells: Vec<String> = topology.policies().iter().map(of).collect();
    println!("an old master woke after {faults} failovers; with double grants: {}", cells.join(", "));
}

/// Prints the number of overlaps under each fault and the longest one.
fn print_overlaps(outcome: &Outcome, doubles: &[Overlap]) {
    let mut lengths: BTreeMap<Fault, Vec<u64>> = BTreeMap::new();
    for double in doubles {
        if let Some(course) = cause(&outcome.courses, double.at) {
            lengths.entry(course.fault).or_default().push(double.length);
        }
    }
    for (fault, lengths) in lengths {
        let longest = lengths.iter().max().copied().unwrap_or_default();
        println!("overlaps under {fault:?}: {}, the longest {} s", lengths.len(), seconds(longest));
    }
    let in_flight: usize = outcome.courses.iter().map(|course| course.in_flight).sum();
    if in_flight > 0 {
        println!("acquires on their way to a frozen master when it resumed: {in_flight}");
    }
}

/// Finds each overlap that the policy allows, and that lasted longer than a client may take to notice.
fn too_long(outcome: &Outcome, doubles: &[Overlap]) -> Vec<String> {
    let finding = |double: &Overlap| {
        let fault = cause(&outcome.courses, double.at)?.fault;
        let is_long = u128::from(double.length) > fault.longest_overlap().as_micros();
        is_long
            .then(|| format!("two guards valid for {} s under {fault:?}: {double:?}", seconds(double.length)))
    };
    doubles.iter().filter_map(finding).collect()
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
fn findings(outcome: &Outcome, doubles: &[Overlap], kept: &[KeptLoss]) -> Vec<String> {
    let mut findings = outcome.findings.clone();
    findings.extend(doubles.iter().filter_map(|double| {
        let fault = cause(&outcome.courses, double.at).map(|course| course.fault);
        let covered = fault.is_none_or(|fault| fault.is_covered_by(double.policy, outcome.topology));
        covered.then(|| format!("double grant under {fault:?}: {double:?}"))
    }));
    findings.extend(too_long(outcome, doubles));
    findings.extend(tokens(&outcome.attempts).iter().map(|breach| format!("{breach:?}")));
    findings.extend(kept.iter().map(|loss| format!("lost although the fleet had kept it: {loss:?}")));
    let silent =
        outcome.courses.iter().zip(&outcome.aftermaths).filter(|(_, after)| after.alive < after.waiting);
    findings.extend(
        silent.map(|(course, after)| format!("waiters without a subscription after {course}: {after:?}")),
    );
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
        if losses.latest > LATE {
            let late = seconds(losses.latest);
            findings.push(format!(
                "a loss of {} was reported {late} s after the last sight of its guard",
                policy.name()
            ));
        }
    }
    findings.extend(too_gentle(outcome, doubles));
    findings
}

/// Finds the policies whose probes were granted nothing for as long as the campaign waits for them after a fault, which is
/// from the time at which the fleet has settled.
fn unserved(rows: &BTreeMap<Fault, Row>) -> Vec<String> {
    let of_row = |(fault, row): (&Fault, &Row)| {
        let most = SERVED_WITHIN + row.settles.saturating_sub(row.serves);
        let late = row.grants.iter().filter(|(_, longest)| **longest > most);
        let text = |(policy, longest): (&Policy, &u64)| {
            format!("no probe of {} was granted for {} s after {fault:?}", policy.name(), seconds(*longest))
        };
        late.map(text).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of_row).collect()
}

/// The control of the laboratory: without confirmation, faults that lose grants must grant twice.
fn too_gentle(outcome: &Outcome, doubles: &[Overlap]) -> Option<String> {
    let policies = outcome.topology.policies();
    let losing = outcome.courses.iter().filter(|course| course.fault.loses_grants()).count();
    let shown = doubles.iter().any(|double| matches!(double.policy, Policy::Replicated | Policy::Fenced));
    let gentle = policies.contains(&Policy::Replicated) && losing >= TOO_GENTLE_AFTER && !shown;
    gentle.then(|| format!("no double grant without confirmation in {losing} faults: too gentle"))
}

fn seconds(microseconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "times of minutes")]
    let seconds = microseconds as f64 / 1e6;
    format!("{seconds:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_guards_that_are_valid_for_longer_than_a_check_takes_are_a_finding() {
        let course = Course {
            fault: Fault::MasterThawed,
            began: 5,
            serves: 6,
            settled: 7,
            masters: Vec::new(),
            in_flight: 1,
        };
        let found = |length: u64| {
            let attempts = vec![Attempt::example(0, 10, 20 + length), Attempt::example(1, 20, 20 + length)];
            let outcome = Outcome {
                topology: Topology::Cluster,
                is_secured: false,
                courses: vec![course.clone()],
                aftermaths: Vec::new(),
                attempts,
                findings: Vec::new(),
            };
            too_long(&outcome, &overlaps(&outcome.attempts)).len()
        };
        assert_eq!((found(1_500_000), found(1_500_001)), (0, 1));
    }

    #[test]
    fn a_policy_that_is_not_served_after_a_fault_is_a_finding() {
        let row = |longest| Row {
            grants: [(Policy::Replicated, longest)].into(),
            serves: SECOND,
            settles: 3 * SECOND,
            ..Row::default()
        };
        let rows = [(Fault::MasterKilled, row(11 * SECOND)), (Fault::MasterFrozen, row(13 * SECOND))];
        let found = unserved(&rows.into());
        assert_eq!(found, ["no probe of replicated was granted for 13.00 s after MasterFrozen"]);
    }
}
