//! K1 to K5: a latch counts down once for each count-down, and releases its waiters at zero, never earlier.
//!
//! Invariant: the count is the server's. The result of a wait is compared with every count during the wait. A waiter
//! that has certainly been refused ends with its round, also when the next round has begun.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::fault::Kind;
use crate::history::{Event, Op, Outcome, What};
use crate::name_state::NameState;
use crate::primitive::Primitive;
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct Latch {
    /// The time since which the count has been above zero without a break.
    closed: BTreeMap<Arc<str>, Duration>,
    /// The time since which the count has been zero, with true if that was published.
    open: BTreeMap<Arc<str>, (Duration, bool)>,
    waiting: BTreeMap<Op, Waiting>,
}

struct Waiting {
    name: Arc<str>,
    since: Duration,
    process: usize,
    /// The end of the round in which the waiter had certainly been refused.
    ended: Option<Duration>,
}

/// The time within which an undisturbed waiter learns of a message.
fn trip(view: &View) -> Duration {
    view.plan.latency_max * 12 + Duration::from_millis(40)
}

/// The time in which a fault from before can still delay a waiter.
fn settling(view: &View) -> Duration {
    Duration::from_secs(2) + view.plan.timeout
}

impl Waiting {
    /// Returns true if neither the network nor the process has been disturbed for this time, which a fault from before
    /// it can outlast.
    fn is_undisturbed_for(&self, view: &View, span: Duration) -> bool {
        let paused = view.paused_since(self.process, self.since);
        view.is_quiet_for(span + settling(view)) && paused.is_zero()
    }
}

impl Invariant for Latch {
    fn id(&self) -> &'static str {
        "K1 K2 K3 K4 K5"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Requested { op, process, name, what: What::Wait, .. } => {
                let (name, process) = (Arc::clone(name), *process);
                self.waiting.insert(*op, Waiting { name, since: view.now, process, ended: None });
            }
            Event::Dropped { op } => {
                self.waiting.remove(op);
            }
            Event::Completed { op, outcome } => {
                let Some(Waiting { name, since, .. }) = self.waiting.remove(op) else { return Ok(()) };
                let closed = self.closed.get(&name).is_some_and(|closed| *closed <= since);
                if closed && [Outcome::Done, Outcome::Deleted].contains(outcome) {
                    return Err(format!(
                        "K3: op {} waited for {name}, whose round has not ended since",
                        op.0
                    ));
                }
            }
            Event::Killed { process } => self.waiting.retain(|_, waiting| waiting.process != *process),
            Event::Fault { kind, begins: true, .. } if kind.loses_writes() || *kind == Kind::Delete => {
                self.closed.clear();
                self.open.clear();
                self.waiting.values_mut().for_each(|waiting| waiting.ended = None);
            }
            // A wait may see the count of the former master.
            Event::Apart(executed) => {
                if let Event::Executed { name, .. } = &**executed {
                    self.closed.remove(name);
                    self.open.remove(name);
                    let waiting = self.waiting.values_mut().filter(|waiting| waiting.name == *name);
                    waiting.for_each(|waiting| waiting.ended = None);
                }
            }
            Event::Executed { verb, name, wire, before, after, .. }
                if Primitive::of(name) == Primitive::Latch =>
            {
                counts(*verb, name, wire, before, after)?;
                let (was_open, is_open) = (is_open(before), is_open(after));
                if was_open || is_open {
                    self.closed.remove(name);
                }
                if is_open && !was_open {
                    self.round_ended(name, view);
                }
                if is_open {
                    self.open.entry(Arc::clone(name)).or_insert((view.now, !was_open));
                } else {
                    self.open.remove(name);
                    self.closed.entry(Arc::clone(name)).or_insert(view.now);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// K4: no wait outlasts zero by more than the polling interval.
    fn check_time(&mut self, view: &View) -> Result<(), String> {
        for (op, waiting) in &self.waiting {
            let Waiting { name, since, ended, .. } = waiting;
            let open = self.open.get(name).filter(|(open, _)| open >= since);
            let Some((ended, told)) = ended.map(|ended| (ended, true)).or(open.copied()) else { continue };
            let took = view.now - ended;
            let polls = !told || !view.has_wake_ups_for(took + settling(view));
            let within = trip(view) + if polls { view.plan.poll_interval } else { Duration::ZERO };
            if took > within && waiting.is_undisturbed_for(view, took) {
                return Err(format!(
                    "K4: the round of {name} ended {took:?} ago, and op {} still waits",
                    op.0
                ));
            }
        }
        Ok(())
    }
}

impl Latch {
    /// Notes the end of a round for the waiters that have certainly been refused in it.
    fn round_ended(&mut self, name: &Arc<str>, view: &View) {
        for waiting in self.waiting.values_mut().filter(|waiting| waiting.name == *name) {
            let waits_for = view.now - waiting.since;
            if waits_for > trip(view) && waiting.is_undisturbed_for(view, waits_for) {
                waiting.ended.get_or_insert(view.now);
            }
        }
    }
}

fn is_open(state: &NameState) -> bool {
    state.value.unwrap_or_default() <= 0
}

/// Checks K1, K2 and K5.
fn counts(
    verb: Verb,
    name: &str,
    operation: &str,
    before: &NameState,
    after: &NameState,
) -> Result<(), String> {
    let (was, is) = (before.value.unwrap_or_default(), after.value.unwrap_or_default());
    if is < 0 {
        return Err(format!("K5: {name} is {is}"));
    }
    if was == is {
        return Ok(());
    }
    let known = |state: &NameState| state.answered.iter().any(|(known, _)| **known == *operation);
    if verb != Verb::Adjust || known(before) {
        return Err(format!("K2: {verb} by {operation} changed {name} from {was} to {is} once more"));
    }
    if !known(after) {
        return Err(format!("K2: {operation} changed {name} from {was} to {is}, and nothing remembers it"));
    }
    if is > was && before.value.is_some() {
        return Err(format!("K1: {name} was raised from {was} to {is}"));
    }
    Ok(())
}
