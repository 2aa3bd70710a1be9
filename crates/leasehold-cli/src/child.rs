//! The command as a process: its start, its end, its stops, and the signals to its process group.
//!
//! Invariant: the command has a process group of its own, whose id is the process id of its first process.

use std::io;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::exit;

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(u8),
    Signal(i32),
}

/// A change of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Ended(Ending),
    Stopped(i32),
}

/// The first process of the command's group. Dropping it does nothing to the process.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    changes: unix::Signal,
}

impl Ending {
    /// Returns the wrapper's exit code for it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => exit::by_signal(signal),
        }
    }
}

impl Child {
    /// Starts the command through `starter` (see [`crate::exec`]) and returns when the new process has stopped itself.
    ///
    /// [`go`](Self::go) lets the process become the command.
    pub(crate) async fn start(starter: &mut Command) -> io::Result<Self> {
        // The handler comes before the start, so that it sees every change.
        let changes = signal(SignalKind::child())?;
        let process = starter.spawn()?;
        let mut child = Self { pid: Pid::from_child(&process), changes };
        match child.change().await? {
            Change::Stopped(_) => Ok(child),
            Change::Ended(ending) => {
                Err(io::Error::other(format!("the process that starts the command ended early: {ending:?}")))
            }
        }
    }

    /// Lets the command begin, or go on after a stop.
    pub(crate) fn go(&self) {
        let _ = self.signal(Signal::SIGCONT);
    }

    /// Returns the process group.
    pub(crate) fn group(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.pid.as_raw_pid())
    }

    /// Sends a signal to the whole group. A group that is gone already is no error.
    pub(crate) fn signal(&self, signal: Signal) -> nix::Result<()> {
        match killpg(self.group(), signal) {
            Err(Errno::ESRCH) => Ok(()),
            other => other,
        }
    }

    /// Returns true if a process of the group is left after the end of the first process.
    pub(crate) fn group_is_alive(&self) -> bool {
        killpg(self.group(), None) != Err(Errno::ESRCH)
    }

    /// Waits until the first process stops or ends. Dropping this future loses no change.
    pub(crate) async fn change(&mut self) -> io::Result<Change> {
        loop {
            let status = waitpid(Some(self.pid), WaitOptions::NOHANG | WaitOptions::UNTRACED)?;
            if let Some(change) = status.and_then(|(_, status)| Change::of(status)) {
                return Ok(change);
            }
            self.changes.recv().await;
        }
    }
}

impl Change {
    fn of(status: WaitStatus) -> Option<Self> {
        if let Some(code) = status.exit_status() {
            return Some(Self::Ended(Ending::Code(u8::try_from(code).unwrap_or(u8::MAX))));
        }
        let ended = status.terminating_signal().map(|signal| Self::Ended(Ending::Signal(signal)));
        ended.or_else(|| status.stopping_signal().map(Self::Stopped))
    }
}
