//! The rules of Redlock: the votes of independent nodes, the validity of a majority, and its loss.
//!
//! Invariant: a hold without a majority for an instant is lost for good, even if a node joins later.
//!
//! # How it works
//! Each node has an engine of its own, which decides whether the hold on that node, the *node hold*, is valid. These
//! rules keep no copy of that state. The caller passes the [`Validities`] of all nodes along. Each validity counts from
//! before the send of the node's last confirmed call and is shortened by the drift. So the validity of the majority is
//! never longer than the lease minus the elapsed time and the drift.

use std::ops::Range;
use std::time::Duration;

use crate::engine::LostReason;
use crate::moment::Moment;

/// The longest wait at one node before the next round over all nodes. A waiter listens at one node only, so it hears
/// nothing of the others meanwhile.
const AT_ONE_NODE: Duration = Duration::from_secs(1);
/// The time for which a waiter retries at a fleet without a working majority before it gives up. A node that
/// restarts may be back by then, and callers of a fleet that is down should not wait longer.
const UNAVAILABLE: Duration = Duration::from_secs(3);

/// The validity that each node's hold has left, or `None` for a node without a hold.
pub type Validities = [Option<Duration>];

/// A fleet of independent nodes, of which a majority decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorum {
    nodes: usize,
}

impl Quorum {
    /// Creates the quorum of this number of nodes, which is at least 1.
    #[must_use]
    pub const fn of(nodes: usize) -> Self {
        Self { nodes }
    }

    /// Returns the size of the smallest majority.
    #[must_use]
    pub const fn size(self) -> usize {
        self.nodes / 2 + 1
    }

    /// Returns the validity of a majority, which is the shortest validity of the majority with the longest ones. It is
    /// zero without a majority.
    #[must_use]
    pub fn remaining(self, validities: &Validities) -> Duration {
        let mut longest: Vec<Duration> = validities.iter().flatten().copied().collect();
        longest.sort_unstable_by(|one, other| other.cmp(one));
        longest.get(self.size() - 1).copied().unwrap_or_default()
    }

    /// Returns true if the releases of the node holds are a release of the lock: a majority has confirmed, or no node
    /// has failed.
    #[must_use]
    pub const fn is_released(self, confirmed: usize, failed: usize) -> bool {
        failed == 0 || confirmed >= self.size()
    }
}

/// Counts the nodes whose hold is valid.
#[must_use]
pub fn votes(validities: &Validities) -> usize {
    validities.iter().flatten().filter(|validity| !validity.is_zero()).count()
}

/// Returns the uptime below which a node may have forgotten a hold, and therefore does not count. Nodes whose
/// `longest_lease` is zero keep all data across a restart.
#[must_use]
pub fn uptime(longest_lease: Duration, lease: Duration) -> Duration {
    if longest_lease.is_zero() { Duration::ZERO } else { longest_lease.max(lease) }
}

/// Returns the validity that a vote of an earlier round needs in the next round.
#[must_use]
pub fn validity_of_a_kept_vote(lease: Duration) -> Duration {
    lease / 2
}

/// The answer of one node to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The node granted.
    Granted,
    /// Another owner holds the lock on the node.
    Refused,
    /// The node failed, or the outcome is unknown. The node counts for no side.
    Failed {
        /// True if another attempt may succeed.
        transient: bool,
    },
}

/// The state of a round of attempts at all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The answers so far decide nothing.
    Open,
    /// A majority has granted. The attempts in flight may join the [`Hold`].
    Majority,
    /// Other owners hold too many nodes for a majority.
    NoMajority,
}

/// The step after a round without a majority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The caller waits at one node, and then begins another round.
    WaitAt {
        /// The node to wait at.
        node: usize,
        /// The longest wait.
        at_most: Duration,
        /// The nodes whose holds the caller undoes before it waits. Contenders queue up at the first node that refuses
        /// them, each with votes of preceding nodes only. So they cannot keep each other from a majority.
        undo: Range<usize>,
    },
    /// The acquire ends, because other owners hold the lock. The caller undoes all node holds.
    Contended,
    /// The acquire fails, because no majority of the nodes works. The caller undoes all node holds.
    Unavailable,
}

/// The votes of an acquire, over all of its rounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Round {
    quorum: Quorum,
    /// The votes of the current round.
    votes: Vec<Option<Vote>>,
    /// The end of the first round without a working majority, unless a later round found one.
    unavailable_since: Option<Moment>,
}

