//! The last steps before the command runs, done inside the process that becomes it.
//!
//! It asks the kernel to be killed with the wrapper (Linux), stands still until the wrapper has told the watcher about it and
//! handed over the terminal, and then turns into the command. Standing still is a SIGSTOP to itself, so no descriptor
//! has to be passed on to the command.
//!
//! Invariant: not one instruction of the command runs before the wrapper says so.
//! Called by: `main`, for a hidden verb that only `run` uses.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{Signal, raise};
use nix::unistd::getppid;

use crate::exit;
use crate::report::Report;

/// The hidden verb.
pub(crate) const VERB: &str = "__exec";

/// What the wrapper passes on.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The wrapper's process id.
    parent: i32,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the command. Returns only when that failed, with the exit code.
pub(crate) fn exec(arguments: &Arguments) -> u8 {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let Some((program, rest)) = arguments.command.split_first() else {
        return exit::USAGE;
    };
    // The wrapper may have died before the kernel knew that we want to die with it.
    if getppid().as_raw() != arguments.parent || raise(Signal::SIGSTOP).is_err() {
        return exit::SYSTEM;
    }
    let error = Command::new(program).args(rest).exec();
    Report::new(false).warn(format_args!("cannot run {program:?}: {error}"));
    match error.kind() {
        ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    }
}
