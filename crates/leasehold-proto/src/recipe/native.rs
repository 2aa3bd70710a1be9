//! Commands of servers that stand in for a script.
//!
//! A native command has the effect of its script, and a reply from which that of the script follows, or none.

use crate::call::{Call, Reply};

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
    pub read: fn(&Call, &Reply) -> Option<Reply>,
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

impl Command {
    /// Returns the words of the command for a call, each as a bulk string of RESP, or as its text.
    pub fn words<'a>(&self, call: &'a Call) -> impl Iterator<Item = Result<&'a [u8], &'static str>> {
        let words = self.words.iter().copied();
        words.map(|word| match word {
            Word::Text(text) => Err(text),
            Word::Key(at) => Ok(call.encoded_key(at)),
            Word::Arg(at) => Ok(call.encoded_arg(at)),
        })
    }
}
