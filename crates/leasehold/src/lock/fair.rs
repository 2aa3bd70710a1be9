//! The fair lock, compatible with Redisson's.

use leasehold_proto::recipe::{LockCalls, Recipe, fair};

use super::kind::{Sealed, plain_guard};
use crate::error::SubjectKind;

/// The fair kind. Waiters are served in the order in which their first request reached the server, across all
/// processes, Java's included. The queue passes a dead waiter within about five seconds.
///
/// [`Lock::try_lock`](super::Lock::try_lock) acquires a free lock only if the wait queue is empty. While the queue has
/// waiters, each waiter polls every 1.5 s to show that it is alive.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Fair;

impl Sealed for Fair {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::FairLock
    }

    fn recipe(&self) -> &'static Recipe {
        &fair::FAIR
    }

    fn lock_calls(&self) -> &'static LockCalls {
        &fair::LOCK_CALLS
    }
}

plain_guard!(Fair);
