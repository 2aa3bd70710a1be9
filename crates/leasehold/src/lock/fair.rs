//! The fair lock: Redisson's.
//!
//! Invariant: as every lock's.
//! Called by: the client.

use leasehold_proto::recipe::{LockRecipe, fair};

use super::kind::{Claimed, Kind, Sealed};
use crate::error::SubjectKind;
use crate::guard::Guard;

/// The fair kind: waiters are served in the order in which their first question reached the server, over all processes,
/// Java's among them. A waiter that dies is passed by within about five seconds.
///
/// [`Lock::try_lock`](super::Lock::try_lock) gets a free lock only when nobody waits for it. While anybody waits, each
/// waiter asks every one and a half seconds, to show that it is alive.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Fair;

impl Sealed for Fair {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::FairLock
    }

    fn recipe(&self) -> &'static dyn LockRecipe {
        &fair::Fair
    }
}

impl Kind for Fair {
    type Guard = Guard;

    fn guard(Claimed(guard): Claimed) -> Guard {
        guard
    }
}
