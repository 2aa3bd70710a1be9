//! The commands that a script calls.
//!
//! Invariant: a script calls only commands that work on data.

use super::command::{Args, Command, GROWS, Handler, Mismatch, NO_SCRIPT, WRITE};
use super::command_context::CommandContext;
use super::commands::find;
use super::condition::Condition;
use super::fault::Fault;
use super::frame::Frame;

/// Executes a command of a script. The error has no code yet when its text does not begin with a code.
pub(super) fn call_from_script(context: &mut CommandContext, args: Args<'_>) -> Result<Frame, Fault> {
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
    let Handler::Data(handler) = command.handler else {
        return Err(Fault::new("ERR This Redis command is not allowed from script"));
    };
    if command.has(NO_SCRIPT) {
        return Err(Fault::new("ERR This Redis command is not allowed from script"));
    }
    if context.condition.is_some() {
        judge(context, command)?;
    }
    context.script_wrote |= command.has(WRITE);
    handler(context, args)
}

/// Returns the fault of a command that the condition refuses. A script that has written runs to its end in any
/// condition.
fn judge(context: &CommandContext, command: &Command) -> Result<(), Fault> {
    let Some(condition) = context.condition.filter(|_| !context.script_wrote) else {
        return Ok(());
    };
    let refuses = match condition {
        Condition::OutOfMemory => command.has(GROWS),
        Condition::ReadOnly | Condition::NoReplicas | Condition::Misconfigured => command.has(WRITE),
        Condition::Busy | Condition::Loading | Condition::MasterDown => false,
    };
    if refuses { Err(Fault::new(condition.text())) } else { Ok(()) }
}
