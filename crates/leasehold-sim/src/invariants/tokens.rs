//! T1, T2, T3: the token of a holder is greater than all before it, the same for its re-entries, and one of those that the
//! server gave to the grant. A grant of several tokens serves as many holders of a client, one after the other.
//!
//! Invariant: a counter is judged while the server keeps its data. A hybrid token, which contains the server's time, is
//! judged even after a loss of data, unless the server's clock has gone back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::breaches::Breaches;
use super::invariant::Invariant;
use crate::fault::Kind;
use crate::history::{By, Event, Hold};
use crate::owner::{Wire, short};
use crate::primitive::Primitive;
use crate::recorder::view::{LiveHold, View};

#[derive(Default)]
pub(super) struct Tokens {
    /// The tokens that a wire owner was granted: the last token before the grant, and its last one. Only an acquire that
    /// the network has repeated has more than one grant.
    granted: BTreeMap<Wire, Vec<(i64, i64)>>,
    /// The greatest granted token of each name.
    greatest: BTreeMap<Arc<str>, i64>,
    /// The last claim of each name that had a new token.
    claimed: BTreeMap<Arc<str>, Claimed>,
    /// The last claim of each owner that had a new token.
    of_owner: BTreeMap<Wire, (i64, Hold)>,
    breaches: Breaches,
    /// The owners that were granted before the server lost data. One of them may be claimed afterwards.
    outlived: BTreeSet<Wire>,
    /// The time at which the server last lost data.
    lost_data: Option<Duration>,
    /// The time at which the server's clock last went back.
    went_back: Option<Duration>,
}

/// A claim with a token.
struct Claimed {
    token: i64,
    wire: Wire,
}

impl Invariant for Tokens {
    fn id(&self) -> &'static str {
        "T1 T2 T3"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        match event {
            Event::Fault { kind, begins: true, .. } if kind.loses_writes() => {
                self.lost_data = Some(view.now);
                self.outlived.extend(self.granted.keys().cloned());
                self.begin_anew(kind.promotes_stale() && view.plan.confirms());
            }
            Event::Fault { kind: Kind::ServerClockBack, begins: true, .. } => {
                self.went_back = Some(view.now);
                self.begin_anew(false);
            }
            // A foreign client takes a plain lock without a token.
            Event::Executed { verb, name, wire, by, before, after, .. }
                if Primitive::of(name).has_tokens() && *by != By::Foreigner =>
            {
                let granted = !before.is_held_by(wire) && after.is_held_by(wire);
                if *verb == Verb::Acquire && granted {
                    let tokens = (before.value.unwrap_or_default(), after.value.unwrap_or_default());
                    return self.grant(name, wire, tokens);
                }
                if before.value != after.value {
                    return Err(format!("T2: {verb} of {name} for {} has used a token up", short(wire)));
                }
            }
            // Another master gives the same tokens. A holder of the former one may be told its own later.
            Event::Apart(executed) => {
                if let Event::Executed { verb: Verb::Acquire, wire, before, after, .. } = &**executed
                    && after.is_held_by(wire)
                {
                    let tokens = (before.value.unwrap_or_default(), after.value.unwrap_or_default());
                    self.granted.entry(Arc::clone(wire)).or_default().push(tokens);
                    self.outlived.insert(Arc::clone(wire));
                }
            }
            Event::Claimed { hold, token: Some(token), .. } => {
                return self.claim(view, *hold, i64::try_from(*token).unwrap_or(i64::MAX));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Tokens {
    /// Removes the names whose tokens need not grow any more. `keeps_claims` is true if no claimed token was lost.
    fn begin_anew(&mut self, keeps_claims: bool) {
        let (lost_data, went_back) = (self.lost_data.is_some(), self.went_back.is_some());
        let grows = |name: &Arc<str>| match Primitive::of(name) {
            Primitive::Hybrid => !(lost_data && went_back),
            _ => !lost_data,
        };
        self.greatest.retain(|name, _| grows(name));
        self.claimed.retain(|name, _| keeps_claims || grows(name));
    }

    fn grant(&mut self, name: &Arc<str>, wire: &Wire, (before, last): (i64, i64)) -> Result<(), String> {
        self.granted.entry(Arc::clone(wire)).or_default().push((before, last));
        let greatest = self.greatest.entry(Arc::clone(name)).or_insert(0);
        if last <= *greatest {
            return Err(format!(
                "T1: the grant of {name} to {} has the token {last}, and one before it {greatest}",
                short(wire)
            ));
        }
        *greatest = last;
        Ok(())
    }

    fn claim(&mut self, view: &View, hold: Hold, token: i64) -> Result<(), String> {
        let Some(LiveHold { name, wire, .. }) = view.holds.get(&hold) else { return Ok(()) };
        let granted = self.granted.get(wire).is_some_and(|granted| {
            granted.iter().any(|(before, last)| (*before + 1..=*last).contains(&token))
        });
        if !granted {
            return Err(format!(
                "T3: {} was told the token {token}, which the server has not given it",
                short(wire)
            ));
        }
        if self.outlived.contains(wire) && Primitive::of(name) != Primitive::Hybrid {
            return Ok(());
        }
        // A hold passes on to another owner after its last guard, and is re-entered before. Two losses of data can bring
        // it back after a later one.
        let of_owner = self.of_owner.get(wire);
        let held =
            of_owner.filter(|(_, first)| view.holds.get(first).is_some_and(|held| view.is_valid(held)));
        match held {
            Some((own, _)) if *own == token => return Ok(()),
            Some(_) => return Err(format!("T2: {} has a second token, {token}", short(wire))),
            None => {}
        }
        if let Some(last) = self.claimed.get(name).filter(|last| token <= last.token) {
            // If the lock was taken away, the later grant may be claimed first.
            if self.breaches.excuse(name, wire) {
                return Ok(());
            }
            return Err(format!(
                "T1: {} was given the token {token} of {name} after {} had {}",
                short(wire),
                short(&last.wire),
                last.token
            ));
        }
        self.of_owner.insert(Arc::clone(wire), (token, hold));
        self.claimed.insert(Arc::clone(name), Claimed { token, wire: Arc::clone(wire) });
        Ok(())
    }
}
