//! The ids of calls, subscribers and connections.

/// A call, by a number that its submitter chooses. Each number is larger than the numbers of earlier calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A subscriber of a channel, by a unique number that the subscriber chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// A connection, from the attempt to its end. The wire chooses its number and uses no number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    pub(super) node: NodeId,
    pub(super) number: u64,
}

/// A server to which the wire connects. The wire uses no number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);
