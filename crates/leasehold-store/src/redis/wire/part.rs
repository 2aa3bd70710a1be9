//! The part that a server plays in its topology, which decides how a connection greets it.

use crate::redis::peer::Peer;

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

impl Part {
    /// Returns the end of the connections to such a server.
    pub(super) const fn peer(self) -> Peer {
        match self {
            Self::Alone | Self::Master | Self::Shard => Peer::Server,
            Self::Sentinel => Peer::Sentinel,
        }
    }
}
