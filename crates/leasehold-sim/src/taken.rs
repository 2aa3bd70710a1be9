//! The result of an acquire: one guard, or several guards as one.
//!
//! Invariant: each variant is used as an application uses it.

use std::time::Duration;

use leasehold::{EnsureError, Guard, LostReason, MultiGuard, ReleaseError, ReleaseOutcome};

/// The guard or guards of an acquire.
#[derive(Debug)]
pub(crate) enum Taken {
    One(Guard),
    Several(MultiGuard),
}

impl Taken {
    pub(crate) fn guards(&self) -> &[Guard] {
        match self {
            Self::One(guard) => std::slice::from_ref(guard),
            Self::Several(guard) => guard.as_ref(),
        }
    }

    /// Returns the remaining validity of all guards together.
    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Self::One(guard) => guard.remaining(),
            Self::Several(guard) => guard.remaining(),
        }
    }

    pub(crate) async fn lost(&self) -> LostReason {
        match self {
            Self::One(guard) => guard.lost().await,
            Self::Several(guard) => guard.lost().await,
        }
    }

    pub(crate) async fn ensure(&self, validity: Duration) -> Result<(), EnsureError> {
        match self {
            Self::One(guard) => guard.ensure(validity).await,
            Self::Several(guard) => guard.ensure(validity).await,
        }
    }

    pub(crate) async fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::Several(guard) => guard.release().await,
        }
    }

    pub(crate) fn detach(self) {
        match self {
            Self::One(guard) => guard.detach(),
            Self::Several(guard) => guard.detach(),
        }
    }
}
