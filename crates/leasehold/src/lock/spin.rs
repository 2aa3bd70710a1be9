//! The spin lock: Redisson's.
//!
//! Invariant: as every lock's.
//! Called by: the client; users, who set its pauses.

use std::time::Duration;

use leasehold_proto::backoff::Backoff;
use leasehold_proto::recipe::{LockRecipe, spin};

use super::Lock;
use super::kind::{Claimed, Kind, Sealed};
use crate::error::SubjectKind;
use crate::guard::Guard;

/// The spinning kind: no messages are sent, and waiters ask again after pauses that grow.
///
/// For very many locks that are held for a very short time, where a message per release would cost the server more than
/// a few questions do. Each client has one asker for each lock; the others stand behind it.
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

    fn recipe(&self) -> &'static dyn LockRecipe {
        &spin::Spin
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(self.0)
    }
}

impl Kind for Spin {
    type Guard = Guard;

    fn guard(Claimed(guard): Claimed) -> Guard {
        guard
    }
}

impl Lock<Spin> {
    /// The same lock with other pauses between questions: they double from `first` (default 1 ms, at least 1 ms) to
    /// `longest` (default 128 ms), and each is cut by up to a half at random.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.spin_lock("tick").backoff(Duration::from_millis(5), Duration::from_millis(50));
    /// let guard = lock.lock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let first = first.max(Duration::from_millis(1));
        self.kind = Spin(Backoff { first, longest: longest.max(first) });
        self
    }
}
