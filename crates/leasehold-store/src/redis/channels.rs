//! The channels that carry wake-ups, plain or sharded, and their commands.
//!
//! Redisson shards only in clusters, but a standalone server takes sharded commands too. Redisson sends `PUBSUB
//! SHARDNUMSUB` to learn whether a node knows the commands. That needs a permission which no other call here needs, and
//! does not show the user's right, so the handshake probes with an SPUBLISH.

use crate::sharding::ShardedPubsub;

/// The channel of the probe. No lock has a channel of this name, so nobody hears it.
pub(super) const PROBE: &str = "leasehold:probe";

/// A kind of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Plain,
    Sharded,
}

impl Channels {
    /// Returns the channels that the setting determines without a request to the server.
    pub(super) const fn of_setting(setting: ShardedPubsub) -> Option<Self> {
        match setting {
            ShardedPubsub::Auto => None,
            ShardedPubsub::On => Some(Self::Sharded),
            ShardedPubsub::Off => Some(Self::Plain),
        }
    }

    pub(super) const fn publish(self) -> &'static str {
        match self {
            Self::Plain => "PUBLISH",
            Self::Sharded => "SPUBLISH",
        }
    }

    /// Returns the subcommand of PUBSUB that counts the listeners.
    pub(super) const fn numsub(self) -> &'static str {
        match self {
            Self::Plain => "NUMSUB",
            Self::Sharded => "SHARDNUMSUB",
        }
    }

    pub(super) const fn subscribe(self) -> &'static str {
        match self {
            Self::Plain => "SUBSCRIBE",
            Self::Sharded => "SSUBSCRIBE",
        }
    }

    pub(super) const fn unsubscribe(self) -> &'static str {
        match self {
            Self::Plain => "UNSUBSCRIBE",
            Self::Sharded => "SUNSUBSCRIBE",
        }
    }
}
