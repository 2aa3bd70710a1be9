//! Who watches one connection.
//!
//! Invariant: whoever is not asked for costs nothing: `()` watches nobody.
//! Called by: the connection, with the server locked.

use crate::embedded::database::{Database, Executed};
use crate::embedded::machine::Message;

/// Stands beside one connection, for a simulator: sees what is executed for its peer, and may keep messages from it. It
/// must not use the server.
pub trait Watch: Send + Sync + 'static {
    /// Executes a command of the peer's; may look at the database before and after.
    fn execute(&self, database: &mut Database, now_ms: u64, command: &[Vec<u8>]) -> Executed {
        database.execute(now_ms, command)
    }

    /// Whether a message that the peer listens to is sent to it; if not, it is lost.
    fn lets_through(&self, _message: &Message) -> bool {
        true
    }
}

impl Watch for () {}
