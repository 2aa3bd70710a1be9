//! How wake-ups travel in a cluster, as a setting.
//!
//! Invariant: the default is what a Java client's default is, so that both wake each other.
//! Called by: users, through the client's builder; the Redis store, which decides by it when it connects.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

/// Whether wake-ups are sent and heard by sharded channels (SPUBLISH, SSUBSCRIBE; Redis 7 and Valkey) or by plain ones
/// (PUBLISH, SUBSCRIBE).
///
/// Everybody who waits for the same locks must use the same: what is published one way is not heard the other way, and
/// a waiter then learns only by asking again that a lock is free. Redisson's setting `shardedSubscriptionMode` has the
/// same three values and the same default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardedPubsub {
    /// Sharded when the server is a node of a cluster, knows sharded channels and lets this user publish to them; else
    /// plain. Decided when the client connects, and kept for its life.
    #[default]
    Auto,
    /// Sharded: for servers that hide what they are, such as a proxy in front of a cluster. It needs Redis 7 or Valkey;
    /// on an older server waiters are not woken and releases fail.
    On,
    /// Plain: for a cluster of which other clients use plain channels, such as Java clients with `OFF` or before 3.22.
    Off,
}
