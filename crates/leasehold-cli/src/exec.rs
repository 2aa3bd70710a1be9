//! The last steps before the command runs, done inside the process that becomes it.
//!
//! The process asks the kernel to be killed with the wrapper (Linux), waits until the wrapper has reported it to the
//! watcher and handed over the terminal, and then turns into the command. It waits by sending itself a SIGSTOP, so the
//! command inherits no file descriptor.
//!
//! Invariant: not one instruction of the command runs before the wrapper allows it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{Signal, raise};
use nix::unistd::getppid;

use crate::exit;
use crate::report::Report;

/// The hidden verb, which only `run` uses.
pub(crate) const VERB: &str = "__exec";

/// The arguments that the wrapper passes on.
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
    // The wrapper may have died before the kernel knew that this process wants to die with it.
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
