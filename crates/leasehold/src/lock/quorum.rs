//! A lock that a majority of nodes makes.
//!
//! Invariant: whatever was not turned into a hold is given back on every way out, by the nodes' own clients: what a
//! node granted, what it may have granted, and what it grants when it answers at last.
//! Called by: users; Redlock, which makes them.
//!
//! # How it works
//! All nodes are asked at the same time, each for as long as its client's timeout. With a majority the rest is seen to by
//! the hold (`seats`). Without one, and with somebody else's hold in the way, the votes of nodes behind the first that
//! refused are given back and that node is waited for; so those who contend queue up there, each holding only votes of
//! nodes before it, and cannot keep each other from a majority.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_proto::Moment;

use super::Lock;
use super::redlock::Node;
use super::seats::QuorumGuard;
use crate::error::{AcquireError, AcquireErrorKind, NodeAnswer, QuorumError};
use crate::guard::Guard;

/// For how long one node is waited for before the others are asked again.
const AT_ONE_NODE: Duration = Duration::from_secs(1);
/// For how long a fleet without a working majority is asked again before a waiter is told.
const UNAVAILABLE: Duration = Duration::from_secs(3);

/// A lock over the nodes of a [`Redlock`](crate::Redlock). Cheap to clone.
///
/// Unless a fixed [`lease`](Self::lease) is given, a watchdog renews the hold on every node, and takes it again on a node
/// that lost it, once that node counts again.
#[derive(Clone)]
pub struct QuorumLock {
    nodes: Vec<Lock<Node>>,
    watched: bool,
}

/// What a node says when it is asked.
pub(super) type Asked = Result<Option<Guard>, AcquireError>;
/// A question on its way to a node.
pub(super) struct Asking {
    pub(super) node: usize,
    asked: BoxFuture<'static, Asked>,
}

impl Future for Asking {
    type Output = (usize, Asked);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.asked.as_mut().poll(cx).map(|asked| (self.node, asked))
    }
}

/// The votes of one round.
struct Round {
    votes: Vec<Option<Guard>>,
    answers: Vec<Option<AcquireErrorKind>>,
    contended: Vec<bool>,
}

