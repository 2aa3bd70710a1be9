//! The comparison: the subjects alternate, so the load of the machine affects them equally.

use std::collections::BTreeSet;
use std::time::Duration;

use super::cost::Cost;
use super::subject::{SUBJECTS, Subject, World};

/// The approximate time of one turn of one subject.
const TURN: Duration = Duration::from_millis(80);

/// One subject with one number of tasks.
struct Record {
    subject: Subject,
    tasks: u32,
    /// The pairs of each task in one turn.
    pairs: u64,
    /// Nanoseconds from one pair to the next, of all tasks together, in each round.
    spacing: Vec<f64>,
    costs: Vec<Cost>,
}

/// Measures and prints.
pub(crate) fn print(world: &World, tasks: &BTreeSet<u32>, rounds: usize) {
    let fields: Vec<Vec<Record>> = tasks.iter().map(|tasks| compete(world, *tasks, rounds)).collect();
    if fields.is_empty() {
        return;
    }
    println!(
        "Time of leasehold's pair (acquire and release) as a multiple of the other's, median of {rounds}"
    );
    println!("rounds in which all take turns (smallest..largest):\n");
    println!("| tasks | {} |", names(&SUBJECTS[1..]));
    println!("|--:|{}", "--:|".repeat(SUBJECTS.len() - 1));
    for field in &fields {
        let ratios: Vec<String> = field[1..].iter().map(|other| ratio(&field[0], other)).collect();
        println!("| {} | {} |", field[0].tasks, ratios.join(" | "));
    }
    println!("\nPer pair, in the same rounds (medians; processor time and sleeps are of all threads):\n");
    println!(
        "| tasks | subject | pairs/s | latency us | client cpu us | server cpu us | sleeps | commands |"
    );
    println!("|--:|---|--:|--:|--:|--:|--:|--:|");
    for record in fields.iter().flatten() {
        println!("{}", record.row());
    }
}

/// Measures all subjects with one number of tasks.
fn compete(world: &World, tasks: u32, rounds: usize) -> Vec<Record> {
    let mut field: Vec<Record> = SUBJECTS
        .into_iter()
        .map(|subject| Record {
            subject,
            tasks,
            pairs: pairs_for(world, subject, tasks),
            spacing: Vec::new(),
            costs: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        // The order rotates, because a subject finds the processor as the previous one left it.
        for turn in 0..field.len() {
            let record = &mut field[(round + turn) % SUBJECTS.len()];
            let before = Cost::now(&world.server);
            let took = world.run(record.subject, tasks, record.pairs);
            record.costs.push(Cost::now(&world.server) - before);
            record.spacing.push(nanos(took) / record.all_pairs());
        }
    }
    field
}

/// The pairs of each task that fill an undisturbed turn; the search also warms up.
fn pairs_for(world: &World, subject: Subject, tasks: u32) -> u64 {
    let fastest = |pairs| (0..3).map(|_| world.run(subject, tasks, pairs)).min();
    let mut pairs = 4;
    loop {
        let took = nanos(fastest(pairs).unwrap_or_default());
        if took * 4.0 >= nanos(TURN) {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small positive number"
            )]
            return ((nanos(TURN) / took * as_float(pairs)) as u64).max(1);
        }
        pairs *= 2;
    }
}

impl Record {
    /// The pairs of all tasks in one turn.
    fn all_pairs(&self) -> f64 {
        as_float(self.pairs) * f64::from(self.tasks)
    }

    fn row(&self) -> String {
        let spacing = median(&self.spacing);
        let cost = |number: fn(&Cost) -> u64| {
            let numbers: Vec<f64> = self.costs.iter().map(|cost| as_float(number(cost))).collect();
            median(&numbers) / self.all_pairs()
        };
        format!(
            "| {} | {} | {:.0} | {:.1} | {:.1} | {:.1} | {:.2} | {:.2} |",
            self.tasks,
            self.subject.name(),
            1e9 / spacing,
            spacing * f64::from(self.tasks) / 1e3,
            cost(|cost| cost.client_cpu) / 1e3,
            cost(|cost| cost.server_cpu) / 1e3,
            cost(|cost| cost.sleeps),
            cost(|cost| cost.commands),
        )
    }
}

fn ratio(ours: &Record, other: &Record) -> String {
    let ratios: Vec<f64> =
        ours.spacing.iter().zip(&other.spacing).map(|(ours, other)| ours / other).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!("{:.2} ({least:.2}..{most:.2})", median(&ratios))
}

fn names(subjects: &[Subject]) -> String {
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name()).collect();
    names.join(" | ")
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

fn nanos(span: Duration) -> f64 {
    span.as_secs_f64() * 1e9
}

#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn as_float(count: u64) -> f64 {
    count as f64
}
