//! The table `redis` that scripts see.
//!
//! Invariant: only `call` and `pcall` reach data, and only through the table of commands.

use mlua::{Lua, MultiValue, Table, Value};

use super::errors::raise;
use super::values::{argument, single, value};
use super::work::SharedWork;
use crate::embedded::script_calls::call_from_script;
use crate::embedded::script_hash::hash;

pub(super) fn table(lua: &Lua, shared: &SharedWork) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let calling = shared.clone();
    redis.raw_set(
        "call",
        lua.create_function(move |lua, words| call(lua, &calling, words)?.map_err(raise))?,
    )?;
    let trying = shared.clone();
    let pcall = lua.create_function(move |lua, words| match call(lua, &trying, words)? {
        Ok(answer) => Ok(answer),
        Err(text) => single(lua, "err", &text),
    });
    redis.raw_set("pcall", pcall?)?;
    redis.raw_set("error_reply", lua.create_function(error_reply)?)?;
    redis.raw_set("status_reply", lua.create_function(status_reply)?)?;
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    redis.raw_set("log", lua.create_function(log)?)?;
    redis.raw_set("setresp", lua.create_function(set_protocol)?)?;
    redis.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].into_iter().enumerate() {
        redis.raw_set(name, level)?;
    }
    redis.raw_set("REDIS_VERSION", "7.0.15")?;
    redis.raw_set("REDIS_VERSION_NUM", 0x0007_000f)?;
    Ok(redis)
}

/// Runs a command. The inner error is the text of the command's own error.
fn call(lua: &Lua, shared: &SharedWork, words: MultiValue) -> mlua::Result<Result<Value, Vec<u8>>> {
    if words.is_empty() {
        return Ok(Err(b"ERR Please specify at least one argument for this redis lib call".to_vec()));
    }
    let Some(words) = words.iter().map(argument).collect::<Option<Vec<_>>>() else {
        return Ok(Err(b"ERR Lua redis lib command arguments must be strings or integers".to_vec()));
    };
    let outcome = call_from_script(&mut shared.work().context, &words);
    match outcome {
        Ok(frame) => value(lua, frame).map(Ok),
        Err(fault) => Ok(Err(fault.0.into_owned().into_bytes())),
    }
}

const WRONG_ARGUMENTS: &[u8] = b"ERR wrong number or type of arguments";

/// Returns the only argument, if there is exactly one argument and it is text.
fn only_text(words: &MultiValue) -> Option<Vec<u8>> {
    match words.iter().collect::<Vec<_>>().as_slice() {
        [Value::String(text)] => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

fn error_reply(lua: &Lua, words: MultiValue) -> mlua::Result<Value> {
    let Some(text) = only_text(&words) else {
        return single(lua, "err", WRONG_ARGUMENTS);
    };
    let text = text.strip_prefix(b"-").unwrap_or(&text);
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    // A text without a space has no code, so the error gets a code.
    let (code, rest) = match text.iter().position(|&byte| byte == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (b"ERR".as_slice(), text),
    };
    let is_ending = |byte: &&u8| matches!(byte, b'\r' | b'\n');
    let start = rest.iter().take_while(is_ending).count();
    let end = rest.len() - rest[start..].iter().rev().take_while(is_ending).count();
    single(lua, "err", &[code, b" ", &rest[start..end]].concat())
}

fn status_reply(lua: &Lua, words: MultiValue) -> mlua::Result<Value> {
    match only_text(&words) {
        Some(text) => single(lua, "ok", &text),
        None => single(lua, "err", WRONG_ARGUMENTS),
    }
}

fn sha1hex(_: &Lua, words: MultiValue) -> mlua::Result<String> {
    if words.len() != 1 {
        return Err(raise(b"ERR wrong number of arguments".to_vec()));
    }
    Ok(hash(&words.front().and_then(argument).unwrap_or_default()))
}

/// Handles `setresp`. The server has one protocol, the second.
fn set_protocol(_: &Lua, words: MultiValue) -> mlua::Result<()> {
    match words.front() {
        _ if words.len() != 1 => Err(raise(b"ERR redis.setresp() requires one argument.".to_vec())),
        Some(Value::Integer(2)) => Ok(()),
        _ => Err(raise(b"ERR RESP version must be 2 or 3.".to_vec())),
    }
}

/// Handles `log`. The server has no log, but wrong arguments still raise an error.
fn log(_: &Lua, words: MultiValue) -> mlua::Result<()> {
    let complaint = match words.front() {
        _ if words.len() < 2 => "ERR redis.log() requires two arguments or more.",
        Some(Value::Integer(level)) if !(0..=3).contains(level) => "ERR Invalid debug level.",
        Some(Value::Integer(_) | Value::Number(_)) => return Ok(()),
        _ => "ERR First argument must be a number (log level).",
    };
    Err(raise(complaint.as_bytes().to_vec()))
}
