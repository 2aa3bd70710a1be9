//! K1 to K5: a latch counts down once for each count-down, and releases its waiters at zero, never earlier.
//!
//! Invariant: the count is the server's. The result of a wait is compared with every count during the wait.

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
    waiting: BTreeMap<Op, (Arc<str>, Duration, usize)>,
}

impl Invariant for Latch {
    fn id(&self) -> &'static str {
        "K1 K2 K3 K4 K5"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Requested { op, process, name, what: What::Wait, .. } => {
                self.waiting.insert(*op, (Arc::clone(name), view.now, *process));
            }
            Event::Dropped { op } => {
                self.waiting.remove(op);
            }
            Event::Completed { op, outcome } => {
                let Some((name, since, _)) = self.waiting.remove(op) else { return Ok(()) };
                let closed = self.closed.get(&name).is_some_and(|closed| *closed <= since);
                if *outcome == Outcome::Done && closed {
                    return Err(format!("K3: op {} waited for {name}, which has not been zero since", op.0));
                }
            }
            Event::Killed { process } => self.waiting.retain(|_, (_, _, of)| of != process),
            Event::Fault { kind, begins: true, .. } if kind.loses_writes() || *kind == Kind::Delete => {
                self.closed.clear();
                self.open.clear();
            }
            // A wait may see the count of the former master.
            Event::Apart(executed) => {
                if let Event::Executed { name, .. } = &**executed {
                    self.closed.remove(name);
                    self.open.remove(name);
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
        let trip = view.plan.latency_max * 12 + Duration::from_millis(40);
        for (op, (name, since, process)) in &self.waiting {
            let Some((open, told)) = self.open.get(name).filter(|(open, _)| open >= since) else { continue };
            let took = view.now - *open;
            let behind = took + Duration::from_secs(2) + view.plan.timeout;
            let within =
                if *told && view.has_wake_ups_for(behind) { trip } else { trip + view.plan.poll_interval };
            let disturbed = !view.is_quiet_for(behind) || !view.paused_since(*process, *since).is_zero();
            if took > within && !disturbed {
                return Err(format!("K4: {name} has been zero for {took:?}, and op {} still waits", op.0));
            }
        }
        Ok(())
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