impl Round {
    /// Creates the first round, without a vote.
    #[must_use]
    pub fn new(quorum: Quorum) -> Self {
        Self { quorum, votes: vec![None; quorum.nodes], unavailable_since: None }
    }

    /// Returns the nodes at which the round makes an attempt.
    pub fn missing(validities: &Validities) -> impl Iterator<Item = usize> {
        let missing = validities.iter().enumerate().filter(|(_, validity)| validity.is_none());
        missing.map(|(node, _)| node)
    }

    /// Notes the answer of a node.
    pub fn note(&mut self, node: usize, vote: Vote) {
        self.votes[node] = Some(vote);
    }

    /// Returns the state of the round. A grant counts only while it is valid.
    #[must_use]
    pub fn progress(&self, validities: &Validities) -> Progress {
        if votes(validities) >= self.quorum.size() {
            Progress::Majority
        } else if self.quorum.nodes - self.refused() < self.quorum.size() {
            Progress::NoMajority
        } else {
            Progress::Open
        }
    }

    /// Ends a round without a majority. The caller is willing to wait for the time that is `left`.
    pub fn next(&mut self, now: Moment, left: Duration, validities: &Validities) -> Next {
        let contended = self.is_contended(validities);
        let since = *self.unavailable_since.get_or_insert(now);
        if contended {
            self.unavailable_since = None;
        }
        let gives_up = !contended && now.since(since) >= UNAVAILABLE;
        match self.node_to_wait_at(contended) {
            Some(node) if !left.is_zero() && !gives_up => {
                // The answers say nothing about the next round.
                self.votes.fill(None);
                Next::WaitAt { node, at_most: left.min(AT_ONE_NODE), undo: node..self.quorum.nodes }
            }
            _ if contended => Next::Contended,
            _ => Next::Unavailable,
        }
    }

    /// Returns true if a majority works, and other owners are the reason for the failure of the round.
    fn is_contended(&self, validities: &Validities) -> bool {
        votes(validities) + self.refused() >= self.quorum.size()
            || self.progress(validities) == Progress::NoMajority
    }

    /// Returns the first node that another owner holds, or else the first node whose failure may pass.
    fn node_to_wait_at(&self, contended: bool) -> Option<usize> {
        let wanted = if contended { Vote::Refused } else { Vote::Failed { transient: true } };
        self.votes.iter().position(|vote| *vote == Some(wanted))
    }

    fn refused(&self) -> usize {
        self.votes.iter().filter(|vote| **vote == Some(Vote::Refused)).count()
    }
}

/// The node holds to release after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a node hold that is not released blocks other owners"]
pub enum Undo {
    /// No node hold.
    Nothing,
    /// The node hold that the change is about.
    NodeHold,
    /// All node holds, because the hold was lost just now. They would only prevent a majority of another owner.
    All,
}

/// The hold of a majority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    quorum: Quorum,
    lost: Option<LostReason>,
    ended: bool,
}

impl Hold {
    /// Creates the hold of a majority that has just granted.
    #[must_use]
    pub const fn new(quorum: Quorum) -> Self {
        Self { quorum, lost: None, ended: false }
    }

    /// Returns the reason for the loss, if the hold is lost.
    #[must_use]
    pub const fn lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// Returns the validity of the hold, which is zero after a loss.
    #[must_use]
    pub fn remaining(&self, validities: &Validities) -> Duration {
        if self.lost.is_some() { Duration::ZERO } else { self.quorum.remaining(validities) }
    }

    /// Adds a node hold that was granted late or again, given the validities without it. The reason is that of a node
    /// hold that is lost already, if there is one.
    ///
    /// A node hold joins a majority and never creates a new majority. Without a majority, another owner may have held
    /// the lock meanwhile.
    pub fn join(&mut self, without: &Validities, reason: Option<LostReason>) -> Undo {
        if self.is_over() {
            return Undo::NodeHold;
        }
        if self.remaining(without).is_zero() {
            self.lost = Some(reason.unwrap_or(LostReason::Unreachable));
            return Undo::All;
        }
        Undo::Nothing
    }

    /// Removes a node hold that is lost, given the validities without it.
    pub fn leave(&mut self, without: &Validities, reason: LostReason) -> Undo {
        if self.is_over() {
            return Undo::Nothing;
        }
        if self.remaining(without).is_zero() {
            self.lost = Some(reason);
            return Undo::All;
        }
        Undo::NodeHold
    }

    /// Ends the hold, whose node holds the caller takes. A node hold that arrives later is undone.
    pub const fn end(&mut self) {
        self.ended = true;
    }

