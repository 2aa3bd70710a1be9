//! One node of a quorum lock: its kind of lock, and an attempt to acquire it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use leasehold_proto::engine::Wait;
use leasehold_proto::quorum;
use leasehold_proto::recipe::{LockCalls, Recipe, plain, redlock, reentrant};

use crate::error::{AcquireErrorKind, NodeError, SubjectKind};
use crate::lock::acquire::acquire_at_node;
use crate::lock::guard::Guard;
use crate::lock::handle::Lock;
use crate::lock::kind::{Sealed, plain_guard};
use crate::runtime::shared::Handle;

/// The kind of one node's part of a quorum lock.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// True for a plain lock, false for Redisson's.
    is_plain: bool,
    /// The longest lease in the fleet, or zero if the nodes keep all data across a restart.
    fleet: Duration,
    /// The lease of this lock.
    lease: Duration,
}

impl Node {
    pub(super) const fn new(is_plain: bool, fleet: Duration, lease: Duration) -> Self {
        Self { is_plain, fleet, lease }
    }

    /// Returns the kind for locks with this lease.
    pub(super) const fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }
}

impl Sealed for Node {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::Redlock
    }

    fn recipe(&self) -> &'static Recipe {
        if self.is_plain { &plain::REDLOCK } else { &redlock::REDLOCK }
    }

    fn lock_calls(&self) -> &'static LockCalls {
        if self.is_plain { &plain::LOCK_CALLS } else { &reentrant::LOCK_CALLS }
    }

    fn uptime(&self) -> Duration {
        quorum::uptime(self.fleet, self.lease)
    }
}

plain_guard!(Node);

impl Lock<Node> {
    /// Acquires the lock at its node.
    pub(super) async fn acquire_at_node(
        &self,
        wait: impl FnOnce(&Handle) -> Wait,
    ) -> Result<Option<Guard>, NodeError> {
        let request = self.request(wait)?;
        acquire_at_node(self.handle(), request, self.kind.subject_kind()).await
    }
}

/// The answer of one node to an attempt.
pub(super) type Answer = Result<Option<Guard>, NodeError>;

/// Returns true if a node may grant again after this error.
pub(super) fn may_grant(error: &NodeError) -> bool {
    match error {
        NodeError::Acquire(AcquireErrorKind::Store(source) | AcquireErrorKind::Unknown { source, .. }) => {
            source.kind.is_transient()
        }
        NodeError::RecentlyRestarted { .. } => true,
        NodeError::Acquire(_) => false,
    }
}

/// An attempt in flight at one node.
pub(super) struct Attempt {
    pub(super) node: usize,
    answer: BoxFuture<'static, Answer>,
}

impl Attempt {
    pub(super) fn new(node: usize, lock: &Lock<Node>) -> Self {
        let lock = lock.clone();
        Self { node, answer: async move { lock.acquire_at_node(|_| Wait::Once).await }.boxed() }
    }
}

impl Future for Attempt {
    type Output = (usize, Answer);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(cx).map(|answer| (self.node, answer))
    }
}
