//! M, R1: while a hold is valid, its owner has the lock on the server.
//!
//! Invariant: judged after every script that ran on the lock, and at every claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::breaches::Breaches;
use super::invariant::Invariant;
use crate::history::Event;
use crate::name_state::NameState;
use crate::owner::short;
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct ServerKeeps {
    breaches: Breaches,
    states: BTreeMap<Arc<str>, Arc<NameState>>,
}

impl Invariant for ServerKeeps {
    fn id(&self) -> &'static str {
        "M"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        // A confirmation by this script says nothing of the state before it.
        if let Event::Executed { name, before, .. } = event {
            self.kept(view, name, before)?;
        }
        self.breaches.see(event, view);
        Breaches::forget_changed(&mut self.states, event, view);
        match event {
            Event::Executed { name, after, .. } => {
                self.states.insert(Arc::clone(name), Arc::clone(after));
                self.kept(view, name, after)
            }
            Event::Claimed { hold, .. } => {
                let Some(claimed) = view.holds.get(hold) else { return Ok(()) };
                // After a failover the state is known from the next script on.
                let Some(state) = self.states.get(&claimed.name) else { return Ok(()) };
                self.kept(view, &claimed.name, state)
            }
            _ => Ok(()),
        }
    }
}

impl ServerKeeps {
    fn kept(&self, view: &View, name: &str, state: &NameState) -> Result<(), String> {
        let now_ms = view.now_ms();
        let mut lost = view.valid_holds(name).filter(|(_, hold)| !state.is_live(&hold.wire, now_ms));
        match lost.find(|(_, hold)| !self.breaches.excuse(name, &hold.wire)) {
            None => Ok(()),
            Some((id, hold)) => Err(format!(
                "hold {} of {name} as {} is valid, but on the server the lock is {state}",
                id.0,
                short(&hold.wire)
            )),
        }
    }
}
