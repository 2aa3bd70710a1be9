//! M, R1: while a hold is valid, its owner has the lock on the server.
//!
//! Invariant: judged after every script that ran on the lock, and at every claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Invariant;
use super::breaches::Breaches;
use crate::history::{Event, short};
use crate::key::Key;
use crate::recorder::View;

#[derive(Default)]
pub(super) struct ServerKeeps {
    breaches: Breaches,
    keys: BTreeMap<Arc<str>, Key>,
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
        Breaches::forget_changed(&mut self.keys, event, view);
        match event {
            Event::Executed { name, after, .. } => {
                self.keys.insert(Arc::clone(name), after.clone());
                self.kept(view, name, after)
            }
            Event::Claimed { hold, .. } => {
                let Some(claimed) = view.holds.get(hold) else { return Ok(()) };
                let key = self.keys.get(&claimed.name).cloned().unwrap_or_default();
                self.kept(view, &claimed.name, &key)
            }
            _ => Ok(()),
        }
    }
}

impl ServerKeeps {
    fn kept(&self, view: &View, name: &str, key: &Key) -> Result<(), String> {
        let now_ms = view.now_ms();
        let mut lost = view.valid_holds(name).filter(|(_, hold)| !key.stands(&hold.wire, now_ms));
        match lost.find(|(_, hold)| !self.breaches.excuse(name, &hold.wire)) {
            None => Ok(()),
            Some((id, hold)) => Err(format!(
                "hold {} of {name} as {} is valid, but on the server the lock is {key}",
                id.0,
                short(&hold.wire)
            )),
        }
    }
}
