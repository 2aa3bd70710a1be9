//! The bounds on what a server sends, and the violations of the protocol.
//!
//! Invariant: a violation repeats no byte of the stream.

/// The largest reply or message, in bytes. A lock's replies have less than a hundred.
pub(super) const REPLY_MAX: usize = 1 << 20;
/// The largest reply to a query of the topology. A map of 16,384 ranges, each with a master and two replicas, announces 32
/// MiB.
pub(super) const MAP_MAX: usize = 64 << 20;
/// The size of an announced array item before its first byte has come, because the parser reserves memory for the item.
pub(super) const ITEM: usize = 64;
/// The longest line of text, in bytes: errors and simple strings. The client keeps 300 characters of an error, so a
/// longer line only costs memory.
pub(super) const LINE_MAX: usize = 16 << 10;
/// The longest line with a number: the digits of an `i64` and its sign.
pub(super) const NUMBER_MAX: usize = 20;
/// The deepest nesting of arrays. The deepest reply to a command of this client is that of HELLO, with four levels.
pub(super) const DEPTH_MAX: usize = 8;

/// A violation of the protocol that no Redis commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Breach {
    #[error("a web server answers on this port")]
    Http,
    #[error("the server speaks TLS on this port; use a URL that begins with `rediss`")]
    Tls,
    #[error("the reply does not follow the Redis protocol")]
    Protocol,
    #[error(
        "the reply exceeds {REPLY_MAX} bytes ({MAP_MAX} for a cluster map), a line of {LINE_MAX} bytes or a depth of \
         {DEPTH_MAX}"
    )]
    TooLarge,
    #[error("the server sent a reply that no command asked for")]
    Unasked,
}

impl Breach {
    /// Identifies a server by bytes that it sent in place of a value.
    pub(super) fn of_foreign(bytes: &[u8]) -> Self {
        match bytes {
            [b'H', b'T', b'T', b'P', ..] => Self::Http,
            // An alert or a handshake of TLS 1.0 to 1.3.
            [0x15 | 0x16, 3, ..] => Self::Tls,
            _ => Self::Protocol,
        }
    }
}
