//! The handler of errors that a script did not catch.
//!
//! Invariant: the handler records the place of the error before the stack is unwound.

use std::borrow::Cow;

use mlua::{Function, Lua, Value};

use super::errors::{Failure, command_error_text, plain};
use super::work::SharedWork;

/// Returns the function that records an error where it happened, before the stack is unwound.
pub(super) fn handler(lua: &Lua, shared: &SharedWork) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |lua, error: Value| {
        let text =
            command_error_text(&error).unwrap_or_else(|| [b"ERR ".as_slice(), &plain(lua, &error)].concat());
        let place = place(lua);
        shared.work().failure = Some(Failure { text, place });
        Ok(())
    })
}

/// Returns the place of the error in the innermost function of the script itself.
fn place(lua: &Lua) -> Option<(String, i64)> {
    /// The depth of the search, greater than any stack of functions that are not the script's own.
    const LEVELS: usize = 16;
    let at = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let name = source.source.map(Cow::into_owned).unwrap_or_default();
            let line = frame.current_line().map_or(-1, |line| i64::try_from(line).unwrap_or(-1));
            (source.what != "C").then_some((name, line))
        })
    };
    (0..LEVELS).map_while(at).flatten().next()
}
