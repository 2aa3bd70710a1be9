//! Commands of servers that stand in for a script.
//!
//! A native command has the effect of its script, and a reply from which that of the script follows, or none.

use std::fmt;

use crate::bulks::Bulks;
use crate::reply::Reply;

/// The commands that stand in for a script, the best one first. A server that refuses one is asked for the next, and then
/// runs the script.
#[derive(Debug)]
pub struct Native(pub &'static [Command]);

/// A command that stands in for a script.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The words of the command.
    pub words: &'static [Word],
    /// Returns the reply that the script would give, or nothing if the next command, or the script, has to run too.
    pub read: fn(Arguments<'_>, &Reply) -> Option<Reply>,
    /// True if the command is of use only at a server that has one of the commands before it.
    pub follows: bool,
}

impl Command {
    /// Returns a command that needs none of the others.
    pub(crate) const fn new(
        words: &'static [Word],
        read: fn(Arguments<'_>, &Reply) -> Option<Reply>,
    ) -> Self {
        Self { words, read, follows: false }
    }

    /// Returns the same command for a server that has one of the commands before it.
    pub(crate) const fn following(self) -> Self {
        Self { follows: true, ..self }
    }
}

/// A word of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The word itself.
    Text(&'static str),
    /// The key with this index.
    Key(usize),
    /// The argument with this index.
    Arg(usize),
}

/// The arguments of a call, by their places.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    inputs: &'a Bulks,
    keys: usize,
}

impl<'a> Arguments<'a> {
    pub(crate) const fn new(inputs: &'a Bulks, keys: usize) -> Self {
        Self { inputs, keys }
    }

    /// Returns true if the argument in this place has this value.
    pub(crate) fn is(self, place: usize, value: &[u8]) -> bool {
        self.inputs.iter().nth(self.keys + place) == Some(value)
    }
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments").finish_non_exhaustive()
    }
}
