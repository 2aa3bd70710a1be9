//! The holds of a user.
//!
//! Invariant: if a hold ends with its future, with its process or by its user's choice, the recorder hears of it before
//! the guard is dropped.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Guard, LostReason, ReleaseError, ReleaseOutcome};

use crate::environment::Env;
use crate::history::{Ending, Event, Hold, Op};
use crate::recorder::Claim;
use crate::taken::Taken;

/// A guard, with the holds that the recorder knows it by.
pub(super) struct Held {
    holds: Vec<Hold>,
    taken: Option<Arc<Taken>>,
    env: Env,
}

impl Held {
    pub(super) fn new(env: &Env, op: Op, taken: Taken, claims: Vec<Claim>) -> Self {
        let taken = Arc::new(taken);
        let holds = env.recorder.claim(env.now(), op, env.process, &taken, claims);
        Self { holds, taken: Some(taken), env: env.clone() }
    }

    fn taken(&self) -> &Taken {
        self.taken.as_ref().expect("a hold that has not ended has its guard")
    }

    /// Returns the first guard.
    pub(super) fn guard(&self) -> &Guard {
        &self.taken().guards()[0]
    }

    /// Waits until the hold, or one of several holds, is lost, and records the loss.
    pub(super) async fn lost(&self) -> LostReason {
        let _watch = Watch::begin(self);
        let reason = self.taken().lost().await;
        // All holds of a guard that several names share are lost together.
        let guards = self.taken().guards();
        let lost = self.holds.iter().enumerate();
        let lost = lost.filter(|(place, _)| !guards[(*place).min(guards.len() - 1)].is_held());
        let mut lost: Vec<Hold> = lost.map(|(_, hold)| *hold).collect();
        // If every guard is still held, the event lets the invariants report it.
        if lost.is_empty() {
            lost.clone_from(&self.holds);
        }
        lost.truncate(1);
        for hold in lost {
            self.env.record(Event::Lost { hold, reason });
        }
        reason
    }

    /// Requests a longer validity.
    pub(super) async fn ensure(&self, validity: Duration) -> Result<(), leasehold::EnsureError> {
        self.taken().ensure(validity).await
    }

    /// Releases, and waits for the report.
    pub(super) fn release(mut self) -> impl Future<Output = Result<ReleaseOutcome, ReleaseError>> {
        self.end(Ending::Release).release()
    }

    pub(super) fn detach(mut self) {
        self.end(Ending::Detach).detach();
    }

    /// Returns the remaining validity.
    pub(super) fn remaining(&self) -> Duration {
        self.taken().remaining()
    }

    fn end(&mut self, how: Ending) -> Taken {
        self.record(how);
        let taken = self.taken.take().expect("a hold ends once");
        Arc::into_inner(taken).expect("only its user keeps a guard")
    }

    fn record(&self, how: Ending) {
        for hold in &self.holds {
            self.env.recorder.end(self.env.now(), *hold, how);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.taken.is_some() {
            self.record(Ending::Drop);
        }
    }
}

/// A wait for a loss. The recorder knows of it for as long as it lasts.
struct Watch<'a>(&'a Held);

impl<'a> Watch<'a> {
    fn begin(held: &'a Held) -> Self {
        let watch = Self(held);
        watch.record(true);
        watch
    }

    fn record(&self, begins: bool) {
        for hold in &self.0.holds {
            self.0.env.record(Event::AwaitsLoss { hold: *hold, begins });
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.record(false);
    }
}
