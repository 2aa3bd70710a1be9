//! The execution of a client's command.
//!
//! Invariant: a command that the server's condition refuses has no effect.

use super::command::{
    Answer, Args, Command, GROWS, Handler, Mismatch, WHILE_BUSY, WHILE_LOADING, WRITE, until_zero,
};
use super::command_context::CommandContext;
use super::commands::find;
use super::condition::Condition;
use super::fault::Fault;
use super::scripting::{self, Scripts};

/// Executes a client's command.
pub(super) fn dispatch(context: &mut CommandContext, scripts: &mut Scripts, args: Args<'_>) -> Answer {
    let Some(name) = args.first() else {
        return Err(Fault::new("ERR Protocol error: empty command"));
    };
    let Some(command) = find(name) else {
        return Err(unknown(args));
    };
    command.accepts(args).map_err(|mismatch| match mismatch {
        Mismatch::Arity => Fault::arity(command.name),
        Mismatch::WordArity(word) => Fault::arity(&format!("{}|{word}", command.name)),
        Mismatch::Unknown => {
            let word = String::from_utf8_lossy(until_zero(&args[1]));
            let word: String = word.chars().take(128).collect();
            Fault::of(format!("ERR unknown subcommand '{word}'. Try {} HELP.", command.name.to_uppercase()))
        }
    })?;
    if let Some(fault) = refusal(context, command) {
        return Err(fault);
    }
    match command.handler {
        Handler::Data(handler) => handler(context, args),
        Handler::Script(command) => scripting::execute(context, scripts, command, args),
        Handler::Connection => Err(Fault::of(format!("ERR {} needs a connection", command.name))),
    }
}

fn refusal(context: &CommandContext, command: &Command) -> Option<Fault> {
    let condition = context.condition?;
    let refuses = match condition {
        Condition::OutOfMemory => command.has(GROWS),
        Condition::Busy => !command.has(WHILE_BUSY),
        Condition::Loading => !command.has(WHILE_LOADING),
        // A replica refuses writes as read-only in this state, too.
        Condition::MasterDown if command.has(WRITE) => return Some(Fault::new(Condition::ReadOnly.text())),
        Condition::MasterDown => !command.has(WHILE_LOADING),
        Condition::ReadOnly | Condition::NoReplicas | Condition::Misconfigured => command.has(WRITE),
    };
    refuses.then(|| Fault::new(condition.text()))
}

/// Returns the fault of an unknown command, which repeats the beginning of the arguments.
fn unknown(args: Args<'_>) -> Fault {
    const SHOWN_MAX: usize = 128;
    let mut shown = String::new();
    for argument in &args[1..] {
        if shown.len() >= SHOWN_MAX {
            break;
        }
        let room = SHOWN_MAX - shown.len();
        let argument = until_zero(argument);
        shown += &format!("'{}' ", String::from_utf8_lossy(&argument[..argument.len().min(room)]));
    }
    let name = until_zero(&args[0]);
    let name = String::from_utf8_lossy(&name[..name.len().min(SHOWN_MAX)]);
    Fault::of(format!("ERR unknown command '{name}', with args beginning with: {shown}"))
}
