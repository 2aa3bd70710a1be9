//! When a client becomes visible to operators, and when it leaves.
//!
//! Invariant: a client with short holds and without waiters never does, so it sends nothing for this.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_proto::engine::{Action, Event};
use leasehold_proto::{Call, Holding, Verb};

use super::{Command, Shared, State};
use crate::runtime::identity::Identity;

/// The fixed lease from which on a hold is worth a look.
const LONG: Duration = Duration::from_secs(10);

impl Shared {
    /// Lets operators see the client.
    pub(crate) fn seen_as(self, identity: Option<Identity>) -> Self {
        self.lock().joins = identity.is_some();
        Self { identity: identity.map(Arc::new), ..self }
    }

    pub(in crate::runtime) const fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// Notes that the client's card is on the server.
    pub(in crate::runtime) fn note_registered(&self) {
        self.is_registered.store(true, Ordering::Relaxed);
    }

    /// Returns the call that removes the client's card, if the card is on the server.
    pub(in crate::runtime) fn leave_call(&self) -> Option<Call> {
        let identity = self.identity.as_ref().filter(|_| self.is_registered.load(Ordering::Relaxed))?;
        Some(identity.leave())
    }

    /// Removes the client's card.
    pub(crate) async fn leave_operators(&self) {
        let Some(call) = self.leave_call() else { return };
        if self.query(call, |_| Some(())).await.is_ok() {
            self.is_registered.store(false, Ordering::Relaxed);
        }
    }
}

impl State {
    /// Joins for an acquire with a long lease, which nothing renews.
    pub(super) fn join_for(&mut self, event: &Event) {
        if self.joins
            && let Event::Acquire(_, request) = event
            && !request.watchdog
            && request.subject.recipe.holding != Holding::Permits
            && request.lease.duration() >= LONG
        {
            self.join();
        }
    }

    /// Joins with the first wait and the first renewal.
    pub(super) fn join_with(&mut self, action: &Action) {
        let joins = || match action {
            Action::Subscribe(_) => true,
            Action::Run(_, call, _) => call.verb() == Verb::Renew,
            _ => false,
        };
        if self.joins && joins() {
            self.join();
        }
    }

    fn join(&mut self) {
        self.joins = false;
        self.commands.push(Command::Join);
    }
}
