//! The quorum lock: a lock that a majority of the nodes grants.
//!
//! Invariant: every grant that does not become part of a hold is undone on each way out, by the client of its node: a
//! grant that arrived, a grant with an unknown outcome, and a grant that arrives late.
//!
//! # How it works
//! The lock sends one attempt to every node at the same time, each within its client's timeout. After a majority of
//! grants, the hold (`node_holds`) completes the attempts still in flight. If another owner's hold prevents a majority,
//! the lock gives up the votes of the nodes behind the first node that refused, and waits at that node. So contenders
//! queue up there, each with votes of preceding nodes only, and cannot keep each other from a majority.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_proto::Moment;

use super::Node;
use super::guard::QuorumGuard;
use crate::error::{AcquireError, AcquireErrorKind, NodeAnswer, QuorumError};
use crate::lock::Lock;
use crate::lock::guard::Guard;
use crate::terms::{HoldTerms, lease_options};

/// The longest wait at one node before the next round over all nodes.
const AT_ONE_NODE: Duration = Duration::from_secs(1);
/// The time for which a waiter retries at a fleet without a working majority before it returns an error.
const UNAVAILABLE: Duration = Duration::from_secs(3);

/// A lock over the nodes of a [`Redlock`](crate::Redlock). Cheap to clone.
///
/// Unless a fixed [`lease`](Self::lease) is set, a watchdog renews the hold on every node. If a node loses its part of
/// the hold, the watchdog acquires it again as soon as that node counts again.
#[derive(Clone)]
pub struct QuorumLock {
    nodes: Vec<Lock<Node>>,
    watched: bool,
}

/// The answer of one node to an attempt.
pub(super) type Answer = Result<Option<Guard>, AcquireError>;
/// An attempt in flight at one node.
pub(super) struct Attempt {
    pub(super) node: usize,
    answer: BoxFuture<'static, Answer>,
}

impl Future for Attempt {
    type Output = (usize, Answer);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(cx).map(|answer| (self.node, answer))
    }
}

/// The votes of one round.
struct Round {
    votes: Vec<Option<Guard>>,
    answers: Vec<Option<AcquireErrorKind>>,
    contended: Vec<bool>,
}

/// The end of a wait.
#[derive(Clone, Copy)]
enum Until {
    Once,
    Deadline(Moment),
    Forever,
}

impl QuorumLock {
    pub(super) fn new(nodes: Vec<Lock<Node>>) -> Self {
        let watched = nodes.iter().all(|node| node.terms.is_watched());
        Self { nodes, watched }
    }

    /// Changes the terms of the lock at every node. A hold over a quorum has no bounds, since the renewal task would
    /// acquire a bounded hold again.
    pub(crate) fn map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self {
        let changed = |node: Lock<Node>| {
            let node = node.map_terms(&change);
            let lease = node.terms.first_lease();
            node.map_kind(|kind| kind.with_lease(lease))
        };
        Self::new(self.nodes.into_iter().map(changed).collect())
    }

    /// Acquires the lock, waiting as long as it takes.
    ///
    /// # Errors
    /// [`QuorumError`] if no majority of the nodes works for 3 s, or at once if no node has a transient error. The
    /// error lists each node with its answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the clients of the nodes undo their grants, including grants that arrive later.
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    ///
    /// # Examples
    /// See [`Redlock`](crate::Redlock).
    pub async fn lock(&self) -> Result<QuorumGuard, QuorumError> {
        loop {
            // A wait without a deadline ends with a guard or an error, so the loop runs once.
            if let Some(guard) = self.acquire(Until::Forever).await? {
                return Ok(guard);
            }
        }
    }

