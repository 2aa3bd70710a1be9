//! The health of a client, and the lists of what it holds and waits for.

// Invariant: the engine's lock is held for one page of rows at a time, so that reading 100,000 holds delays no renewal.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::Id;

use super::rows::{HeldLock, WaitingAcquire};
use crate::runtime::shared::Handle;

/// How long the driver may leave work undone before it counts as stuck. Of the default lease of 30 s at least half is
/// left by then, so an alert comes before a loss.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// The health of a client. See [`Client::health`](super::Client::health).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the server answers.
    pub server: ServerState,
    /// The time since the last answer of the server, or `None` if there was none yet.
    pub last_answer: Option<Duration>,
    /// The median, the 99th percentile and the longest round trip of the last minute, or `None` without calls. One call at a
    /// time is timed.
    pub round_trips: Option<[Duration; 3]>,
    /// The number of holds.
    pub holds: usize,
    /// The number of acquires that wait.
    pub waiters: usize,
    /// The time that the longest of them has waited.
    pub longest_wait: Duration,
    /// The validity of the hold that has the least left, or `None` without holds.
    pub thinnest_lease: Option<Duration>,
    /// The number of channels on which the client listens.
    pub subscriptions: usize,
    /// The time for which the client's thread has left work undone.
    pub driver_late: Duration,
    /// The number of facts that were dropped, because an observer stood still.
    pub facts_dropped: u64,
    /// The number of observers that have panicked.
    pub observers_failed: usize,
    /// The shortest time for which holds last without the server.
    pub(super) patience: Duration,
}

/// Whether a client's server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerState {
    /// No call has ended yet.
    Unused,
    /// The last call was answered.
    Answers,
    /// Calls have failed for this time.
    Failing(Duration),
    /// The client is closed.
    Closed,
}

impl Health {
    /// Returns true if the client's own thread turns. This says nothing of the server, so it fits a liveness probe: a
    /// restart of the process would not bring the server back.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.driver_late < STUCK_AFTER
    }

    /// Returns true if locks can be acquired, or could be until less than a lease ago. It fits a readiness probe of a
    /// service that can do nothing without locks. One failing server makes all copies of such a service unready at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match self.server {
            ServerState::Unused | ServerState::Answers => self.is_alive(),
            ServerState::Failing(since) => self.is_alive() && since < self.patience,
            ServerState::Closed => false,
        }
    }
}

/// The holds of a client, oldest request first. The iterator reads 256 at a time, so it may miss a hold that begins or
/// ends meanwhile.
#[derive(Debug)]
pub struct Holds(pub(super) Pages<HeldLock>);

/// The waiting acquires of a client, oldest request first. The iterator reads 256 at a time, so it may miss a wait that
/// begins or ends meanwhile.
#[derive(Debug)]
pub struct Waits(pub(super) Pages<WaitingAcquire>);

impl Iterator for Holds {
    type Item = HeldLock;

    fn next(&mut self) -> Option<HeldLock> {
        self.0.next_by(|handle, after| handle.holds_after(after))
    }
}

impl Iterator for Waits {
    type Item = WaitingAcquire;

    fn next(&mut self) -> Option<WaitingAcquire> {
        self.0.next_by(|handle, after| handle.waits_after(after))
    }
}

/// Rows that are read page by page.
pub(super) struct Pages<T> {
    handle: Arc<Handle>,
    page: std::vec::IntoIter<T>,
    /// The id behind which the next page begins, or `None` after the last one.
    after: Option<Id>,
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").finish_non_exhaustive()
    }
}

impl<T> Pages<T> {
    pub(super) fn new(handle: &Arc<Handle>) -> Self {
        Self { handle: Arc::clone(handle), page: Vec::new().into_iter(), after: Some(Id(0)) }
    }

    fn next_by(&mut self, read: impl Fn(&Handle, Id) -> (Vec<T>, Option<Id>)) -> Option<T> {
        loop {
            if let Some(row) = self.page.next() {
                return Some(row);
            }
            let (page, after) = read(&self.handle, self.after?);
            (self.page, self.after) = (page.into_iter(), after);
        }
    }
}
