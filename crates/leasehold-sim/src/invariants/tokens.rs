//! T1, T2, T3: the token of a grant is greater than all before it, the same for all holds of the grant, and equal to the
//! token that the server keeps.
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
use crate::history::Event;
use crate::owner::{Wire, short};
use crate::primitive::Primitive;
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct Tokens {
    /// The tokens that an owner was granted, more than one token only if the network has repeated its acquire.
    granted: BTreeMap<Wire, Vec<i64>>,
    /// The greatest granted token of each name.
    greatest: BTreeMap<Arc<str>, i64>,
    /// The greatest claimed token of each name, with its owner.
    claimed: BTreeMap<Arc<str>, (i64, Wire)>,
    breaches: Breaches,
    /// The owners that were granted before the server lost data. One of them may be claimed afterwards.
    outlived: BTreeSet<Wire>,
    /// The time at which the server last lost data.
    lost_data: Option<Duration>,
    /// The time at which the server's clock last went back.
    went_back: Option<Duration>,
}

impl Invariant for Tokens {
    fn id(&self) -> &'static str {
        "T1 T2 T3"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        match event {
            Event::Fault { kind: Kind::RestartEmpty | Kind::Failover, begins: true, .. } => {
                self.lost_data = Some(view.now);
                self.outlived.extend(self.granted.keys().cloned());
                self.begin_anew();
            }
            Event::Fault { kind: Kind::ServerClockBack, begins: true, .. } => {
                self.went_back = Some(view.now);
                self.begin_anew();
            }
            Event::Executed { verb, name, wire, before, after, .. } if Primitive::of(name).has_tokens() => {
                let granted = !before.is_held_by(wire) && after.is_held_by(wire);
                if *verb == Verb::Acquire && granted {
                    return self.grant(name, wire, after.value.unwrap_or_default());
                }
                if before.value != after.value {
                    return Err(format!("T2: {verb} of {name} for {} has used a token up", short(wire)));
                }
            }
            Event::Claimed { hold, wire, token: Some(token), .. } => {
                let Some(live) = view.holds.get(hold) else { return Ok(()) };
                return self.claim(&live.name, wire, i64::try_from(*token).unwrap_or(i64::MAX));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Tokens {
    /// Removes the names whose tokens need not grow any more.
    fn begin_anew(&mut self) {
        let (lost_data, went_back) = (self.lost_data.is_some(), self.went_back.is_some());
        let grows = |name: &Arc<str>| match Primitive::of(name) {
            Primitive::Hybrid => !(lost_data && went_back),
            _ => !lost_data,
        };
        self.greatest.retain(|name, _| grows(name));
        self.claimed.retain(|name, _| grows(name));
    }

    fn grant(&mut self, name: &Arc<str>, wire: &Wire, token: i64) -> Result<(), String> {
        self.granted.entry(Arc::clone(wire)).or_default().push(token);
        let greatest = self.greatest.entry(Arc::clone(name)).or_insert(0);
        if token <= *greatest {
            return Err(format!(
                "T1: the grant of {name} to {} has the token {token}, and one before it {greatest}",
                short(wire)
            ));
        }
        *greatest = token;
        Ok(())
    }

    fn claim(&mut self, name: &Arc<str>, wire: &Wire, token: i64) -> Result<(), String> {
        let granted = self.granted.get(wire).is_some_and(|tokens| tokens.contains(&token));
        if !granted {
            return Err(format!(
                "T3: {} was told the token {token}, which the server has not given it",
                short(wire)
            ));
        }
        if self.outlived.contains(wire) && Primitive::of(name) != Primitive::Hybrid {
            return Ok(());
        }
        match self.claimed.get(name) {
            // The owner claims the same grant again.
            Some((known, owner)) if owner == wire && *known == token => {}
            Some((_, owner)) if owner == wire => {
                return Err(format!("T2: {} has a second token, {token}", short(wire)));
            }
            // If the lock was taken away, the later grant may be claimed first.
            Some((known, _)) if token <= *known && self.breaches.excuse(name, wire) => return Ok(()),
            Some((known, owner)) if token <= *known => {
                return Err(format!(
                    "T1: {} was given the token {token} of {name} after {} had {known}",
                    short(wire),
                    short(owner)
                ));
            }
            _ => {}
        }
        self.claimed.insert(Arc::clone(name), (token, Arc::clone(wire)));
        Ok(())
    }
}
