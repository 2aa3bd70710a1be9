//! The error of acquiring a lock on a majority of servers.
//!
//! Invariant: an error has the answer of every node.

use std::fmt;
use std::time::Duration;

use leasehold_proto::Rounded;
use leasehold_proto::engine::AcquireFailure;

use super::acquire::AcquireErrorKind;
use super::answers::answers;
use super::message::{from_cause, message_in_debug};
use super::subject::{Forked, Subject};

/// The reason why a lock over several servers was not acquired. Too few servers worked, and the grants of single
/// servers are undone.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuorumError {
    /// The lock.
    pub subject: Subject,
    /// The answer of each node.
    pub nodes: Vec<NodeAnswer>,
}

/// The answer of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAnswer {
    /// The server's URL, with its password masked.
    pub server: String,
    /// True if the node granted the lock. The grant is undone.
    pub granted: bool,
    /// The reason why the node did not grant the lock, or `None` if another owner holds the lock there, or if the
    /// client did not wait for the answer.
    pub error: Option<NodeError>,
}

/// The reason why one node did not grant a lock over a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeError {
    /// The server has been up for less than the longest lease, so it may have forgotten holds, and does not count yet.
    #[non_exhaustive]
    RecentlyRestarted {
        /// The time until the server counts.
        remaining: Duration,
    },
    /// The acquire at this node failed as the acquire of a lock of one server does.
    Acquire(AcquireErrorKind),
}

impl NodeError {
    const fn is_unavailable(&self) -> bool {
        match self {
            Self::RecentlyRestarted { .. } => true,
            Self::Acquire(kind) => kind.is_unavailable(),
        }
    }

    const fn is_retryable(&self) -> bool {
        match self {
            Self::RecentlyRestarted { .. } => true,
            Self::Acquire(kind) => kind.is_retryable(),
        }
    }

    /// Converts a failure of the engine, or returns `None` for a lock that another owner holds.
    pub(crate) fn from_failure(failure: AcquireFailure) -> Option<Self> {
        match failure {
            AcquireFailure::RecentlyRestarted { remaining } => Some(Self::RecentlyRestarted { remaining }),
            failure => AcquireErrorKind::from_failure(failure).map(Self::Acquire),
        }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecentlyRestarted { remaining } => {
                let remaining = Rounded::up(*remaining);
                write!(f, "the server restarted too recently to be trusted; retry in {remaining}")
            }
            Self::Acquire(kind) => kind.fmt(f),
        }
    }
}

from_cause!(NodeError { Acquire(AcquireErrorKind) });

impl From<Forked> for NodeError {
    fn from(forked: Forked) -> Self {
        Self::Acquire(forked.into())
    }
}

answers! { self: QuorumError =>
    /// Always returns false, since another owner's hold is not an error of an acquire.
    const is_busy = false;
    /// Returns true if a node could not do its part. It is false if only a mistake of the caller prevents the acquire,
    /// such as a name that cannot be used.
    fn is_unavailable = self.nodes.iter().flat_map(|node| &node.error).any(NodeError::is_unavailable);
    /// Returns true if the same call may succeed a little later, without any change to the program, its settings or
    /// the servers.
    fn is_retryable = self.nodes.iter().flat_map(|node| &node.error).any(NodeError::is_retryable);
    /// Always returns false, since nothing was held.
    const is_lost = false;
}

impl fmt::Display for QuorumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} not acquired: too few nodes work for a majority", self.subject)?;
        for (number, node) in self.nodes.iter().enumerate() {
            f.write_str(if number == 0 { ": " } else { "; " })?;
            match &node.error {
                _ if node.granted => write!(f, "{} granted", node.server)?,
                Some(error) => write!(f, "{}: {error}", node.server)?,
                None => write!(f, "{} refused", node.server)?,
            }
        }
        Ok(())
    }
}

message_in_debug!(QuorumError { subject, nodes });
