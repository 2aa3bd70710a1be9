//! The rows of EVAL, EVALSHA and SCRIPT.
//!
//! Invariant: no script may call a command of this file.

use super::super::command::{Command, Handler, NO_SCRIPT, ScriptCommand};

pub(super) const COMMANDS: &[Command] = &[
    script("eval", -3, ScriptCommand::Eval),
    script("evalsha", -3, ScriptCommand::EvalSha),
    Command::of_words("script", NO_SCRIPT, SCRIPT, Handler::Script(ScriptCommand::Script)),
];

const SCRIPT: &[(&str, i8)] = &[("load", 3), ("exists", -3), ("flush", -2), ("kill", 2)];

const fn script(name: &'static str, arity: i8, command: ScriptCommand) -> Command {
    Command { name, arity, traits: NO_SCRIPT, handler: Handler::Script(command), words: &[] }
}
