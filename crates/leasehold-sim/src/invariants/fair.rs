//! F1, F2, F3, F5, F6: the queues of the fair lock and of the semaphore serve waiters in order of arrival, except
//! waiters that have gone.
//!
//! Invariant: judged for each script by the queue before and after it. On an undisturbed network, the server never takes
//! a polling waiter for gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::history::{By, Event, Op};
use crate::name_state::NameState;
use crate::owner::{Wire, short};
use crate::primitive::{Primitive, covers};
use crate::recorder::view::View;

/// The time without a sign after which a waiter of ours is gone.
const GONE_AFTER_MS: i64 = 5_000;
/// The extra time of a Redisson waiter.
const FOREIGN_WAIT_MS: i64 = 300_000;

#[derive(Default)]
pub(super) struct Fair {
    requests: BTreeMap<Op, (usize, Arc<str>, Duration)>,
    /// The process that uses a wire owner until it sends its release, and the time of its first use.
    users: BTreeMap<Wire, (usize, Duration)>,
    /// The owners that a repetition of the network has brought back.
    repeated: BTreeSet<Wire>,
}

/// One execution of a script.
struct Run<'a> {
    verb: Verb,
    name: &'a Arc<str>,
    wire: &'a Wire,
    before: &'a NameState,
    after: &'a NameState,
    now_ms: i64,
}

