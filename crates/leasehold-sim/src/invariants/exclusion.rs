//! M, L1: at any instant at most one owner has a valid hold of a lock, foreign clients included.
//!
//! Invariant: two overlapping holds overlap when the later hold begins, so a check at that time suffices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::breaches::Breaches;
use super::invariant::Invariant;
use crate::history::Event;
use crate::name_state::Side;
use crate::owner::{Wire, short};
use crate::recorder::view::{LiveHold, View};

#[derive(Default)]
pub(super) struct Exclusion {
    breaches: Breaches,
    /// The holds that foreign clients believe to have, with their ends.
    foreign: BTreeMap<(Arc<str>, Wire), Duration>,
}

impl Invariant for Exclusion {
    fn id(&self) -> &'static str {
        "M"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        match event {
            Event::Claimed { hold, wire, .. } => {
                let Some(claimed) = view.holds.get(hold) else { return Ok(()) };
                if !view.is_valid(claimed) {
                    return Err(format!("hold {} was handed out when it was over", hold.0));
                }
                self.alone(view, &claimed.name, wire, claimed.side, claimed.owner)
            }
            Event::ForeignHold { name, wire, until } => {
                self.foreign.insert((Arc::clone(name), Arc::clone(wire)), *until);
                self.alone(view, name, wire, Side::Alone, 0)
            }
            Event::ForeignEnd { name, wire } => {
                self.foreign.remove(&(Arc::clone(name), Arc::clone(wire)));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Exclusion {
    fn alone(&self, view: &View, name: &str, wire: &str, side: Side, owner: u64) -> Result<(), String> {
        if side == Side::Permits || self.breaches.excuse(name, wire) {
            return Ok(());
        }
        let bears = |hold: &&LiveHold| {
            let both_read = hold.side == Side::Reader && side == Side::Reader;
            both_read || (owner != 0 && hold.owner == owner)
        };
        let ours =
            view.holds.values().filter(|hold| *hold.name == *name && !bears(hold) && view.is_valid(hold));
        let ours = ours.map(|hold| &hold.wire);
        let foreign = self.foreign.iter().filter(|((of, _), until)| **of == *name && **until > view.now);
        let mut others = ours.chain(foreign.map(|((_, wire), _)| wire));
        match others.find(|other| ***other != *wire && !self.breaches.excuse(name, other)) {
            None => Ok(()),
            Some(other) => {
                Err(format!("{} holds {name} although the hold of {} is valid", short(wire), short(other)))
            }
        }
    }
}
