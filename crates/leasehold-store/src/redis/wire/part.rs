//! The parts of servers in a topology.

/// The part that a server has in its topology, which decides how a connection greets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The server of a URL without a topology. It serves all names.
    Alone,
    /// The master of a fleet with sentinels, which must say that it is a master.
    Master,
    /// A node of a cluster.
    Shard,
    /// A sentinel, which serves no names.
    Sentinel,
}
