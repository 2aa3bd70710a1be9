//! The commands: their names, numbers of arguments and handlers.
//!
//! Invariant: a command that answers with an error has changed nothing.

mod expiry;
mod hashes;
mod keys;
mod lists;
mod publishing;
pub(super) mod scripting;
mod server;
mod strings;
mod zset_ranges;
mod zsets;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use super::condition::Condition;
use super::database::Database;
use super::frame::{Frame, one_line};
use super::machine::Machine;
use super::number;

/// The arguments of a command, its name first.
pub(super) type Args<'a> = &'a [Vec<u8>];
/// The reply of a command, or its error.
pub(super) type Answer = Result<Frame, Fault>;

/// The error of a command that changes nothing: its text.
#[derive(Debug)]
pub(super) struct Fault(pub(super) Cow<'static, str>);

impl Fault {
    pub(super) const WRONG_TYPE: Self =
        Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(super) const SYNTAX: Self = Self::new("ERR syntax error");
    pub(super) const NOT_AN_INTEGER: Self = Self::new("ERR value is not an integer or out of range");
    pub(super) const NOT_A_FLOAT: Self = Self::new("ERR value is not a valid float");
    pub(super) const OVERFLOW: Self = Self::new("ERR increment or decrement would overflow");

    pub(super) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Creates a fault whose text may repeat the caller's bytes: line endings at its ends are dropped, others become
    /// spaces.
    pub(super) fn of(text: String) -> Self {
        Self(Cow::Owned(one_line(text.trim_matches(['\r', '\n']))))
    }

    /// Returns the fault of a command with too many or too few arguments.
    pub(super) fn arity(name: &str) -> Self {
        Self::of(format!("ERR wrong number of arguments for '{name}' command"))
    }
}

/// The handler of a command.
pub(super) enum Deed {
    /// A handler that works on data, for clients and for scripts.
    Data(fn(&mut Machine, Args<'_>) -> Answer),
    /// A handler that works on scripts, and only for clients.
    Script(fn(&mut Database, Args<'_>) -> Answer),
    /// The connection handles the command, and no script may call it.
    Connection,
}

/// A row of the table.
pub(super) struct Command {
    pub(super) name: &'static str,
    /// The number of words, the name included; when negative, the minimum number.
    arity: i8,
    pub(super) traits: u8,
    pub(super) deed: Deed,
    /// The words that may come second, with their arities; empty when any may.
    words: &'static [(&'static str, i8)],
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
    const fn data(
        name: &'static str,
        arity: i8,
        traits: u8,
        deed: fn(&mut Machine, Args<'_>) -> Answer,
    ) -> Self {
        Self { name, arity, traits, deed: Deed::Data(deed), words: &[] }
    }

    /// A command whose second word selects a subcommand.
    const fn of_words(
        name: &'static str,
        traits: u8,
        words: &'static [(&'static str, i8)],
        deed: Deed,
    ) -> Self {
        Self { name, arity: -2, traits, deed, words }
    }

    /// Checks that it can be called with these arguments.
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

static TABLE: LazyLock<HashMap<&'static [u8], &'static Command>> = LazyLock::new(|| {
    let groups: [&'static [Command]; 10] = [
        keys::COMMANDS,
        expiry::COMMANDS,
        strings::COMMANDS,
        hashes::COMMANDS,
        lists::COMMANDS,
        zsets::COMMANDS,
        zset_ranges::COMMANDS,
        publishing::COMMANDS,
        scripting::COMMANDS,
        server::COMMANDS,
    ];
    groups.into_iter().flatten().map(|command| (command.name.as_bytes(), command)).collect()
});

/// The longest name of a command.
const NAME_MAX: usize = 32;

/// Returns the command of this name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0; NAME_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    TABLE.get(&*lower).copied()
}

/// Executes a client's command.
pub(super) fn dispatch(database: &mut Database, args: Args<'_>) -> Answer {
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
    if let Some(fault) = refusal(&database.machine, command) {
        return Err(fault);
    }
    match command.deed {
        Deed::Data(deed) => deed(&mut database.machine, args),
        Deed::Script(deed) => deed(database, args),
        Deed::Connection => Err(Fault::of(format!("ERR {} needs a connection", command.name))),
    }
}

fn refusal(machine: &Machine, command: &Command) -> Option<Fault> {
    let condition = machine.condition?;
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

/// Returns the fault of an unknown command; it repeats the beginning of the arguments.
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

/// Returns the fault of a second word that is unknown, or has the wrong number of arguments.
fn unknown_word(args: Args<'_>) -> Fault {
    let name = String::from_utf8_lossy(&args[0]).to_uppercase();
    let word = String::from_utf8_lossy(until_zero(&args[1])).into_owned();
    Fault::of(format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try {name} HELP."))
}

/// Returns the part that C prints.
pub(super) fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn integer(text: &[u8]) -> Result<i64, Fault> {
    number::integer(text).ok_or(Fault::NOT_AN_INTEGER)
}

fn double(text: &[u8]) -> Result<f64, Fault> {
    number::double(text).ok_or(Fault::NOT_A_FLOAT)
}

fn count(number: usize) -> Frame {
    Frame::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) fn is(word: &[u8], expected: &str) -> bool {
    word.eq_ignore_ascii_case(expected.as_bytes())
}

/// Returns the elements from `start` to `stop`, both counted from the end when negative, as a range of indexes.
fn slice(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let start = from_end(start).max(0);
    let stop = from_end(stop).min(length - 1);
    if start > stop {
        return 0..0;
    }
    usize::try_from(start).unwrap_or(0)..usize::try_from(stop + 1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for command in TABLE.values() {
            assert_eq!(command.name, command.name.to_lowercase());
            let found = find(command.name.to_uppercase().as_bytes()).unwrap();
            assert_eq!(found.name, command.name);
        }
        assert!(find(b"rename").is_none() && find(&[b'x'; 99]).is_none());
    }
}
