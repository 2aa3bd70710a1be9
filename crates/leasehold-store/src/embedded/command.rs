//! A command: its name, its number of arguments and its handler.
//!
//! Invariant: a command that answers with an error has changed nothing.

use super::command_context::CommandContext;
use super::fault::Fault;
use super::frame::Frame;
use super::number;

/// The arguments of a command, its name first.
pub(super) type Args<'a> = &'a [Vec<u8>];
/// The reply of a command, or its error.
pub(super) type Answer = Result<Frame, Fault>;

/// The handler of a command.
pub(super) enum Handler {
    /// A handler that works on data, for clients and for scripts.
    Data(fn(&mut CommandContext, Args<'_>) -> Answer),
    /// A handler that works on scripts, and only for clients.
    Script(ScriptCommand),
    /// The connection handles the command, and no script may call it.
    Connection,
}

/// A command that works on scripts.
#[derive(Clone, Copy)]
pub(super) enum ScriptCommand {
    Eval,
    EvalSha,
    Script,
}

/// A row of the table.
pub(super) struct Command {
    pub(super) name: &'static str,
    /// The number of words, the name included, or the negated minimum number.
    pub(super) arity: i8,
    pub(super) traits: u8,
    pub(super) handler: Handler,
    /// The words that may come second, with their arities, or none when any word may.
    pub(super) words: &'static [(&'static str, i8)],
}

/// The command may change data.
pub(super) const WRITE: u8 = 1;
/// The server refuses the command when memory is short.
pub(super) const GROWS: u8 = 2;
/// A script may not call the command.
pub(super) const NO_SCRIPT: u8 = 4;
/// A busy server answers the command all the same.
pub(super) const WHILE_BUSY: u8 = 8;
/// A server that loads its data answers the command all the same.
pub(super) const WHILE_LOADING: u8 = 16;

impl Command {
    pub(super) const fn data(
        name: &'static str,
        arity: i8,
        traits: u8,
        handler: fn(&mut CommandContext, Args<'_>) -> Answer,
    ) -> Self {
        Self { name, arity, traits, handler: Handler::Data(handler), words: &[] }
    }

    /// Returns a command whose second word selects a subcommand.
    pub(super) const fn of_words(
        name: &'static str,
        traits: u8,
        words: &'static [(&'static str, i8)],
        handler: Handler,
    ) -> Self {
        Self { name, arity: -2, traits, handler, words }
    }

    /// Checks that the command can be called with these arguments.
    pub(super) fn accepts(&self, args: Args<'_>) -> Result<(), Mismatch> {
        if !fits(self.arity, args.len()) {
            return Err(Mismatch::Arity);
        }
        if self.words.is_empty() {
            return Ok(());
        }
        match self.words.iter().find(|(word, _)| is(&args[1], word)) {
            None => Err(Mismatch::Unknown),
            Some((_, arity)) if fits(*arity, args.len()) => Ok(()),
            Some((word, _)) => Err(Mismatch::WordArity(word)),
        }
    }

    pub(super) const fn has(&self, quality: u8) -> bool {
        self.traits & quality != 0
    }
}

/// The reason why a command cannot be called with its arguments.
pub(super) enum Mismatch {
    /// The command has too many or too few arguments.
    Arity,
    /// The subcommand has too many or too few arguments.
    WordArity(&'static str),
    /// The second word is not a subcommand.
    Unknown,
}

fn fits(arity: i8, words: usize) -> bool {
    let least = usize::from(arity.unsigned_abs());
    if arity < 0 { words >= least } else { words == least }
}

/// Returns the fault of a second word that is unknown, or has the wrong number of arguments.
pub(super) fn unknown_word(args: Args<'_>) -> Fault {
    let name = String::from_utf8_lossy(&args[0]).to_uppercase();
    let word = String::from_utf8_lossy(until_zero(&args[1])).into_owned();
    Fault::of(format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try {name} HELP."))
}

/// Returns the part that C prints.
pub(super) fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

pub(super) fn integer(text: &[u8]) -> Result<i64, Fault> {
    number::integer(text).ok_or(Fault::NOT_AN_INTEGER)
}

pub(super) fn double(text: &[u8]) -> Result<f64, Fault> {
    number::double(text).ok_or(Fault::NOT_A_FLOAT)
}

pub(super) fn count(number: usize) -> Frame {
    Frame::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) fn is(word: &[u8], expected: &str) -> bool {
    word.eq_ignore_ascii_case(expected.as_bytes())
}

/// Returns the elements from `start` to `stop`, both counted from the end when negative, as a range of indexes.
pub(super) fn slice(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let start = from_end(start).max(0);
    let stop = from_end(stop).min(length - 1);
    if start > stop {
        return 0..0;
    }
    usize::try_from(start).unwrap_or(0)..usize::try_from(stop + 1).unwrap_or(0)
}
