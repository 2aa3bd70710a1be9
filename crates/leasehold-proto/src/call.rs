//! One execution of a script: the script, the keys and arguments, and the reply.
//!
//! Recipes build calls and read replies. Stores run calls and produce replies. A [`Call`] has a value for every input
//! that its script declares.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::sync::Arc;

use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::script::Script;

/// A script with its inputs filled in.
#[derive(Clone)]
pub struct Call {
    script: &'static Script,
    keys: Vec<Arc<str>>,
    args: Vec<Vec<u8>>,
    channels: Vec<Channel>,
}

impl Call {
    /// Begins a call. The caller then gives every key and argument that the script's header declares, in any order.
    #[must_use]
    pub fn of(script: &'static Script) -> Self {
        let header = script.header();
        Self {
            script,
            keys: vec![Arc::from(""); header.keys.len()],
            args: vec![Vec::new(); header.args.len()],
            channels: Vec::new(),
        }
    }

    /// Creates a call with its inputs in the script's order, for scripts whose header declares no inputs.
    #[must_use]
    pub const fn with(script: &'static Script, keys: Vec<Arc<str>>, args: Vec<Vec<u8>>) -> Self {
        Self { script, keys, args, channels: Vec::new() }
    }

    /// Sets the channels that bring a wake-up after the call is refused. The script does not see them.
    #[must_use]
    pub fn woken_by(self, channels: Vec<Channel>) -> Self {
        Self { channels, ..self }
    }

    /// Sets the key of this name.
    ///
    /// # Panics
    /// Panics if the script declares no such key, which is a mistake in a recipe and found by the first test that runs
    /// it.
    #[must_use]
    #[track_caller]
    pub fn key(mut self, name: &str, value: impl Into<Arc<str>>) -> Self {
        let place = self.script.header().keys.iter().position(|declared| *declared == name);
        self.keys[place.expect("the script declares this key")] = value.into();
        self
    }

    /// Adds further keys behind the keys that the script declares.
    #[must_use]
    pub fn more_keys<'a>(mut self, names: impl IntoIterator<Item = &'a Name>) -> Self {
        self.keys.extend(names.into_iter().map(Arc::from));
        self
    }

    /// Sets the argument of this name.
    ///
    /// # Panics
    /// Panics if the script declares no such argument, which is a mistake in a recipe and found by the first test that
    /// runs it.
    #[must_use]
    #[track_caller]
    pub fn arg(self, name: &str, value: impl fmt::Display) -> Self {
        self.bytes(name, value.to_string())
    }

    /// Sets the argument of this name to bytes, which need not be text.
    ///
    /// # Panics
    /// Panics if the script declares no such argument, which is a mistake in a recipe and found by the first test that
    /// runs it.
    #[must_use]
    #[track_caller]
    pub fn bytes(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        let place = self.script.header().args.iter().position(|declared| *declared == name);
        self.args[place.expect("the script declares this argument")] = value.into();
        self
    }

    /// Returns the purpose of the call.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        self.script.verb
    }

    /// Returns the script.
    #[must_use]
    pub const fn script(&self) -> &'static Script {
        self.script
    }

    /// Returns KEYS.
    #[must_use]
    pub fn keys(&self) -> &[Arc<str>] {
        &self.keys
    }

    /// Returns ARGV.
    #[must_use]
    pub fn args(&self) -> &[Vec<u8>] {
        &self.args
    }

    /// Returns the channels that bring a wake-up after the call is refused.
    #[must_use]
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Returns the argument of this name, if the script has such an argument and the value is text. Stores that answer
    /// without Lua use it.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        let place = self.script.header().args.iter().position(|declared| *declared == name)?;
        std::str::from_utf8(&self.args[place]).ok()
    }

    /// Replaces the argument of this name, and returns true if the script has such an argument. Stores use it to give a
    /// script a fact about the server that recipes do not know, such as the server's command for publishing.
    pub fn set_arg(&mut self, name: &str, value: impl Into<Vec<u8>>) -> bool {
        let place = self.script.header().args.iter().position(|declared| *declared == name);
        if let Some(place) = place {
            self.args[place] = value.into();
        }
        place.is_some()
    }

    /// Returns the key that the call is about, which is the first key.
    #[must_use]
    pub fn subject(&self) -> Arc<str> {
        self.keys.first().cloned().unwrap_or_else(|| Arc::from(""))
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<_> = self.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
        write!(f, "{} {:?} {args:?}", self.script.verb, self.keys)
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.script, other.script) && self.keys == other.keys && self.args == other.args
    }
}

impl Eq for Call {}

impl std::hash::Hash for Call {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.script.source(), &self.keys, &self.args).hash(state);
    }
}

/// The reply of a script.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reply {
    /// A null bulk or null array.
    Nil,
    /// An integer, such as a remaining time in milliseconds.
    Int(i64),
    /// A bulk or simple string, as bytes.
    Text(Vec<u8>),
    /// An array, such as the fields and values of a hash.
    Array(Vec<Reply>),
}
