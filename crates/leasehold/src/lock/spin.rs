//! The spin lock, compatible with Redisson's.

use std::time::Duration;

use leasehold_proto::backoff::Backoff;
use leasehold_proto::recipe::{LockCalls, Recipe, spin};

use super::handle::Lock;
use super::kind::{Sealed, plain_guard};
use crate::error::SubjectKind;

/// The spinning kind. A release sends no message, and waiters poll after growing pauses.
///
/// Use it for very many locks with very short holds, where a message for each release would cost the server more than
/// a few polls. In each client, only the head of the wait queue of a lock polls. After a release the next waiter of the
/// same client pauses once before it polls, and every sixteenth time for the longest pause, so that the waiters of other
/// clients find the lock free.
#[derive(Clone, Copy, Debug)]
pub struct Spin(Backoff);

impl Spin {
    pub(crate) const fn new(pauses: Backoff) -> Self {
        Self(pauses)
    }
}

impl Sealed for Spin {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::SpinLock
    }

    fn recipe(&self) -> &'static Recipe {
        &spin::SPIN
    }

    fn lock_calls(&self) -> &'static LockCalls {
        &spin::LOCK_CALLS
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(self.0)
    }
}

plain_guard!(Spin);

impl Lock<Spin> {
    /// Sets the pauses between polls. They double from `first` (default 1 ms, at least 1 ms) to `longest` (default 128
    /// ms, at least `first`). Each pause is shortened by a random part of up to one half.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let first = first.max(Duration::from_millis(1));
        self.kind = Spin(Backoff { first, longest: longest.max(first) });
        self
    }
}
