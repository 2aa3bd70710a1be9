//! A small process that kills the command's whole group when the wrapper is gone.
//!
//! The wrapper holds the only write end of a pipe, the watcher waits at its read end: however the wrapper dies, even by
//! SIGKILL, the kernel closes the pipe. The wrapper that ends in good order kills its watcher first.
//!
//! Invariant: end of file means that the wrapper died with the command perhaps still running.
//! Called by: `run` ([`Watcher`]); `main` ([`watch`]), for a hidden verb that only `run` uses.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::Pid;

use crate::exit;

/// The hidden verb.
pub(crate) const VERB: &str = "__watch";

/// The wrapper's side. Dropping it lets the watcher strike, unless it was dismissed.
#[derive(Debug)]
pub(crate) struct Watcher {
    process: Child,
}

impl Watcher {
    /// Starts the watcher; it watches nothing yet.
    pub(crate) fn start(program: &mut Command) -> io::Result<Self> {
        // Nothing of the environment is needed, and it may have a password in it.
        program.env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { process: program.spawn()? })
    }

    /// Tells the watcher which group to kill.
    pub(crate) fn guard(&mut self, group: Pid) -> io::Result<()> {
        let pipe = self.process.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // One write, so that the watcher never reads half a number.
        pipe.write_all(format!("{group}\n").as_bytes())
    }

    /// Ends the watcher: the command has ended, what it left running may stay.
    ///
    /// By SIGKILL, and before the pipe is closed: nothing can make this hang or strike.
    pub(crate) fn dismiss(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The watcher's side: waits for the end of the wrapper.
pub(crate) fn watch() -> ExitCode {
    // Whoever stops all processes of a service with SIGTERM must not disarm it before its wrapper has ended.
    let _ = SigSet::all().thread_block();
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"leasehold-watch");
    let mut told = String::new();
    if io::stdin().read_to_string(&mut told).is_err() {
        return ExitCode::from(exit::SYSTEM);
    }
    // Zero, one and less mean other things to kill(2) than a group.
    if let Ok(group @ 2..) = told.trim().parse() {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    ExitCode::SUCCESS
}
