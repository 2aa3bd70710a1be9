//! The other ends of connections.

/// The other end of a connection, which decides about its login and its encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A server that keeps locks, or a replica of it.
    Server,
    /// A sentinel.
    Sentinel,
}
