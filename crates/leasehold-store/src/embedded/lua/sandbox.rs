//! The part of Lua that a script sees.
//!
//! Invariant: a script reads every table that outlives it through an empty table that refuses writes.

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

use super::errors::{command_error_text, complain, innermost, object, plain};
use super::math;
use super::structs;
use super::values::single;
use super::work::SharedWork;

/// The functions of Lua that scripts may call. `pcall`, `xpcall` and `rawset` are our own.
const LENT: [&str; 19] = [
    "assert",
    "coroutine",
    "error",
    "getmetatable",
    "ipairs",
    "load",
    "loadstring",
    "next",
    "pairs",
    "rawequal",
    "rawget",
    "select",
    "setmetatable",
    "table",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "_VERSION",
];

/// Gives the virtual machine its new globals, and returns the table behind them, into which KEYS and ARGV go.
pub(super) fn close(lua: &Lua, shared: &SharedWork, redis: Table) -> mlua::Result<Table> {
    let full = lua.globals();
    let globals = lua.create_table()?;
    for name in LENT {
        match full.get::<Value>(name)? {
            Value::Table(library) => globals.raw_set(name, read_only(lua, library)?)?,
            value => globals.raw_set(name, value)?,
        }
    }
    globals.raw_set("pcall", protected_call(lua, full.get("pcall")?)?)?;
    globals.raw_set("xpcall", handled_call(lua, full.get("xpcall")?)?)?;
    globals.raw_set("rawset", lua.create_function(raw_set)?)?;
    globals.raw_set("redis", read_only(lua, redis)?)?;
    globals.raw_set("struct", read_only(lua, structs::table(lua)?)?)?;
    globals.raw_set("math", read_only(lua, math::table(lua, shared, full.get("math")?)?)?)?;
    let strings: Table = full.get("string")?;
    globals.raw_set("string", read_only(lua, strings)?)?;
    if let Some(metatable) = lua.type_metatable::<LuaString>() {
        metatable.raw_set("__metatable", false)?;
    }
    // Reading a missing global is an error, too.
    let missing = lua.create_table()?;
    missing.raw_set("__index", lua.create_function(no_such_global)?)?;
    globals.set_metatable(Some(missing))?;
    let seen = read_only(lua, globals.clone())?;
    globals.raw_set("_G", &seen)?;
    lua.set_globals(seen)?;
    Ok(globals)
}

/// Returns an empty table through which another table can be read.
fn read_only(lua: &Lua, table: Table) -> mlua::Result<Table> {
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", table)?;
    metatable.raw_set("__newindex", lua.create_function(refuse_write)?)?;
    metatable.raw_set("__metatable", false)?;
    let seen = lua.create_table()?;
    seen.set_metatable(Some(metatable))?;
    Ok(seen)
}

const READ_ONLY: &str = "Attempt to modify a readonly table";

fn refuse_write(lua: &Lua, _: MultiValue) -> mlua::Result<()> {
    Err(complain(lua, READ_ONLY))
}

fn raw_set(_: &Lua, (table, key, value): (Table, Value, Value)) -> mlua::Result<Table> {
    let refuses = table.metatable().is_some_and(|metatable| {
        metatable.raw_get::<Value>("__metatable").is_ok_and(|mark| mark == Value::Boolean(false))
    });
    if refuses {
        return Err(object(READ_ONLY));
    }
    table.raw_set(key, value)?;
    Ok(table)
}

fn no_such_global(lua: &Lua, (_, name): (Value, Value)) -> mlua::Result<()> {
    let name = name.as_string().map(LuaString::to_string_lossy).unwrap_or_default();
    Err(complain(lua, &format!("Script attempted to access nonexistent global variable '{name}'")))
}

/// Returns Redis's own `pcall`, from which the script gets the text of a command's error.
fn protected_call(lua: &Lua, pcall: Function) -> mlua::Result<Function> {
    lua.create_function(move |lua, words: MultiValue| {
        let mut results: MultiValue = pcall.call(words)?;
        if results.front() == Some(&Value::Boolean(false))
            && let Some(error) = results.get(1).cloned()
        {
            let text = command_error_text(&error).or_else(|| error.is_error().then(|| plain(lua, &error)));
            if let Some(text) = text {
                results = MultiValue::from_vec(vec![
                    Value::Boolean(false),
                    Value::String(lua.create_string(text)?),
                ]);
            }
        }
        Ok(results)
    })
}

/// Returns Lua's `xpcall`, whose handler gets errors as Redis makes them.
fn handled_call(lua: &Lua, xpcall: Function) -> mlua::Result<Function> {
    lua.create_function(move |lua, (function, handler): (Value, Function)| {
        let adapter = lua.create_function(move |lua, error: Value| {
            let error = match (command_error_text(&error), &error) {
                (Some(text), Value::Error(_)) => single(lua, "err", &text)?,
                (None, Value::Error(error)) => {
                    Value::String(lua.create_string(innermost(error).to_string())?)
                }
                _ => error,
            };
            handler.call::<MultiValue>(error)
        })?;
        xpcall.call::<MultiValue>((function, adapter))
    })
}
