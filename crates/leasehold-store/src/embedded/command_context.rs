//! The command context: the data of a server, its clock, its subscribers and the published messages.
//!
//! Invariant: a script sees one time from its beginning to its end.

use super::condition::Condition;
use super::keyspace::Keyspace;
use super::subscribers::Subscribers;

/// A message that a command published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel.
    pub channel: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
    /// True if SPUBLISH published it.
    pub sharded: bool,
}

/// The context of a command.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandContext {
    pub(super) keyspace: Keyspace,
    pub(super) subscribers: Subscribers,
    pub(super) condition: Option<Condition>,
    pub(super) messages: Vec<Message>,
    /// The time of the server's start, by its own clock.
    pub(super) started_ms: u64,
    /// True if the running script has called a command that writes.
    pub(super) script_wrote: bool,
}

impl CommandContext {
    /// Returns all state that the answers to later commands depend on, except the cached scripts.
    pub(super) const fn view(&self) -> (&Keyspace, &Subscribers, Option<Condition>, u64) {
        (&self.keyspace, &self.subscribers, self.condition, self.started_ms)
    }
}
