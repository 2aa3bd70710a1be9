//! G3, the other way round: a wait does not end with the first lost reply.
//!
//! Invariant: a wait that has time left fails by the store only after failed calls over a whole timeout. A call whose bytes
//! one path swallowed is not that, since it alone takes a timeout to fail. The calls of all waiters of a process and name
//! count, because a queue fails as a whole.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::fault::Kind;
use crate::history::{Event, Op, Outcome, What};
use crate::primitive::covers;
use crate::recorder::view::View;

/// The errors after which a wait goes on, as the outcomes name them.
const PASSING: [&str; 3] = ["Timeout", "ConnectionLost", "Unreachable"];
/// The share of a timeout over which the failures must spread. A process's clock runs up to 1 % slower or faster.
const SHARE: f64 = 0.98;

#[derive(Default)]
pub(super) struct LostReplies {
    waiting: BTreeMap<Op, Wait>,
    calls: BTreeMap<u64, (usize, Arc<str>)>,
    /// The times of the failed calls of each process and name.
    failures: BTreeMap<(usize, Arc<str>), VecDeque<Duration>>,
}

struct Wait {
    process: usize,
    name: Arc<str>,
    since: Duration,
    ends_at: Duration,
}

impl Invariant for LostReplies {
    fn id(&self) -> &'static str {
        "G3"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Requested {
                op,
                process,
                name,
                what: What::Lock | What::TryLockFor | What::Reenter,
                within,
            } => {
                let ends_at = within.map_or(Duration::MAX, |within| view.now + within.mul_f64(SHARE));
                let wait = Wait { process: *process, name: Arc::clone(name), since: view.now, ends_at };
                self.waiting.insert(*op, wait);
            }
            Event::Sent {
                process, call, verb: Verb::Acquire | Verb::Renew | Verb::KeepAlive, name, ..
            } => {
                self.calls.insert(*call, (*process, Arc::clone(name)));
            }
            Event::Returned { call, applied, .. } => {
                if let (Some(of), Some(_)) = (self.calls.remove(call), applied) {
                    self.note_failure(of, view);
                }
            }
            Event::Completed { op, outcome } => {
                let wait = self.waiting.remove(op);
                if let (Some(wait), Outcome::NotApplied(kind) | Outcome::Unknown(_, kind)) = (wait, outcome) {
                    return self.judge(&wait, kind, view);
                }
            }
            Event::Dropped { op } => drop(self.waiting.remove(op)),
            Event::Killed { process } => {
                self.waiting.retain(|_, wait| wait.process != *process);
                self.calls.retain(|_, (of, _)| of != process);
                self.failures.retain(|(of, _), _| of != process);
            }
            _ => {}
        }
        Ok(())
    }
}

impl LostReplies {
    fn note_failure(&mut self, of: (usize, Arc<str>), view: &View) {
        let process = of.0;
        let failures = self.failures.entry(of).or_default();
        let age = |at: &Duration| (view.now - *at).saturating_sub(view.paused_since(process, *at));
        // The next attempt can follow a failure after a sleep, beside a hold of the own client after the rest of its lease.
        let longest = view.plan.timeout * 4 + view.plan.poll_interval + view.plan.longest_lease();
        while failures.front().is_some_and(|at| age(at) > longest) {
            failures.pop_front();
        }
        failures.push_back(view.now);
    }

    /// Judges a wait that the store has ended.
    fn judge(&self, wait: &Wait, kind: &str, view: &View) -> Result<(), String> {
        let timeout = view.plan.timeout.mul_f64(SHARE);
        if !PASSING.contains(&kind) || view.now >= wait.ends_at || has_jumped(view, wait) {
            return Ok(());
        }
        let failures = self
            .failures
            .iter()
            .filter(|((process, name), _)| *process == wait.process && covers(&wait.name, name));
        let spreads = |(_, times): (_, &VecDeque<Duration>)| {
            times.front().is_some_and(|first| *first + timeout <= view.now)
        };
        if failures.into_iter().any(spreads) {
            return Ok(());
        }
        Err(format!("a wait for {} ended with the first failure, {kind}", wait.name))
    }
}

/// Returns true if the clock of the process jumped forward while it waited, or during the failures before.
fn has_jumped(view: &View, wait: &Wait) -> bool {
    let since = wait.since.min(view.now.saturating_sub(view.plan.timeout * 4));
    let mut jumps = view.plan.faults.iter().filter(|fault| fault.kind == Kind::ClockForward);
    jumps.any(|fault| fault.process == wait.process && (since..=view.now).contains(&fault.begins))
}
