//! W3, W4, W5, W7, W8: the state that readers and writers leave on the server, and that at most one reader waits to
//! write. `exclusion` and `server_keeps` check W1 and W2, and `writes` checks W6.
//!
//! Invariant: judged for each script of ours by the keys of the name before and after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::history::{By, Event, Op, What};
use crate::name_state::{NameState, Side};
use crate::owner::{Wire, short};
use crate::primitive::Primitive;
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct ReadWrite {
    upgrading: BTreeMap<Op, (Arc<str>, Duration, usize)>,
}

impl Invariant for ReadWrite {
    fn id(&self) -> &'static str {
        "W3 W4 W5 W7 W8"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event.at_any_server() {
            Event::Requested { op, process, name, what: What::Upgrade, .. } => {
                self.upgrading.insert(*op, (Arc::clone(name), view.now, *process));
            }
            Event::Completed { op, .. } | Event::Dropped { op } => {
                self.upgrading.remove(op);
            }
            Event::Killed { process } => self.upgrading.retain(|_, (_, _, of)| of != process),
            Event::Executed { verb, name, wire, by, before, after, .. }
                if Primitive::of(name) == Primitive::ReadWrite && *by != By::Foreigner =>
            {
                // A network that repeats an acquire restores the first of several expired leases.
                let revived = matches!(by, By::Duplicate(_)) && !before.is_live(wire, view.now_ms());
                let held = || (!revived).then(|| leases(*verb, wire, before, after)).flatten();
                let broken = sides(after).or_else(|| lives(after)).or_else(held);
                if let Some(broken) = broken {
                    return Err(format!(
                        "{broken}, after {verb} of {} of {name}: {after} {:?}",
                        short(wire),
                        after.leases
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// W7: without a disturbance, one of two readers that would wait for each other gets an error.
    fn check_time(&mut self, view: &View) -> Result<(), String> {
        let within = view.plan.latency_max * 12 + Duration::from_millis(40);
        let waits = |(name, since, process): &&(Arc<str>, Duration, usize)| {
            let long =
                view.now - *since > within && view.is_quiet_for(view.now - *since + Duration::from_secs(3));
            let reads = view.holds.values().any(|hold| {
                hold.name == *name
                    && hold.process == *process
                    && hold.side == Side::Reader
                    && view.seems_valid(hold)
            });
            long && reads && view.paused_since(*process, *since).is_zero()
        };
        let mut waiting: Vec<_> = self.upgrading.values().filter(waits).map(|(name, ..)| name).collect();
        waiting.sort_unstable();
        match waiting.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("W7: two readers of {} wait to write", pair[0])),
            None => Ok(()),
        }
    }
}

/// W3: the mode agrees with the holders.
fn sides(state: &NameState) -> Option<String> {
    let count = |side| state.holders.iter().filter(|holder| holder.side == side).count();
    let (readers, writers) = (count(Side::Reader), count(Side::Writer));
    let right = match state.mode.as_deref() {
        Some("write") => writers == 1 && readers <= 1,
        Some("read") => writers == 0 && readers > 0,
        Some(_) => false,
        None => state.holders.is_empty(),
    };
    (!right)
        .then(|| format!("W3: the mode is {:?}, with {readers} readers and {writers} writers", state.mode))
}

/// W5: the key lives as long as its longest reader.
fn lives(state: &NameState) -> Option<String> {
    let reads = |wire: &Wire| state.holder(wire).is_some_and(|holder| holder.side == Side::Reader);
    let longest = state.leases.iter().filter(|(wire, ..)| reads(wire)).map(|(_, _, until)| *until).max()?;
    let short = state.expires_at_ms.is_some_and(|at| at < longest);
    short.then(|| format!("W5: a reader's lease lasts until {longest}"))
}

/// W4, W8: a reader has a lease for each hold, a writer has none.
fn leases(verb: Verb, wire: &Wire, before: &NameState, after: &NameState) -> Option<String> {
    let of = |state: &NameState, wire: &Wire| {
        state.leases.iter().filter(|(owner, ..)| owner == wire).count() as u64
    };
    let (had, has) = (of(before, wire), of(after, wire));
    match after.holder(wire) {
        Some(holder) if holder.side == Side::Writer && has > 0 => {
            Some("W8: a writer has a lease of a reader".into())
        }
        Some(holder) if holder.side == Side::Reader && matches!(verb, Verb::Acquire | Verb::Renew) => {
            // A renewal that came too late has no hold to renew. A late copy of the acquire prolongs one of several leases
            // that are left to their ends, so that the others run out before it.
            let prolongs = verb == Verb::Acquire
                && before.holder(wire).is_some_and(|was| (had, was.count) == (has, holder.count));
            (has != holder.count && before != after && !prolongs)
                .then(|| format!("W4: {has} leases for {} holds", holder.count))
        }
        None if has > 0 && verb == Verb::Release && had > 0 && before.is_held_by(wire) => {
            Some(format!("W4: {has} leases for no hold"))
        }
        _ => None,
    }
}
