//! The times at which an assumption of the promises was broken, and the grants before them.
//!
//! Invariant: a grant after the last breach of its name is never excused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use crate::fault::{Fault, Kind};
use crate::history::{By, Event, Reply};
use crate::name_state::NameState;
use crate::owner::Wire;
use crate::primitive::Primitive;
use crate::recorder::view::View;

/// The breaches and grants so far.
#[derive(Default)]
pub(super) struct Breaches {
    everywhere: Option<Duration>,
    of: BTreeMap<Arc<str>, Duration>,
    /// The breaches of owners that hold several names and have lost one of them, or that a former master has served.
    with: BTreeMap<Wire, Duration>,
    /// The last time at which a former master has changed its own copy of a name.
    apart: BTreeMap<Arc<str>, Duration>,
    granted: BTreeMap<Wire, Duration>,
    /// The owners that the server last knew of each name, each with the end of its hold. A client may not know yet that it
    /// is one of them.
    held: BTreeMap<Arc<str>, Vec<(Wire, Option<u64>)>>,
}

impl Breaches {
    pub(super) fn see(&mut self, event: &Event, view: &View) {
        self.see_breach(event, view);
        if let Event::Executed { name, after, .. } = event {
            let owners =
                after.holders.iter().map(|holder| (Arc::clone(&holder.wire), holder.until_ms)).collect();
            self.held.insert(Arc::clone(name), owners);
        }
    }

    fn see_breach(&mut self, event: &Event, view: &View) {
        match event {
            Event::Fault { index, kind, begins: true } if view.plan.is_breach(*kind) => match kind {
                Kind::Delete | Kind::ForceRelease => {
                    let name = Arc::clone(&view.plan.faults[*index].name);
                    if !removes_its_name(&view.plan.faults[*index]) {
                        return;
                    }
                    let of_name = view.holds.values().filter(|hold| hold.name == name).map(|hold| &hold.wire);
                    let says = view.server_clock.reading(view.now).as_millis();
                    let held = self.held.get(&name).into_iter().flatten();
                    let lasting =
                        held.filter(|(_, until_ms)| until_ms.is_none_or(|until| u128::from(until) > says));
                    let owners = of_name.chain(lasting.map(|(wire, _)| wire));
                    self.with.extend(owners.map(|wire| (Arc::clone(wire), view.now)));
                    self.of.insert(name, view.now);
                }
                _ => self.everywhere = Some(view.now),
            },
            Event::Apart(executed) => {
                let Event::Executed { name, wire, .. } = &**executed else { return };
                self.apart.insert(Arc::clone(name), view.now);
                // The replicas confirm nothing of it, so the promises still hold where they must.
                if !view.plan.confirms() {
                    self.with.insert(Arc::clone(wire), view.now);
                }
            }
            // The server keeps the lock for this owner from here on. A repetition by the network confirms nothing.
            Event::Executed {
                verb: Verb::Acquire | Verb::Renew | Verb::HandOff,
                wire,
                by,
                reply,
                after,
                ..
            } if after.is_held_by(wire)
                && matches!(reply, Reply::Nil | Reply::Int(1..))
                && !matches!(by, By::Duplicate(_))
                && outlasts_trust(view, wire, after) =>
            {
                self.granted.insert(Arc::clone(wire), view.now);
            }
            _ => {}
        }
    }

    /// Removes the names that a fault has changed from a record of keys.
    pub(super) fn forget_changed<T>(keys: &mut BTreeMap<Arc<str>, T>, event: &Event, view: &View) {
        match event {
            Event::Fault { index, kind: Kind::Delete | Kind::ForceRelease, begins: true }
                if removes_its_name(&view.plan.faults[*index]) =>
            {
                keys.remove(&view.plan.faults[*index].name);
            }
            Event::Fault { kind, begins: true, .. } if kind.loses_writes() => keys.clear(),
            _ => {}
        }
    }

    /// Returns true if a hold was granted before an assumption was broken. The promises no longer cover such a hold.
    pub(super) fn excuse(&self, name: &str, wire: &str) -> bool {
        let breach = self.everywhere.max(self.of.get(name).copied()).max(self.with.get(wire).copied());
        match (breach, self.granted.get(wire)) {
            (Some(breach), Some(granted)) => *granted <= breach,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Returns true if an assumption about this name was broken at or after `since`.
    pub(super) fn any_since(&self, name: &str, since: Duration) -> bool {
        self.everywhere.max(self.of.get(name).copied()).is_some_and(|breach| breach >= since)
    }

    /// Returns true if an assumption about this name was broken at or after `since`, or if a former master has executed a
    /// script on it, which the server that answers since then does not know.
    pub(super) fn any_or_apart_since(&self, name: &str, since: Duration) -> bool {
        self.any_since(name, since) || self.apart.get(name).is_some_and(|apart| *apart >= since)
    }
}

/// Returns true if a fault takes its name away. A forced release affects locks only.
pub(super) fn removes_its_name(fault: &Fault) -> bool {
    fault.kind == Kind::Delete || Primitive::of(&fault.name).is_lock()
}

/// Returns true if the server keeps a lock for at least as long as its holders trust it now. A short renewal after a
/// jump of the server's clock does not restore the validity that was confirmed before the jump.
fn outlasts_trust(view: &View, wire: &str, state: &NameState) -> bool {
    let Some(until_ms) = state.holder(wire).and_then(|holder| holder.until_ms) else { return true };
    let expires_at = Duration::from_millis(until_ms);
    let kept = expires_at.saturating_sub(view.server_clock.reading(view.now));
    let mut holds = view.holds.values().filter(|hold| *hold.wire == *wire);
    holds.all(|hold| hold.valid_until.saturating_sub(view.clock_reading(hold.process)) <= kept)
}
