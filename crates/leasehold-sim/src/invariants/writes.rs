//! G1, G2, L2, L3, and of R1 and M what a script can break: what our scripts leave on the server, whoever runs them and however often.
//!
//! Invariant: judged for each script by the key before and after it.
//! Called by: the recorder.

use leasehold_proto::Verb;

use super::Invariant;
use crate::history::{By, Event, Key, Reply, short};
use crate::recorder::View;

pub(super) struct Writes;

impl Invariant for Writes {
    fn id(&self) -> &'static str {
        "G1 G2 L2 L3 R1 M"
    }

    fn see(&mut self, event: &Event, _: &View) -> Result<(), String> {
        let Event::Executed { verb, name, wire, by, reply, before, after, stray } = event else {
            return Ok(());
        };
        if let Some(key) = stray {
            return Err(format!("G2: {verb} of {name} left the key {key}"));
        }
        if *by == By::Foreigner {
            return Ok(());
        }
        if !after.is_free() && !after.foreign_type && after.expires_at_ms.is_none() {
            return Err(format!("G1: {verb} left {name} without an expiry"));
        }
        if after.fields.len() > 1 {
            return Err(format!("L2: after {verb} there is more than one owner of {name}: {after}"));
        }
        if matches!(reply, Reply::Error(_)) && before != after {
            return Err(format!("{verb} of {name} failed and changed something: {before}, then {after}"));
        }
        let others = !before.is_free() && !before.is_held_by(wire);
        if others && *verb != Verb::ForceRelease && before != after {
            return Err(format!(
                "L3: {verb} of {} changed what is another's: {before}, then {after}",
                short(wire)
            ));
        }
        if *verb == Verb::Acquire && before.is_held_by(wire) && before.fields != after.fields {
            return Err(format!("R1: an acquire that ran twice has counted twice: {before}, then {after}"));
        }
        shortened(*verb, before, after, wire)
    }
}

/// A renewal, or an acquire that finds itself, must not take time away that a client may count on.
fn shortened(verb: Verb, before: &Key, after: &Key, wire: &str) -> Result<(), String> {
    let kept = before.is_held_by(wire) && after.is_held_by(wire);
    if kept && verb != Verb::ForceRelease && after.expires_at_ms < before.expires_at_ms {
        return Err(format!("M: {verb} of {} took time away: {before}, then {after}", short(wire)));
    }
    Ok(())
}
