//! Encodes a login and a few commands, and reads their answers, without a wire.
//!
//! Invariant: each command has one answer, and the login has none.

use std::fmt;

use super::codec::Decoder;
use super::encode;
use super::secret::Secret;
use super::value::{Value, malformed, server_error};
use crate::redis::error::Failure;
use crate::url::Credentials;

/// The answer of a server to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A text, with bytes replaced that are not UTF-8.
    Text(String),
    /// The refusal of the command, in the server's words.
    Error(String),
    /// A list, or the keys and values of a map.
    List(Vec<Answer>),
}

impl Answer {
    fn of(value: Value) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match value {
            Value::Nil | Value::Other => Self::Nil,
            Value::Int(number) => Self::Int(number),
            Value::Text(bytes) => Self::Text(text(&bytes)),
            Value::Error(bytes) => Self::Error(text(&bytes)),
            Value::Array(items) | Value::Push(items) => Self::List(items.into_iter().map(Self::of).collect()),
        }
    }
}

/// The commands of a conversation, and the answers so far.
pub(crate) struct Conversation {
    bytes: Vec<u8>,
    decoder: Decoder,
    /// True if the first answer is that to the login.
    logs_in: bool,
    secret: Secret,
    count: usize,
    answers: Vec<Answer>,
}

impl fmt::Debug for Conversation {
    /// Writes no bytes, which may be a login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("answers", &self.answers).finish_non_exhaustive()
    }
}

impl Conversation {
    pub(crate) fn begin(login: Option<&Credentials>) -> Self {
        let mut bytes = Vec::new();
        if let Some(login) = login {
            encode::command(&mut bytes, &login.command());
        }
        let (mut decoder, answers) = (Decoder::default(), Vec::new());
        decoder.accept_maps();
        let secret = Secret::new(login.map(Credentials::secret));
        Self { bytes, decoder, logs_in: login.is_some(), secret, count: 0, answers }
    }

    /// Adds commands, whose answers are received together.
    pub(crate) fn ask(&mut self, commands: &[&[&str]]) {
        commands.iter().for_each(|words| encode::command(&mut self.bytes, words));
        self.count = commands.len();
    }

    /// Returns the bytes to write.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets the bytes, which are written.
    pub(crate) fn written(&mut self) {
        self.bytes.clear();
    }

    /// Takes bytes of the server. Returns the answers once all are there.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) -> Result<Option<Vec<Answer>>, Failure> {
        while let Some(value) = self.decoder.next(&mut bytes).map_err(Failure::breach)? {
            match self.secret.masked(value) {
                Value::Error(text) if self.logs_in => return Err(server_error(&text)),
                value if self.logs_in && value.is_text("OK") => self.logs_in = false,
                _ if self.logs_in => return Err(malformed()),
                value => self.answers.push(Answer::of(value)),
            }
        }
        Ok((self.answers.len() >= self.count).then(|| std::mem::take(&mut self.answers)))
    }
}
