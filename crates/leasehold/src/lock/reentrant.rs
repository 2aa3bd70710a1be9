//! The reentrant lock, Redisson's `RLock`.

use leasehold_proto::recipe::{LockCalls, Recipe, multi, reentrant};

use super::kind::{Sealed, plain_guard};
use crate::error::SubjectKind;

/// The plain kind. The waiters of one client are served in the order of their arrival. Waiters of different clients
/// have no order.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Reentrant;

impl Sealed for Reentrant {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::Lock
    }

    fn recipe(&self) -> &'static Recipe {
        &reentrant::REENTRANT
    }

    fn joint_recipe(&self) -> Option<&'static Recipe> {
        Some(&multi::MULTI)
    }

    fn lock_calls(&self) -> &'static LockCalls {
        &reentrant::LOCK_CALLS
    }
}

plain_guard!(Reentrant);