    const fn is_over(&self) -> bool {
        self.ended || self.lost.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Quorum = Quorum::of(3);
    const NONE: [Option<Duration>; 3] = [None; 3];
    const SECOND: Duration = Duration::from_secs(1);
    const TRANSIENT: Vote = Vote::Failed { transient: true };
    const FINAL: Vote = Vote::Failed { transient: false };

    /// Returns validities in seconds, of which a negative one is no hold.
    fn of<const N: usize>(seconds: [i64; N]) -> [Option<Duration>; N] {
        seconds.map(|seconds| u64::try_from(seconds).ok().map(Duration::from_secs))
    }

    fn round<const N: usize>(votes: [Vote; N]) -> Round {
        let mut round = Round::new(Quorum::of(N));
        for (node, vote) in votes.into_iter().enumerate() {
            round.note(node, vote);
        }
        round
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_millis(1_000 * seconds)
    }

    #[test]
    fn a_majority_is_more_than_half() {
        assert_eq!([1, 2, 3, 4, 5, 6, 7].map(|nodes| Quorum::of(nodes).size()), [1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn a_majority_lasts_as_long_as_its_last_node() {
        assert_eq!(THREE.remaining(&of([9, 7, 2])), Duration::from_secs(7));
        assert_eq!(THREE.remaining(&of([2, -1, 9])), Duration::from_secs(2));
        assert_eq!(THREE.remaining(&of([9, -1, -1])), Duration::ZERO);
        assert_eq!(THREE.remaining(&of([9, 0, -1])), Duration::ZERO);
        assert_eq!(Quorum::of(4).remaining(&of([4, 3, 2, 1])), Duration::from_secs(2));
    }

    #[test]
    fn only_a_valid_node_hold_is_a_vote() {
        assert_eq!(votes(&of([9, 0, -1])), 1);
        assert_eq!(Round::missing(&of([9, 0, -1])).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_release_needs_a_majority_if_a_node_fails() {
        let released = |confirmed, failed| THREE.is_released(confirmed, failed);
        assert!(released(2, 1) && released(3, 0));
        assert!(!released(1, 2) && !released(1, 1) && !released(0, 3));
        assert!(released(1, 0), "a node without a hold has nothing to confirm");
    }

    #[test]
    fn a_node_counts_after_the_longest_lease_unless_it_keeps_its_data() {
        assert_eq!(uptime(30 * SECOND, 10 * SECOND), 30 * SECOND);
        assert_eq!(uptime(30 * SECOND, 60 * SECOND), 60 * SECOND);
        assert_eq!(uptime(Duration::ZERO, 60 * SECOND), Duration::ZERO);
        assert_eq!(validity_of_a_kept_vote(10 * SECOND), 5 * SECOND);
    }

    #[test]
    fn a_round_ends_with_a_majority_on_either_side() {
        let mut round = Round::new(THREE);
        assert_eq!(round.progress(&NONE), Progress::Open);
        round.note(0, Vote::Granted);
        round.note(1, Vote::Refused);
        assert_eq!(round.progress(&of([9, -1, -1])), Progress::Open);
        round.note(2, Vote::Granted);
        assert_eq!(round.progress(&of([9, -1, 9])), Progress::Majority);
        assert_eq!(round.progress(&of([9, -1, 0])), Progress::Open, "a vote that ran out is none");
        round.note(2, Vote::Refused);
        assert_eq!(round.progress(&of([9, -1, -1])), Progress::NoMajority);
    }

    #[test]
    fn half_of_an_even_fleet_prevents_a_majority() {
        let round = round([Vote::Granted, Vote::Granted, Vote::Refused, Vote::Refused]);
        assert_eq!(round.progress(&of([9, 9, -1, -1])), Progress::NoMajority);
    }

    #[test]
    fn a_contender_waits_at_the_first_node_that_refused_and_keeps_the_votes_before_it() {
        let mut contender = round([Vote::Granted, Vote::Refused, Vote::Refused]);
        let next = contender.next(at(1), 9 * SECOND, &of([9, -1, -1]));
        assert_eq!(next, Next::WaitAt { node: 1, at_most: AT_ONE_NODE, undo: 1..3 });
        assert_eq!(contender, Round::new(THREE), "the next round begins without answers");
        let mut shorter = round([Vote::Refused, Vote::Refused, TRANSIENT]);
        let next = shorter.next(at(1), SECOND / 2, &NONE);
        assert_eq!(next, Next::WaitAt { node: 0, at_most: SECOND / 2, undo: 0..3 });
    }

    #[test]
    fn a_waiter_without_time_learns_why_it_has_no_majority() {
        let end = |votes: [Vote; 3], validities| round(votes).next(at(1), Duration::ZERO, &of(validities));
        assert_eq!(end([Vote::Refused, Vote::Refused, TRANSIENT], [-1, -1, -1]), Next::Contended);
        assert_eq!(end([Vote::Granted, Vote::Refused, FINAL], [9, -1, -1]), Next::Contended);
        assert_eq!(end([Vote::Granted, TRANSIENT, FINAL], [9, -1, -1]), Next::Unavailable);
        assert_eq!(end([Vote::Refused, TRANSIENT, TRANSIENT], [-1, -1, -1]), Next::Unavailable);
    }

    #[test]
    fn a_fleet_without_a_working_majority_is_tried_for_a_while() {
        let failed = [FINAL, TRANSIENT, Vote::Refused];
        let mut waiter = round(failed);
        let mut end = |seconds: u64| {
            failed.into_iter().enumerate().for_each(|(node, vote)| waiter.note(node, vote));
            waiter.next(at(seconds), 60 * SECOND, &NONE)
        };
        let waits = Next::WaitAt { node: 1, at_most: AT_ONE_NODE, undo: 1..3 };
        assert_eq!([end(1), end(2), end(3)], [waits.clone(), waits.clone(), waits]);
        assert_eq!(end(4), Next::Unavailable);
    }

    #[test]
    fn a_working_majority_starts_the_wait_again() {
        let mut waiter = round([TRANSIENT, TRANSIENT, Vote::Refused]);
        assert!(matches!(waiter.next(at(1), 60 * SECOND, &NONE), Next::WaitAt { node: 0, .. }));
        [Vote::Refused, Vote::Refused, FINAL].into_iter().enumerate().for_each(|(node, vote)| {
            waiter.note(node, vote);
        });
        assert!(matches!(waiter.next(at(3), 60 * SECOND, &NONE), Next::WaitAt { node: 0, .. }));
        waiter.note(1, TRANSIENT);
        assert!(matches!(waiter.next(at(5), 60 * SECOND, &NONE), Next::WaitAt { node: 1, .. }));
    }

    #[test]
    fn failures_that_do_not_pass_are_reported_at_once() {
        let mut waiter = round([FINAL, FINAL, Vote::Granted]);
        assert_eq!(waiter.next(at(1), Duration::MAX, &of([-1, -1, 9])), Next::Unavailable);
    }

    #[test]
    fn a_node_hold_joins_a_majority() {
        let mut hold = Hold::new(THREE);
        assert_eq!(hold.join(&of([5, 5, -1]), None), Undo::Nothing);
        assert_eq!(hold.leave(&of([-1, 5, 5]), LostReason::Expired), Undo::NodeHold);
        assert_eq!((hold.remaining(&of([-1, 5, 4])), hold.lost()), (4 * SECOND, None));
    }

    #[test]
    fn a_node_hold_never_creates_a_new_majority() {
        for reason in [Some(LostReason::Expired), None] {
            let mut hold = Hold::new(THREE);
            assert_eq!(hold.join(&of([5, 0, -1]), reason), Undo::All);
            assert_eq!(hold.lost(), Some(reason.unwrap_or(LostReason::Unreachable)));
            assert_eq!(hold.remaining(&of([5, 5, 5])), Duration::ZERO, "it is lost for good");
        }
    }

    #[test]
    fn the_node_that_breaks_the_majority_tells_the_reason() {
        let mut hold = Hold::new(THREE);
        assert_eq!(hold.leave(&of([5, -1, -1]), LostReason::Expired), Undo::All);
        assert_eq!(hold.leave(&NONE, LostReason::Closed), Undo::Nothing);
        assert_eq!(hold.lost(), Some(LostReason::Expired));
        assert_eq!(hold.join(&of([5, 5, -1]), None), Undo::NodeHold, "a late grant is undone");
    }

    #[test]
    fn a_node_hold_that_arrives_after_the_end_is_undone() {
        let mut hold = Hold::new(THREE);
        hold.end();
        assert_eq!(hold.join(&of([5, 5, -1]), None), Undo::NodeHold);
        assert_eq!(hold.leave(&NONE, LostReason::Closed), Undo::Nothing);
        assert_eq!(hold.lost(), None, "an end is no loss");
    }
}