impl Invariant for Fair {
    fn id(&self) -> &'static str {
        "F1 F2 F3 F5 F6"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event.at_any_server() {
            Event::Requested { op, process, name, what, .. } if what.acquires() => {
                self.requests.insert(*op, (*process, Arc::clone(name), view.now));
            }
            Event::Completed { op, .. } | Event::Dropped { op } => {
                self.requests.remove(op);
            }
            Event::Killed { process } => {
                self.requests.retain(|_, (of, ..)| of != process);
                self.users.retain(|_, (of, _)| of != process);
            }
            Event::Sent { process, verb: Verb::Acquire, wire, .. } => {
                self.users.entry(Arc::clone(wire)).or_insert((*process, view.now));
            }
            // A waiter that leaves is nobody's any more, also if a failover brings its place back.
            Event::Sent { verb: Verb::Release, wire, .. } => drop(self.users.remove(wire)),
            Event::Executed { verb, name, wire, by, before, after, .. } => {
                let has_queue = matches!(Primitive::of(name), Primitive::Fair | Primitive::Fifo);
                if matches!(by, By::Duplicate(_)) {
                    self.repeated.insert(Arc::clone(wire));
                }
                if has_queue && *by != By::Foreigner {
                    let now_ms = i64::try_from(view.now_ms()).unwrap_or(i64::MAX);
                    let run = Run { verb: *verb, name, wire, before, after, now_ms };
                    run.has_one_queue()?;
                    run.keeps_the_order()?;
                    run.grants_to_the_head()?;
                    run.bounds_scores()?;
                    return self.spares_the_living(view, &run);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Fair {
    /// Checks that no waiter that polls in time is removed.
    fn spares_the_living(&self, view: &View, run: &Run) -> Result<(), String> {
        let while_quiet = Duration::from_secs(8) + view.plan.timeout;
        if !view.is_quiet_for(while_quiet) {
            return Ok(());
        }
        for gone in run.before.queue.iter().filter(|wire| *wire != run.wire && !run.after.queues(wire)) {
            let Some((process, since)) = self.users.get(gone) else { continue };
            let mut requests = self.requests.values();
            let requested =
                requests.any(|(of, name, asked)| of == process && covers(name, run.name) && asked <= since);
            let stood_still = !view.paused_since(*process, view.now.saturating_sub(while_quiet)).is_zero();
            // Another wait of the same process may be the one that polls.
            let alone = self
                .requests
                .values()
                .filter(|(of, name, _)| of == process && covers(name, run.name))
                .count()
                == 1;
            if requested && alone && !stood_still && !self.repeated.contains(gone) {
                return Err(format!(
                    "F1: {} was taken out of the queue of {} while it waits",
                    short(gone),
                    run.name
                ));
            }
        }
        Ok(())
    }
}

impl Run<'_> {
    fn last_seen(&self, wire: &Wire) -> Option<i64> {
        self.before.last_seen.iter().find(|(known, _)| known == wire).map(|(_, at)| *at)
    }

    fn deadline(state: &NameState, wire: &Wire) -> Option<i64> {
        state.redisson_deadlines.iter().find(|(known, _)| known == wire).map(|(_, at)| *at)
    }

    /// Returns true if a waiter of the queue may be passed over and removed.
    fn is_gone(&self, wire: &Wire) -> bool {
        match self.last_seen(wire) {
            Some(last_seen) => last_seen <= self.now_ms - GONE_AFTER_MS,
            None => Self::deadline(self.before, wire).is_none_or(|deadline| deadline <= self.now_ms),
        }
    }

    /// Checks F2 and F3.
    fn has_one_queue(&self) -> Result<(), String> {
        let Self { verb, name, after, .. } = self;
        let list: BTreeSet<&Wire> = after.queue.iter().collect();
        if list.len() != after.queue.len() {
            return Err(format!("F2: after {verb} a waiter is twice in the queue of {name}: {after}"));
        }
        let deadlines: BTreeSet<&Wire> = after.redisson_deadlines.iter().map(|(wire, _)| wire).collect();
        let seen: BTreeSet<&Wire> = after.last_seen.iter().map(|(wire, _)| wire).collect();
        let complete = if Primitive::of(name) == Primitive::Fair { list == deadlines } else { list == seen };
        if !complete || !seen.is_subset(&list) {
            return Err(format!(
                "F2: after {verb} the queue of {name} and its times differ: {after} {:?}",
                after.redisson_deadlines
            ));
        }
        match after.holders.iter().find(|holder| after.queues(&holder.wire)) {
            Some(holder) => {
                Err(format!("F3: {} holds {name} and waits for it: {after}", short(&holder.wire)))
            }
            None => Ok(()),
        }
    }

    /// F1: only the calling waiter and gone waiters leave, and only the calling waiter joins, at the end.
    fn keeps_the_order(&self) -> Result<(), String> {
        let Self { verb, name, wire, before, after, .. } = self;
        let left = before.queue.iter().filter(|known| !after.queues(known) && known != wire);
        if let Some(taken) = left.into_iter().find(|known| !self.is_gone(known)) {
            return Err(format!(
                "F1: {verb} of {} took {} out of the queue of {name}",
                short(wire),
                short(taken)
            ));
        }
        let mut expected: Vec<&Wire> = before.queue.iter().filter(|known| after.queues(known)).collect();
        let joins = after.queues(wire) && !before.queues(wire);
        // A calling waiter that was itself gone may join again.
        let anew = self.is_gone(wire) && after.queues(wire);
        let order: Vec<&Wire> = after.queue.iter().collect();
        if joins {
            expected.push(wire);
        } else if anew && order != expected {
            expected.retain(|known| known != wire);
            expected.push(wire);
        }
        if order == expected {
            return Ok(());
        }
        Err(format!("F1: {verb} of {} changed the order of {name}: {before}, then {after}", short(wire)))
    }

    /// F1, F5: a granted waiter stood before all waiters that have not gone.
    fn grants_to_the_head(&self) -> Result<(), String> {
        let Self { verb, name, wire, before, after, .. } = self;
        let granted = *verb == Verb::Acquire && !before.is_held_by(wire) && after.is_held_by(wire);
        let mut ahead = before.queue.iter().take_while(|known| known != wire);
        match ahead.find(|known| granted && !self.is_gone(known)) {
            Some(passed) => Err(format!(
                "F5: {} got {name} before {}: {before}, then {after}",
                short(wire),
                short(passed)
            )),
            None => Ok(()),
        }
    }

    /// F6: a deadline of Redisson is never later than the waiters ahead require.
    fn bounds_scores(&self) -> Result<(), String> {
        let Self { verb, name, wire, before, after, .. } = self;
        for (waiter, deadline) in &after.redisson_deadlines {
            // A sign of life counts the places before it removes dead waiters, so that it saves its own first.
            let queue = if *verb == Verb::KeepAlive { &before.queue } else { &after.queue };
            let place = queue.iter().position(|known| known == waiter).unwrap_or_default();
            let ahead = queue.iter().take(place);
            let foreign =
                ahead.filter(|known| !after.last_seen.iter().any(|(seen, _)| seen == *known)).count();
            let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
            let most = self.now_ms + number(place + 1) * GONE_AFTER_MS + number(foreign) * FOREIGN_WAIT_MS;
            let grew = Self::deadline(before, waiter).is_none_or(|known| known < *deadline);
            // One call shows that all waiters of a client are alive.
            let calls = waiter == *wire || *verb == Verb::KeepAlive;
            if grew && (!calls || *deadline > most) {
                return Err(format!(
                    "F6: the deadline of {} in {name} is now {} ms away",
                    short(waiter),
                    deadline - self.now_ms
                ));
            }
        }
        Ok(())
    }
}
