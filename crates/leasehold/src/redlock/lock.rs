//! The quorum lock: a lock that a majority of the nodes grants.
//!
//! Invariant: every grant that does not become part of a hold is undone on each way out, by the client of its node: a
//! grant that arrived, a grant with an unknown outcome, and a grant that arrives late.
//!
//! # How it works
//! The lock sends one attempt to every node at the same time, each within its client's timeout. After a majority of
//! grants, the hold (`guard`) completes the attempts still in flight. [`quorum::Round`] counts the votes and decides
//! when a round ends, which node to wait for, and which votes to give up before that.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_proto::Moment;
use leasehold_proto::quorum::{self, Next, Progress, Quorum, Vote};

use super::guard::{QuorumGuard, validities};
use super::node::{Answer, Attempt, Node, may_grant};
use crate::error::{NodeAnswer, NodeError, QuorumError};
use crate::lock::guard::Guard;
use crate::lock::handle::Lock;
use crate::runtime::ticket::wait_for;
use crate::terms::{HoldTerms, lease_options};

/// A lock over the nodes of a [`Redlock`](crate::Redlock). Cheap to clone.
///
/// Unless a fixed [`lease`](Self::lease) is set, a watchdog renews the hold on every node. If a node loses its part of
/// the hold, the watchdog acquires it again as soon as that node counts again.
#[derive(Clone)]
pub struct QuorumLock {
    pub(super) nodes: Vec<Lock<Node>>,
}

/// The votes of the rounds of one acquire.
struct Ballot {
    round: quorum::Round,
    votes: Vec<Option<Guard>>,
    /// The errors of the current round, which a failed acquire reports.
    errors: Vec<Option<NodeError>>,
}

/// The end of a wait.
#[derive(Clone, Copy)]
enum Until {
    Once,
    Deadline(Moment),
    Forever,
}

impl QuorumLock {
    pub(super) const fn new(nodes: Vec<Lock<Node>>) -> Self {
        Self { nodes }
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

    /// Returns the quorum of the nodes.
    const fn quorum(&self) -> Quorum {
        Quorum::of(self.nodes.len())
    }

    async fn acquire(&self, until: Until) -> Result<Option<QuorumGuard>, QuorumError> {
        let mut ballot = Ballot::new(self.quorum(), self.nodes.len());
        loop {
            if let Some(guard) = self.run_round(&mut ballot).await {
                return Ok(Some(guard));
            }
            let now = self.now();
            let left = match until {
                Until::Once => Duration::ZERO,
                Until::Deadline(deadline) => deadline.since(now),
                Until::Forever => Duration::MAX,
            };
            match ballot.round.next(now, left, &validities(&ballot.votes)) {
                Next::WaitAt { node, at_most, undo } => {
                    ballot.votes[undo].fill_with(|| None);
                    ballot.errors.fill(None);
                    // Any other answer is dropped, because the next round includes this node again.
                    let waited = self.nodes[node].acquire_at_node(|handle| wait_for(handle, at_most)).await;
                    ballot.votes[node] = waited.ok().flatten();
                }
                Next::Contended => return Ok(None),
                Next::Unavailable => return Err(self.failure(ballot)),
            }
        }
    }

    /// Sends an attempt to every node that has not voted, at the same time. Returns as soon as a majority has granted,
    /// or as soon as no majority is possible.
    async fn run_round(&self, ballot: &mut Ballot) -> Option<QuorumGuard> {
        self.renew_votes(ballot).await;
        let missing: Vec<usize> = quorum::Round::missing(&validities(&ballot.votes)).collect();
        let mut attempts: FuturesUnordered<Attempt> =
            missing.into_iter().map(|node| Attempt::new(node, &self.nodes[node])).collect();
        loop {
            match ballot.round.progress(&validities(&ballot.votes)) {
                Progress::Open => {
                    let (node, answer) = attempts.next().await?;
                    ballot.note(node, answer);
                }
                Progress::Majority => break,
                Progress::NoMajority => return None,
            }
        }
        let votes = std::mem::take(&mut ballot.votes);
        Some(QuorumGuard::new(&self.nodes, votes, attempts.into_iter().collect()))
    }

    /// Renews the votes of earlier rounds, which have aged, and gives up those that cannot be renewed.
    async fn renew_votes(&self, ballot: &mut Ballot) {
        let renewing = ballot.votes.iter().zip(&self.nodes).map(|(vote, node)| async move {
            match vote {
                Some(guard) => {
                    guard.ensure(quorum::validity_of_a_kept_vote(node.terms.first_lease())).await.is_ok()
                }
                None => true,
            }
        });
        let renewed = join_all(renewing).await;
        for (vote, renewed) in ballot.votes.iter_mut().zip(renewed) {
            vote.take_if(|_| !renewed);
        }
    }

    fn failure(&self, mut ballot: Ballot) -> QuorumError {
        let nodes = self.nodes.iter().enumerate().map(|(node, lock)| NodeAnswer {
            server: lock.handle().server().to_owned(),
            granted: ballot.votes[node].is_some(),
            error: ballot.errors[node].take(),
        });
        QuorumError { subject: self.nodes[0].subject(), nodes: nodes.collect() }
    }
}

lease_options!(QuorumLock);

impl Ballot {
    fn new(quorum: Quorum, nodes: usize) -> Self {
        Self {
            round: quorum::Round::new(quorum),
            votes: (0..nodes).map(|_| None).collect(),
            errors: vec![None; nodes],
        }
    }

    fn note(&mut self, node: usize, answer: Answer) {
        let vote = match &answer {
            Ok(Some(_)) => Vote::Granted,
            Ok(None) => Vote::Refused,
            Err(error) => Vote::Failed { transient: may_grant(error) },
        };
        self.round.note(node, vote);
        match answer {
            Ok(granted) => self.votes[node] = granted,
            Err(error) => self.errors[node] = Some(error),
        }
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumLock").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
