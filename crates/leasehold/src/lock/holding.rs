//! What a section needs of a guard, of one hold or of several.
//!
//! Invariant: a section ends each guard once, by a release or by a detach.

use std::future::Future;

use leasehold_proto::engine::LostReason;

use super::guard::{Guard, ReleaseOutcome};
use crate::error::{ReleaseError, Subject};
use crate::observe::Scene;

/// A guard under which a section runs its body. Only this crate's types implement it.
pub trait Holding: Send + Sync + Sized + 'static {
    /// Completes when the hold is lost.
    #[doc(hidden)]
    fn lost(&self) -> impl Future<Output = LostReason> + Send;

    /// Returns the object that errors name.
    #[doc(hidden)]
    fn subject(&self) -> Subject;

    /// Returns what the span of the body says.
    #[doc(hidden)]
    fn scene(&self) -> Scene<'_>;

    #[doc(hidden)]
    fn release(self) -> impl Future<Output = Result<ReleaseOutcome, ReleaseError>> + Send;

    #[doc(hidden)]
    fn detach(self);
}

impl<G: AsRef<Guard> + Into<Guard> + Send + Sync + 'static> Holding for G {
    fn lost(&self) -> impl Future<Output = LostReason> + Send {
        self.as_ref().lost()
    }

    fn subject(&self) -> Subject {
        self.as_ref().subject()
    }

    fn scene(&self) -> Scene<'_> {
        let guard = self.as_ref();
        let (name, owner) = (guard.shown_name(), Some(guard.wire_owner()));
        Scene { kind: guard.subject_kind(), name, owner, token: guard.token() }
    }

    fn release(self) -> impl Future<Output = Result<ReleaseOutcome, ReleaseError>> + Send {
        self.into().release()
    }

    fn detach(self) {
        self.into().detach();
    }
}
