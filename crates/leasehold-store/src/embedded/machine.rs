//! The command context: the data of a server, its clock, its subscribers and the published messages.
//!
//! Invariant: a script sees one time from its beginning to its end.

use super::audience::Audience;
use super::commands::{Args, Command, Deed, Fault, GROWS, Mismatch, NO_SCRIPT, WRITE, find};
use super::condition::Condition;
use super::frame::Frame;
use super::keyspace::Keyspace;

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
pub(super) struct Machine {
    pub(super) keyspace: Keyspace,
    pub(super) audience: Audience,
    pub(super) condition: Option<Condition>,
    pub(super) messages: Vec<Message>,
    /// The time of the server's start, by its own clock.
    pub(super) started_ms: u64,
    /// True if the running script has called a command that writes.
    pub(super) script_wrote: bool,
}

impl Machine {
    /// Returns all state that the answers to later commands depend on, except the cached scripts.
    pub(super) const fn view(&self) -> (&Keyspace, &Audience, Option<Condition>, u64) {
        (&self.keyspace, &self.audience, self.condition, self.started_ms)
    }

    /// Executes a command of a script. The error has no code yet when its text does not begin with one.
    pub(super) fn call_from_script(&mut self, args: Args<'_>) -> Result<Frame, Fault> {
        let Some(command) = args.first().and_then(|name| find(name)) else {
            return Err(Fault::new("ERR Unknown Redis command called from script"));
        };
        match command.accepts(args) {
            Ok(()) => {}
            Err(Mismatch::Unknown) => return Err(Fault::new("ERR Unknown Redis command called from script")),
            Err(Mismatch::Arity | Mismatch::WordArity(_)) => {
                return Err(Fault::new("ERR Wrong number of args calling Redis command from script"));
            }
        }
        let Deed::Data(deed) = command.deed else {
            return Err(Fault::new("ERR This Redis command is not allowed from script"));
        };
        if command.has(NO_SCRIPT) {
            return Err(Fault::new("ERR This Redis command is not allowed from script"));
        }
        if self.condition.is_some() {
            self.judge(command)?;
        }
        self.script_wrote |= command.has(WRITE);
        deed(self, args)
    }

    /// Returns the fault of a command that the condition refuses. A script that has written runs to its end in any
    /// condition.
    fn judge(&self, command: &Command) -> Result<(), Fault> {
        let Some(condition) = self.condition.filter(|_| !self.script_wrote) else {
            return Ok(());
        };
        let refuses = match condition {
            Condition::OutOfMemory => command.has(GROWS),
            Condition::ReadOnly | Condition::NoReplicas | Condition::Misconfigured => command.has(WRITE),
            Condition::Busy | Condition::Loading | Condition::MasterDown => false,
        };
        if refuses { Err(Fault::new(condition.text())) } else { Ok(()) }
    }
}
