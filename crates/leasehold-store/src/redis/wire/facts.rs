//! What a client learns about its server on the first connection that could serve.

use crate::redis::channels::Channels;

/// The facts about a server, found out on the first connection that could serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerFacts {
    /// The channels that carry wake-ups.
    pub(super) channels: Channels,
    /// True if the server is a node of a cluster, whose commands have keys of one slot.
    pub(super) is_node: bool,
    /// True if the user may lack the right to a lock's channels, or to scripts.
    pub(super) doubts_channels: bool,
    /// True if the server speaks RESP3.
    pub(super) resp3: bool,
}

impl ServerFacts {
    /// Returns the subcommand of PUBSUB that counts all listeners, or nothing in a cluster with plain channels, where a
    /// node knows only its own.
    pub(super) const fn numsub(self) -> &'static str {
        match (self.is_node, self.channels) {
            (true, Channels::Plain) => "",
            (_, channels) => channels.numsub(),
        }
    }
}
