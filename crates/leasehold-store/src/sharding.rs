//! The setting for the channels that carry wake-ups in a cluster.
//!
//! Invariant: the default equals the default of a Java client, so that both wake each other.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

/// The channels that carry wake-ups: sharded (SPUBLISH, SSUBSCRIBE; Redis 7 and Valkey) or plain (PUBLISH, SUBSCRIBE).
///
/// All clients that wait for the same locks must use the same channels. A message on one kind of channel does not reach
/// the listeners of the other kind, and a waiter then learns only from its next poll that a lock is free. Redisson's
/// setting `shardedSubscriptionMode` has the same three values and the same default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardedPubsub {
    /// Sharded when the server is a node of a cluster, knows sharded channels and lets this user publish to them, and
    /// otherwise plain. The client decides when it connects, and keeps the decision for its life.
    #[default]
    Auto,
    /// Sharded, for servers that hide their cluster, such as a proxy in front of a cluster. This value needs Redis 7 or
    /// Valkey. An older server fails the connect.
    On,
    /// Plain, for a cluster with other clients on plain channels, such as Java clients with `OFF` or before 3.22.
    Off,
}