/// How long to wait.
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

    fn each(self, watched: bool, change: impl Fn(Lock<Node>) -> Lock<Node>) -> Self {
        Self { nodes: self.nodes.into_iter().map(change).collect(), watched }
    }

    /// The same lock with a fixed lease and no watchdog: see [`Lock::lease`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let lock = redlock.lock("order:42").lease(Duration::from_secs(10));
    /// let guard = lock.lock().await?; // ends after 10 s, come what may
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        self.each(false, |node| node.map_kind(|kind| kind.with_lease(lease)).lease(lease))
    }

    /// The same lock with another lease for the watchdog: see [`Lock::watchdog`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let lock = redlock.lock("order:42").watchdog(Duration::from_secs(5));
    /// let guard = lock.lock().await?; // renewed for as long as it lives
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn watchdog(self, lease: Duration) -> Self {
        self.each(true, |node| node.map_kind(|kind| kind.with_lease(lease)).watchdog(lease))
    }

    /// Waits for the lock, for ever if need be.
    ///
    /// # Errors
    /// [`QuorumError`] when no majority of the nodes has worked for some time; it lists each node with its answer.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what nodes have granted, also what they grant later.
    ///
    /// # Losing the lease
    /// See [`QuorumGuard`].
    ///
    /// # Examples
    /// See [`Redlock`](crate::Redlock).
    pub async fn lock(&self) -> Result<QuorumGuard, QuorumError> {
        loop {
            // A wait without a deadline ends with a guard or an error; the loop has one turn.
            if let Some(guard) = self.acquire(Until::Forever).await? {
                return Ok(guard);
            }
        }
    }

    /// Asks each node exactly once, all at the same time. `None` when somebody else holds the lock.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), after one round.
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

    /// Waits for the lock for at most this long, counted from the first poll, and for at most one node's timeout more.
    /// `None` when it was somebody else's until then.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and when the wait ended without a working majority.
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

    /// The smallest majority.
    pub(super) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    async fn acquire(&self, until: Until) -> Result<Option<QuorumGuard>, QuorumError> {
        let mut round = Round::new(self.nodes.len());
        let mut unavailable_since = None;
        loop {
            if let Some(guard) = self.ask(&mut round).await {
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
            let gate = round.gate(contended);
            let given_up = !contended && self.now().since(since) >= UNAVAILABLE;
            match gate {
                Some(gate) if !left.is_zero() && !given_up => {
                    self.wait_at(gate, left.min(AT_ONE_NODE), &mut round).await;
                }
                _ if contended => return Ok(None),
                _ => return Err(self.failure(round)),
            }
        }
    }

    /// Asks every node that has not voted, all at the same time. A majority ends it, and so does one that cannot be had.
    async fn ask(&self, round: &mut Round) -> Option<QuorumGuard> {
        self.renew_votes(round).await;
        let missing = (0..self.nodes.len()).filter(|node| round.votes[*node].is_none());
        let mut asking: FuturesUnordered<Asking> = missing.map(|node| self.question(node)).collect();
        while round.granted() < self.quorum() {
            let (node, asked) = asking.next().await?;
            round.note(node, asked);
            if self.nodes.len() - round.refused() < self.quorum() {
                return None;
            }
        }
        let votes = std::mem::take(&mut round.votes);
        Some(QuorumGuard::new(self, votes, asking.into_iter().collect()))
    }

    /// Votes of an earlier round have aged: they are renewed, or given up.
    async fn renew_votes(&self, round: &mut Round) {
        let renewing = round.votes.iter().zip(&self.nodes).map(|(vote, node)| async move {
            match vote {
                Some(guard) => guard.ensure(node.terms.lease() / 2).await.is_ok(),
                None => true,
            }
        });
        let renewed = join_all(renewing).await;
        for (vote, renewed) in round.votes.iter_mut().zip(renewed) {
            vote.take_if(|_| !renewed);
        }
    }

    fn question(&self, node: usize) -> Asking {
        let lock = self.nodes[node].clone();
        Asking { node, asked: async move { lock.try_lock().await }.boxed() }
    }

    /// Waits for one node, holding only the votes of those before it.
    async fn wait_at(&self, gate: usize, span: Duration, round: &mut Round) {
        round.votes[gate..].fill_with(|| None);
        round.forget();
        // Whatever else it says is asked again with the others.
        round.votes[gate] = self.nodes[gate].try_lock_for(span).await.ok().flatten();
    }

    /// The node's part, to be taken again.
    pub(super) fn node(&self, node: usize) -> &Lock<Node> {
        &self.nodes[node]
    }

    /// Whether nodes that lose their part get it again.
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

impl Round {
    fn new(nodes: usize) -> Self {
        Self {
            votes: (0..nodes).map(|_| None).collect(),
            answers: vec![None; nodes],
            contended: vec![false; nodes],
        }
    }

    fn note(&mut self, node: usize, asked: Asked) {
        self.contended[node] = matches!(asked, Ok(None));
        match asked {
            Ok(vote) => (self.votes[node], self.answers[node]) = (vote, None),
            Err(error) => self.answers[node] = Some(error.kind),
        }
    }

    /// The answers of the last round do not say what the next one comes to.
    fn forget(&mut self) {
        self.contended.fill(false);
        self.answers.fill(None);
    }

    /// Votes that can be trusted.
    fn granted(&self) -> usize {
        self.votes.iter().flatten().filter(|guard| guard.is_held()).count()
    }

    fn refused(&self) -> usize {
        self.contended.iter().filter(|contended| **contended).count()
    }

    /// The node to wait for: the first whose lock is somebody else's, else the first that may work a little later.
    fn gate(&self, contended: bool) -> Option<usize> {
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
