//! A second process of this program, for two small jobs: the watcher, and the start of the command.
//!
//! Invariant: a helper is the very program that is running, even when its file was replaced or removed meanwhile (a
//! wrapper may wait for its lock for days), so both sides always agree on the hidden verbs.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a command that runs this program with a hidden verb, in a process group of its own.
pub(crate) fn helper(verb: &str) -> io::Result<Command> {
    let mut command = Command::new(this_program()?);
    command.arg0("leasehold").arg(verb).process_group(0);
    Ok(command)
}

fn this_program() -> io::Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    if cfg!(target_os = "linux") && link.exists() {
        return Ok(link.to_owned());
    }
    std::env::current_exe()
}
