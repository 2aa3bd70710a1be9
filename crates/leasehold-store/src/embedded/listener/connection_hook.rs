//! The hook of a simulator into one connection.
//!
//! Invariant: a connection without a hook has no cost, because `()` changes nothing.

use crate::embedded::command_context::Message;
use crate::embedded::database::{Database, Executed};
use crate::embedded::frame::Frame;

/// A hook into one connection, for a simulator. The hook sees the commands of the peer, and may drop messages to the
/// peer. It must not use the server.
pub trait ConnectionHook: Send + Sync + 'static {
    /// Answers a command in place of the server, which then does not see it. Unlike the other methods it may use the
    /// server.
    fn intercept(&self, _command: &[Vec<u8>]) -> Option<Frame> {
        None
    }

    /// Returns what the server says of itself in its answer to `HELLO`.
    fn mode(&self) -> &'static str {
        "standalone"
    }

    /// Executes a command of the peer, and may inspect the database before and after.
    fn execute(&self, database: &mut Database, now_ms: u64, command: &[Vec<u8>]) -> Executed {
        database.execute(now_ms, command)
    }

    /// Returns true if a message goes to the subscribed peer. Otherwise the message is lost.
    fn lets_through(&self, _message: &Message) -> bool {
        true
    }
}

impl ConnectionHook for () {}