    /// Tries to acquire the lock with exactly one attempt at each node, at all nodes at the same time. Returns `None`
    /// if another owner holds the lock.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), but after one round.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let guard = redlock.lock("order:42").lock().await?;
    /// assert!(redlock.lock("order:42").try_lock().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<QuorumGuard>, QuorumError> {
        self.acquire(Until::Once).await
    }

    /// Acquires the lock, waiting for at most `wait`, counted from the first poll. The call can take one node's
    /// timeout longer. Returns `None` if another owner held the lock until then.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), or if the wait ends without a working majority.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let wait = Duration::from_secs(10);
    /// if let Some(guard) = redlock.lock("order:42").try_lock_for(wait).await? {
    ///     guard.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<QuorumGuard>, QuorumError> {
        if wait.is_zero() {
            return self.try_lock().await;
        }
        self.acquire(Until::Deadline(self.now() + wait)).await
    }

    fn now(&self) -> Moment {
        self.nodes[0].handle().now()
    }

    /// Returns the size of the smallest majority.
    pub(super) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    async fn acquire(&self, until: Until) -> Result<Option<QuorumGuard>, QuorumError> {
        let mut round = Round::new(self.nodes.len());
        let mut unavailable_since = None;
        loop {
            if let Some(guard) = self.run_round(&mut round).await {
                return Ok(Some(guard));
            }
            let contended = round.granted() + round.refused() >= self.quorum()
                || self.nodes.len() - round.refused() < self.quorum();
            let since = *unavailable_since.get_or_insert_with(|| self.now());
            if contended {
                unavailable_since = None;
            }
            let left = match until {
                Until::Once => Duration::ZERO,
                Until::Deadline(deadline) => deadline.since(self.now()),
                Until::Forever => Duration::MAX,
            };
            let node = round.node_to_wait_at(contended);
            let given_up = !contended && self.now().since(since) >= UNAVAILABLE;
            match node {
                Some(node) if !left.is_zero() && !given_up => {
                    self.wait_at_node(node, left.min(AT_ONE_NODE), &mut round).await;
                }
                _ if contended => return Ok(None),
                _ => return Err(self.failure(round)),
            }
        }
    }

    /// Sends an attempt to every node that has not voted, at the same time. Returns as soon as a majority has granted,
    /// or as soon as no majority is possible.
    async fn run_round(&self, round: &mut Round) -> Option<QuorumGuard> {
        self.renew_votes(round).await;
        let missing = (0..self.nodes.len()).filter(|node| round.votes[*node].is_none());
        let mut attempts: FuturesUnordered<Attempt> = missing.map(|node| self.attempt(node)).collect();
        while round.granted() < self.quorum() {
            let (node, answer) = attempts.next().await?;
            round.note(node, answer);
            if self.nodes.len() - round.refused() < self.quorum() {
                return None;
            }
        }
        let votes = std::mem::take(&mut round.votes);
        Some(QuorumGuard::new(self, votes, attempts.into_iter().collect()))
    }

    /// Renews the votes of earlier rounds, which have aged, and gives up those that cannot be renewed.
    async fn renew_votes(&self, round: &mut Round) {
        let renewing = round.votes.iter().zip(&self.nodes).map(|(vote, node)| async move {
            match vote {
                Some(guard) => guard.ensure(node.terms.first_lease() / 2).await.is_ok(),
                None => true,
            }
        });
        let renewed = join_all(renewing).await;
        for (vote, renewed) in round.votes.iter_mut().zip(renewed) {
            vote.take_if(|_| !renewed);
        }
    }

    fn attempt(&self, node: usize) -> Attempt {
        let lock = self.nodes[node].clone();
        Attempt { node, answer: async move { lock.try_lock().await }.boxed() }
    }

    /// Waits at one node, keeping only the votes of the nodes before it.
    async fn wait_at_node(&self, node: usize, span: Duration, round: &mut Round) {
        round.votes[node..].fill_with(|| None);
        round.forget();
        // Any other answer is dropped, because the next round includes this node again.
        round.votes[node] = self.nodes[node].try_lock_for(span).await.ok().flatten();
    }

    /// Returns the lock of one node, for the renewal task that acquires it again.
    pub(super) fn node(&self, node: usize) -> &Lock<Node> {
        &self.nodes[node]
    }

    /// Returns true if a node that lost its part of the hold acquires it again.
    pub(super) const fn is_watched(&self) -> bool {
        self.watched
    }

    fn failure(&self, mut round: Round) -> QuorumError {
        let nodes = self.nodes.iter().enumerate().map(|(node, lock)| NodeAnswer {
            server: lock.handle().server().to_owned(),
            granted: round.votes[node].is_some(),
            error: round.answers[node].take(),
        });
        QuorumError { subject: self.nodes[0].subject(), nodes: nodes.collect() }
    }
}

lease_options!(QuorumLock);

impl Round {
    fn new(nodes: usize) -> Self {
        Self {
            votes: (0..nodes).map(|_| None).collect(),
            answers: vec![None; nodes],
            contended: vec![false; nodes],
        }
    }

    fn note(&mut self, node: usize, answer: Answer) {
        self.contended[node] = matches!(answer, Ok(None));
        match answer {
            Ok(vote) => (self.votes[node], self.answers[node]) = (vote, None),
            Err(error) => self.answers[node] = Some(error.kind),
        }
    }

    /// Clears the answers of the last round, which say nothing about the next round.
    fn forget(&mut self) {
        self.contended.fill(false);
        self.answers.fill(None);
    }

    /// Counts the votes that are still valid.
    fn granted(&self) -> usize {
        self.votes.iter().flatten().filter(|guard| guard.is_held()).count()
    }

    fn refused(&self) -> usize {
        self.contended.iter().filter(|contended| **contended).count()
    }

    /// Returns the node to wait at: the first node that another owner holds, or else the first node whose error may
    /// pass.
    fn node_to_wait_at(&self, contended: bool) -> Option<usize> {
        if contended {
            return self.contended.iter().position(|contended| *contended);
        }
        let may_work = |answer: &Option<AcquireErrorKind>| match answer {
            Some(AcquireErrorKind::Store(source) | AcquireErrorKind::Unknown { source, .. }) => {
                source.kind.is_transient()
            }
            Some(AcquireErrorKind::RecentlyRestarted { .. }) => true,
            _ => false,
        };
        self.answers.iter().position(may_work)
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumLock").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
