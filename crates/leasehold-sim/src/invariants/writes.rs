//! G1, G2, L2, L3, and the part of R1 and M that a script can break: the state that our scripts leave on the server, for
//! any client and any number of repetitions.
//!
//! Invariant: judged for each script by the keys of the name before and after it.

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::history::{By, Event, Reply};
use crate::name_state::{Holder, NameState, is_of};
use crate::owner::short;
use crate::primitive::Primitive;
use crate::recorder::view::View;

pub(super) struct Writes;

impl Invariant for Writes {
    fn id(&self) -> &'static str {
        "G1 G2 L2 L3 R1 M"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        let Event::Executed { verb, name, wire, units, by, reply, before, after, stray } =
            event.at_any_server()
        else {
            return Ok(());
        };
        if let Some(key) = stray {
            return Err(format!("G2: {verb} of {name} left the key {key}"));
        }
        if *by == By::Foreigner {
            return Ok(());
        }
        let primitive = Primitive::of(name);
        // Another library may hold a plain lock without an expiry.
        let is_endless = |state: &NameState| state.is_there && state.expires_at_ms.is_none();
        let was_endless = primitive.is_plain() && is_endless(before);
        if primitive.is_lock() && !after.foreign_type && is_endless(after) && !was_endless {
            return Err(format!("G1: {verb} left {name} without an expiry"));
        }
        if primitive.is_exclusive() && after.holders.len() > 1 {
            return Err(format!("L2: after {verb} there is more than one owner of {name}: {after}"));
        }
        if matches!(reply, Reply::Error(_)) && before != after {
            return Err(format!("{verb} of {name} failed and changed something: {before}, then {after}"));
        }
        let now_ms = view.now_ms();
        let lasts = |holder: &&Holder| holder.until_ms.is_none_or(|until| until > now_ms);
        let of_others = |holder: &&Holder| !is_of(wire, *units, &holder.wire) && lasts(holder);
        let of_others = before.holders.iter().filter(of_others);
        // A release by permit ids may release the permits of any owner.
        let by_id = *verb == Verb::Adjust;
        if let Some(changed) = of_others.into_iter().find(|holder| !by_id && changed(*verb, holder, after)) {
            return Err(format!(
                "L3: {verb} of {} changed what is {}'s: {before}, then {after}",
                short(wire),
                short(&changed.wire)
            ));
        }
        if *verb == Verb::Acquire {
            let [was, is] = [before, after].map(|state| state.holder(wire));
            // A script removes the permits that have run out.
            let ran_out = is.is_none() && was.is_some_and(|holder| !lasts(&holder));
            if was.is_some() && was.map(|holder| holder.count) != is.map(|holder| holder.count) && !ran_out {
                return Err(format!(
                    "R1: an acquire that ran twice has counted twice: {before}, then {after}"
                ));
            }
        }
        // The minimum hold of a plain lock gets the rest of its time, and no guard counts on more.
        let is_held = view.holds.values().any(|hold| is_of(&hold.wire, hold.units, wire));
        if primitive.is_plain() && *verb == Verb::Renew && !is_held {
            return Ok(());
        }
        shortened(*verb, before, after, wire)
    }
}

/// Returns true if the hold of another owner has changed or ends sooner.
fn changed(verb: Verb, holder: &Holder, after: &NameState) -> bool {
    let Some(now) = after.holder(&holder.wire) else { return verb != Verb::ForceRelease };
    now.side != holder.side || now.count != holder.count || sooner(now.until_ms, holder.until_ms)
}

fn sooner(now: Option<u64>, before: Option<u64>) -> bool {
    now.unwrap_or(u64::MAX) < before.unwrap_or(u64::MAX)
}

/// Checks that a renewal, or an acquire that finds its own hold, takes away no time that a client may count on.
fn shortened(verb: Verb, before: &NameState, after: &NameState, wire: &str) -> Result<(), String> {
    let (Some(was), Some(is)) = (before.holder(wire), after.holder(wire)) else { return Ok(()) };
    // A release of one of several leases of a reader gives that lease up.
    if verb != Verb::ForceRelease && verb != Verb::Release && sooner(is.until_ms, was.until_ms) {
        return Err(format!("M: {verb} of {} took time away: {before}, then {after}", short(wire)));
    }
    Ok(())
}
