//! When a client becomes visible to operators, and when it leaves.
//!
//! Invariant: a client with short holds and without waiters never becomes visible, so it sends nothing for this.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_proto::engine::{Action, Event};
use leasehold_proto::{Call, Holding, Verb};

use super::{Command, Effects, Shared, State};
use crate::runtime::identity::Identity;

/// The stages of a registration, in their order. The first is 0.
const REGISTERED: u8 = 1;
const LEFT: u8 = 2;

/// The fixed lease from which on a hold is worth a look by operators. A shorter one is over before anybody asks.
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

    /// Begins to register, unless the client leaves. The card counts as registered from then on, because the call may be
    /// applied whatever its outcome.
    pub(in crate::runtime) fn begin_registration(&self) -> bool {
        self.registration.fetch_max(REGISTERED, Ordering::Relaxed) < LEFT
    }

    /// Returns the call that removes the client's card, once, if the card may be on the server. The client registers no more.
    pub(in crate::runtime) fn leave_call(&self) -> Option<Call> {
        let identity = self.identity.as_ref()?;
        (self.registration.swap(LEFT, Ordering::Relaxed) == REGISTERED).then(|| identity.leave())
    }

    /// Removes the client's card.
    pub(crate) async fn leave_operators(&self) {
        let Some(call) = self.leave_call() else { return };
        let _leaving = Leaving::new(self);
        if self.query(call, |_| Some(())).await.is_err() {
            // The driver tries once more at its end. A card that stays names a client that does not listen, until its
            // registration ends.
            self.registration.store(REGISTERED, Ordering::Relaxed);
        }
    }
}

/// Keeps the driver until the card is removed, or nobody waits for that any more.
struct Leaving<'a>(&'a Shared);

impl<'a> Leaving<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.lock().is_leaving = true;
        Self(shared)
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_leaving = false;
        self.0.leave(state, Effects::default());
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

    /// Joins, unless the client is visible already or never is.
    pub(super) fn join_once(&mut self) {
        if self.joins {
            self.join();
        }
    }

    fn join(&mut self) {
        self.joins = false;
        self.commands.push(Command::Join);
    }
}
