//! A virtual machine with the functions that were compiled on it.
//!
//! Invariant: the shared work has an empty context unless a script runs.

use std::collections::HashMap;
use std::mem;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value};

use super::errors;
use super::random::Random;
use super::work::SharedWork;
use super::{api, error_handler, sandbox, values};
use crate::embedded::command_context::CommandContext;
use crate::embedded::fault::Fault;
use crate::embedded::frame::Frame;

/// The maximum number of compiled functions. The virtual machine drops all functions when there are more.
const COMPILED_MAX: usize = 4096;

pub(super) struct Vm {
    lua: Lua,
    shared: SharedWork,
    /// The globals that scripts read, behind the table that they see.
    globals: Table,
    compiled: HashMap<String, Function>,
    /// Lua's `xpcall`, the only function that passes on an error unchanged, with its place.
    guarded: Function,
    on_error: Function,
}

impl Vm {
    pub(super) fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let shared = SharedWork::default();
        let guarded = lua.globals().get("xpcall")?;
        let on_error = error_handler::handler(&lua, &shared)?;
        let redis = api::table(&lua, &shared)?;
        let globals = sandbox::close(&lua, &shared, redis)?;
        Ok(Self { lua, shared, globals, compiled: HashMap::new(), guarded, on_error })
    }

    /// Returns the function of a script.
    pub(super) fn compile(&mut self, sha1: &str, source: &[u8]) -> Result<Function, Fault> {
        if let Some(function) = self.compiled.get(sha1) {
            return Ok(function.clone());
        }
        let chunk = self.lua.load(source).set_name("@user_script").set_mode(ChunkMode::Text);
        let function = chunk.into_function().map_err(|error| errors::of_compiling(&error))?;
        if self.compiled.len() >= COMPILED_MAX {
            self.compiled.clear();
        }
        self.compiled.insert(sha1.to_owned(), function.clone());
        Ok(function)
    }

    pub(super) fn run<'a>(
        &mut self,
        context: &mut CommandContext,
        sha1: &str,
        source: &[u8],
        keys: impl Iterator<Item = &'a [u8]>,
        args: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Frame, Fault> {
        let function = self.compile(sha1, source)?;
        self.lend("KEYS", keys).map_err(|error| broken(&error))?;
        self.lend("ARGV", args).map_err(|error| broken(&error))?;
        {
            let mut work = self.shared.work();
            mem::swap(context, &mut work.context);
            work.context.script_wrote = false;
            work.random = Random::default();
            work.failure = None;
        }
        let outcome = self.guarded.call::<MultiValue>((&function, &self.on_error));
        let failure = {
            let mut work = self.shared.work();
            mem::swap(context, &mut work.context);
            work.failure.take()
        };
        match (outcome, failure) {
            (Ok(values), _) if values.front() == Some(&Value::Boolean(true)) => {
                Ok(values::reply(values.get(1).unwrap_or(&Value::Nil)))
            }
            (_, Some(failure)) => Err(failure.fault(sha1)),
            (Ok(_), None) => Err(Fault::new("ERR the script failed")),
            (Err(error), None) => Err(broken(&error)),
        }
    }

    fn lend<'a>(&self, name: &str, values: impl Iterator<Item = &'a [u8]>) -> mlua::Result<()> {
        let table = self.lua.create_sequence_from(values.map(LuaString::wrap))?;
        self.globals.raw_set(name, table)
    }
}

fn broken(error: &mlua::Error) -> Fault {
    Fault::of(format!("ERR {}", crate::embedded::frame::one_line(&error.to_string())))
}
