//! G6: a hold without a guard and without a request is taken off the server soon after the disturbance has ended, and
//! not only by its lease.
//!
//! Invariant: holds that the network's repetition brought back, detached holds, and holds of a dead process are left to
//! their lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::breaches::Breaches;
use super::invariant::Invariant;
use super::requests::{Request, Requests};
use crate::fault::Kind;
use crate::history::{By, Ending, Event};
use crate::name_state::{NameState, is_of};
use crate::owner::{Wire, short};
use crate::primitive::Primitive;
use crate::recorder::view::View;

/// The time that an undo may take after its last attempt failed, which is the longest pause between two attempts plus
/// the next attempt.
const UNDONE_WITHIN: Duration = Duration::from_secs(3);
/// The time without a sign after which a place in a queue is gone.
const GONE_AFTER_MS: u64 = 5_000;

#[derive(Default)]
pub(super) struct LeakedHolds {
    states: BTreeMap<Arc<str>, Arc<NameState>>,
    requests: Requests,
    /// The owners of living processes, with the time of their first use.
    process_of: BTreeMap<Wire, (usize, Duration)>,
    /// The owners that are left to their lease.
    excused: BTreeSet<Wire>,
    /// The time since which an owner has a leaked hold.
    since: BTreeMap<Wire, Duration>,
    /// True if an event followed the last check. Without one, time alone makes no hold a leaked one.
    has_news: bool,
}

impl Invariant for LeakedHolds {
    fn id(&self) -> &'static str {
        "G6"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.has_news = true;
        Breaches::forget_changed(&mut self.states, event, view);
        self.requests.see(event, view);
        match event {
            Event::Sent { process, verb: Verb::Acquire, wire, .. } => {
                self.process_of.entry(Arc::clone(wire)).or_insert((*process, view.now));
            }
            Event::Executed { name, wire, by, after, .. } => {
                self.states.insert(Arc::clone(name), Arc::clone(after));
                if matches!(by, By::Duplicate(_)) {
                    self.excused.insert(Arc::clone(wire));
                }
            }
            Event::Claimed { hold, .. } => self.excused.extend(view.min_hold_owner(hold)),
            Event::Ending { hold, how: Ending::Detach } => {
                self.excused.extend(view.holds.get(hold).map(|hold| Arc::clone(&hold.wire)));
            }
            Event::Killed { process } => {
                self.process_of.retain(|_, (of, _)| of != process);
            }
            _ => {}
        }
        Ok(())
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        if !std::mem::take(&mut self.has_news) && self.since.is_empty() {
            return Ok(());
        }
        // A hold that ends by a jumped clock leaves its key to a lease that has not jumped. A stale replica restores
        // released holds.
        let excuses =
            |kind: Kind| matches!(kind, Kind::ClockForward | Kind::ServerClockBack) || kind.promotes_stale();
        if view.plan.faults.iter().any(|fault| excuses(fault.kind) && fault.begins <= view.now) {
            return Ok(());
        }
        let leaked: Vec<_> = self.leaked(view).collect();
        self.since.retain(|wire, _| leaked.iter().any(|(known, ..)| known == wire));
        for (wire, name, process) in leaked {
            let since = *self.since.entry(Arc::clone(&wire)).or_insert(view.now);
            let within = view.plan.timeout + UNDONE_WITHIN;
            if view.now - since > within && view.is_quiet_for(within) && !is_paused(view, process, within) {
                let age = view.now - since;
                return Err(format!("{} is on {name} without a client since {age:?}", short(&wire)));
            }
        }
        Ok(())
    }
}

impl LeakedHolds {
    fn leaked(&self, view: &View) -> impl Iterator<Item = (Wire, Arc<str>, usize)> {
        let now_ms = view.now_ms();
        let live = self.states.iter().flat_map(move |(name, state)| {
            let holders = state.holders.iter().filter(move |holder| holder.is_live(now_ms));
            // A place in a queue counts too, until other waiters may remove it.
            let stays = move |at: i64| u64::try_from(at).unwrap_or_default() + GONE_AFTER_MS > now_ms;
            let waiters = state.last_seen.iter().filter(move |(_, at)| stays(*at)).map(|(wire, _)| wire);
            let wires = holders.map(|holder| &holder.wire).chain(waiters);
            wires.map(move |wire| (name, wire))
        });
        live.filter_map(move |(name, wire)| {
            let (process, used_since) = *self.process_of.get(wire)?;
            let held = || view.holds.values().any(|hold| is_of(&hold.wire, hold.units, wire));
            // A request that begins later has an owner of its own only where each waiter makes its own attempts. Elsewhere
            // it may get the grant of an earlier one that has left.
            let asks_itself = || matches!(Primitive::of(name), Primitive::Fair | Primitive::Fifo);
            let may_get = |request: &Request| request.since <= used_since || !asks_itself();
            let requested = || self.requests.of(process, name).any(may_get);
            let leaked = !held() && !requested() && !self.excused.contains(wire);
            leaked.then(|| (Arc::clone(wire), Arc::clone(name), process))
        })
    }
}

/// Returns true if a process is paused now, or was within the given time.
fn is_paused(view: &View, process: usize, within: Duration) -> bool {
    let mut pauses =
        view.plan.faults.iter().filter(|fault| fault.kind == Kind::Pause && fault.process == process);
    pauses.any(|fault| fault.begins <= view.now && fault.ends() + within >= view.now)
}
