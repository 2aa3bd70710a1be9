//! The conversion of values between Lua and Redis.
//!
//! Invariant: as in Redis a number loses its fraction, `false` becomes nil, and an array ends at its first `nil`.

use mlua::{Lua, Table, Value};

use super::errors::without_line_endings;
use crate::embedded::frame::{Frame, one_line};
use crate::embedded::number;

/// The maximum nesting of a reply. Deeper replies are cut.
const DEPTH_MAX: u32 = 1000;

/// Converts the return value of a script to a reply.
pub(super) fn reply(value: &Value) -> Frame {
    reply_at(value, 0)
}

fn reply_at(value: &Value, depth: u32) -> Frame {
    match value {
        Value::String(text) => Frame::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(true) => Frame::Int(1),
        Value::Integer(number) => Frame::Int(*number),
        Value::Number(number) => Frame::Int(whole(*number)),
        Value::Table(_) if depth > DEPTH_MAX => Frame::Error("ERR reached lua stack limit".to_owned()),
        Value::Table(table) => table_reply(table, depth),
        _ => Frame::Nil,
    }
}

/// Converts a number as C does. A number that does not fit becomes the smallest integer.
fn whole(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    #[allow(clippy::cast_possible_truncation, reason = "the fraction goes, and the range was checked")]
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

fn table_reply(table: &Table, depth: u32) -> Frame {
    let field = |name: &str| match table.raw_get(name) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    };
    // A script that returns a reply of `redis.call` has no such fields, and most return no table at all.
    if let Some(text) = field("err") {
        return Frame::Error(without_line_endings(&text));
    }
    if let Some(text) = field("ok") {
        return Frame::Simple(one_line(text.split('\0').next().unwrap_or_default()));
    }
    if let Ok(number @ (Value::Integer(_) | Value::Number(_))) = table.raw_get::<Value>("double") {
        return Frame::bulk(number_text(&number));
    }
    let mut items = Vec::new();
    loop {
        match table.raw_get(items.len() + 1) {
            Ok(Value::Nil) | Err(_) => return Frame::Array(items),
            Ok(value) => items.push(reply_at(&value, depth + 1)),
        }
    }
}

/// Converts an argument of `redis.call`, if it is valid.
pub(super) fn argument(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(_) | Value::Number(_) => Some(number_text(value).into_bytes()),
        _ => None,
    }
}

fn number_text(value: &Value) -> String {
    match value {
        #[allow(clippy::cast_precision_loss, reason = "it came from a double")]
        Value::Integer(number) => number::text_of(*number as f64),
        Value::Number(number) => number::text_of(*number),
        _ => String::new(),
    }
}

/// Converts the answer of a command for the script that called it.
pub(super) fn value(lua: &Lua, frame: Frame) -> mlua::Result<Value> {
    Ok(match frame {
        #[allow(clippy::cast_precision_loss, reason = "a number of Lua is a double")]
        Frame::Int(number) => Value::Number(number as f64),
        Frame::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Frame::Nil | Frame::NilArray => Value::Boolean(false),
        Frame::Simple(text) => single(lua, "ok", text.as_bytes())?,
        Frame::Error(text) => single(lua, "err", text.as_bytes())?,
        Frame::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(value(lua, item)?)?;
            }
            Value::Table(table)
        }
    })
}

/// Returns a table with one field.
pub(super) fn single(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(Value::Table(table))
}
