//! The output of the command.
//!
//! Invariant: a violation is printed with all that is needed to reproduce it.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::history::Event;
use crate::plan::Plan;
use crate::runner::{Outcome, Summary, replay};
use crate::shrink::{numbers, shrink};

/// The number of events that are printed before a violation.
const EVENTS_BEFORE: usize = 60;

/// A summary with its duration.
pub(crate) struct Report<'a> {
    /// The totals of all seeds.
    pub(crate) summary: &'a Summary,
    /// The duration by the wall clock.
    pub(crate) took: Duration,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { seeds, histories, simulated, grants, scripts, faults, violation } = self.summary;
        let per_second = *seeds as f64 / self.took.as_secs_f64().max(1e-9);
        writeln!(f, "seeds             {seeds}, {per_second:.1} a second")?;
        writeln!(f, "histories         {histories:016x}")?;
        writeln!(f, "simulated         {:.1} hours", simulated.as_secs_f64() / 3_600.0)?;
        writeln!(f, "grants checked    {}", grants.values().sum::<u64>())?;
        for (primitive, count) in grants {
            writeln!(f, "  {:<28}{count}", primitive.to_string())?;
        }
        writeln!(f, "scripts run       {scripts}")?;
        writeln!(f, "faults injected   {}", faults.values().sum::<u64>())?;
        for (kind, count) in faults {
            writeln!(f, "  {:<28}{count}", kind.to_string())?;
        }
        write!(f, "violations        {}", u8::from(violation.is_some()))
    }
}

/// Formats a violation: its seed, the required faults, the history before it, and the command that reproduces it.
#[must_use]
pub(crate) fn violation(broken: &Outcome, plan: &Plan) -> String {
    let shrunk = shrink(plan, broken);
    let kept = numbers(plan, &shrunk);
    let (outcome, events) = replay(&Arc::new(shrunk.clone()));
    let mut text = String::new();
    let Some(violation) = outcome.violation else {
        return format!("seed {} broke a promise, and did not when it was run again", broken.seed);
    };
    let _ = writeln!(text, "VIOLATION of {} at {:?}: {}", violation.id, violation.at, violation.what);
    let _ = writeln!(
        text,
        "seed {} ({} mode), {} of its {} faults needed:",
        plan.seed,
        plan.mode,
        kept.len(),
        plan.faults.len()
    );
    for (number, fault) in kept.iter().zip(&shrunk.faults) {
        let _ = writeln!(text, "  {number}: {fault}");
    }
    let _ = writeln!(text, "what happened before it:");
    for (at, event) in &events[events.len().saturating_sub(EVENTS_BEFORE)..] {
        let _ = writeln!(text, "{}", line(*at, event));
    }
    let _ = writeln!(text, "VIOLATION of {} at {:?}: {}", violation.id, violation.at, violation.what);
    let list: Vec<_> = kept.iter().map(ToString::to_string).collect();
    let only = if list.is_empty() { "none".to_owned() } else { list.join(",") };
    let _ = write!(
        text,
        "to see it again: cargo run --release -p leasehold-sim -- --mode {} --seed {} --only {only}",
        plan.mode, plan.seed
    );
    text
}

/// Formats one event of a history.
#[must_use]
pub(crate) fn line(at: Duration, event: &Event) -> String {
    format!("{:>14.6} {event}", at.as_secs_f64())
}
