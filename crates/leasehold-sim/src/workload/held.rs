//! A guard in a user's hands.
//!
//! Invariant: however a hold ends, with its future, its process or by its user's will, the recorder is told before the
//! guard goes.
//! Called by: workloads.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Guard, LostReason, ReleaseError, Released};

use crate::ground::Ground;
use crate::history::{Ending, Event, Hold, Op};
use crate::recorder::{Recorder, Terms};

/// A guard, and what the recorder knows it as.
pub(super) struct Held {
    hold: Hold,
    guard: Option<Arc<Guard>>,
    recorder: Recorder,
    ground: Arc<dyn Ground>,
}

impl Held {
    pub(super) fn new(
        recorder: &Recorder,
        ground: &Arc<dyn Ground>,
        op: Op,
        process: usize,
        guard: Guard,
        terms: Terms,
    ) -> Self {
        let guard = Arc::new(guard);
        let hold = recorder.claim(ground.now(), op, process, &guard, terms);
        Self { hold, guard: Some(guard), recorder: recorder.clone(), ground: Arc::clone(ground) }
    }

    pub(super) fn guard(&self) -> &Guard {
        self.guard.as_ref().expect("a hold that has not ended has its guard")
    }

    /// Says that it is lost.
    pub(super) async fn lost(&self) -> LostReason {
        let _watch = Watch::begin(self);
        let reason = self.guard().lost().await;
        self.recorder.record(self.ground.now(), Event::Lost { hold: self.hold, reason });
        reason
    }

    /// Releases, and waits for the report.
    pub(super) fn release(mut self) -> impl Future<Output = Result<Released, ReleaseError>> {
        self.take(Ending::Release).release()
    }

    pub(super) fn keep(mut self) {
        self.take(Ending::Keep).keep();
    }

    /// For how long it may be trusted.
    pub(super) fn remaining(&self) -> Duration {
        self.guard().remaining()
    }

    fn take(&mut self, how: Ending) -> Guard {
        self.recorder.end(self.ground.now(), self.hold, how);
        let guard = self.guard.take().expect("a hold ends once");
        Arc::into_inner(guard).expect("only its user keeps a guard")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.recorder.end(self.ground.now(), self.hold, Ending::Drop);
        }
    }
}

/// A wait for a loss, told to the recorder for as long as it lasts.
struct Watch<'a>(&'a Held);

impl<'a> Watch<'a> {
    fn begin(held: &'a Held) -> Self {
        held.recorder.record(held.ground.now(), Event::Watches { hold: held.hold, begins: true });
        Self(held)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let Held { recorder, ground, hold, .. } = self.0;
        recorder.record(ground.now(), Event::Watches { hold: *hold, begins: false });
    }
}
