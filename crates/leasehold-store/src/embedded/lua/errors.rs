//! The errors of scripts, in the form of redis-server.
//!
//! Invariant: an error keeps its code, and gains the script's hash and the line that it came from.

use std::fmt;

use mlua::{Error, Function, Lua, Value};

use crate::embedded::fault::Fault;
use crate::embedded::frame::one_line;

/// An error of a command, on its way through a script. Its text begins with a code.
#[derive(Debug)]
pub(super) struct Raised(pub(super) Vec<u8>);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl std::error::Error for Raised {}

/// An error of a function that scripts call, with the place in front, as in the errors of Lua's own functions.
#[derive(Debug)]
struct Complaint(String);

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Complaint {}

/// Returns the error of a wrong call, with the line of the caller.
pub(super) fn complain(lua: &Lua, text: &str) -> Error {
    let caller = lua.inspect_stack(1, |frame| {
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", frame.source().short_src?))
    });
    let place = caller.flatten().unwrap_or_default();
    Error::external(Complaint(place + text))
}

/// Returns a [`Complaint`] without a line, for errors of the server itself.
pub(super) fn object(text: &str) -> Error {
    Error::external(Complaint(text.to_owned()))
}

/// An error that the script did not catch.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) text: Vec<u8>,
    /// The chunk and the line.
    pub(super) place: Option<(String, i64)>,
}

impl Failure {
    pub(super) fn fault(self, sha1: &str) -> Fault {
        let mut text = String::from_utf8_lossy(&self.text).into_owned();
        if let Some((source, line)) = self.place {
            text += &format!(" script: {sha1}, on {source}:{line}.");
        }
        Fault::of(without_line_endings(&text))
    }
}

/// Returns an error text without line endings.
pub(super) fn without_line_endings(text: &str) -> String {
    one_line(text.trim_matches(['\r', '\n']))
}

/// Returns the fault of a text that does not compile.
pub(super) fn of_compiling(error: &Error) -> Fault {
    let text = match error {
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    Fault::of(without_line_endings(&format!("ERR Error compiling script (new function): {text}")))
}

/// Returns the error that `redis.call` raises.
pub(super) fn raise(text: Vec<u8>) -> Error {
    Error::external(Raised(text))
}

/// Returns the text of an error, if it came from a command or has the shape of such an error: a table with a field
/// `err`.
pub(super) fn command_error_text(error: &Value) -> Option<Vec<u8>> {
    match error {
        Value::Error(error) => error.downcast_ref::<Raised>().map(|raised| raised.0.clone()),
        Value::Table(table) => match table.raw_get("err") {
            Ok(Value::String(text)) => Some(text.as_bytes().to_vec()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the text of an error that a function of ours, or Lua itself, raised.
pub(super) fn plain(lua: &Lua, error: &Value) -> Vec<u8> {
    match error {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Error(error) => innermost(error).to_string().into_bytes(),
        other => {
            let text =
                lua.globals().get::<Function>("tostring").and_then(|tostring| tostring.call(other.clone()));
            text.map_or_else(|_| Vec::new(), |text: mlua::LuaString| text.as_bytes().to_vec())
        }
    }
}

/// Returns the error itself, without the layers that carried it.
pub(super) fn innermost(error: &Error) -> &(dyn std::error::Error + 'static) {
    match error {
        Error::CallbackError { cause, .. } => innermost(cause),
        Error::ExternalError(error) => &**error,
        other => other,
    }
}
