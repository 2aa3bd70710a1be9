//! The terminal, and its transfer to the command and back.
//!
//! A terminal has one foreground process group. Only this group may read, and gets the signals of the keyboard. The
//! command runs in a group of its own, so it needs the terminal handed over, as a shell does for its jobs.
//!
//! Invariant: the wrapper gives away only a terminal whose foreground group is its own, and takes back a terminal that
//! it gave.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::{Pid, getpgrp, getsid, tcgetpgrp, tcsetpgrp};

/// The controlling terminal, if there is one.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: Option<OwnedFd>,
    /// True if the command gets the terminal whenever the wrapper has it to give.
    wanted: bool,
    given: bool,
}

impl Terminal {
    /// Finds the terminal.
    ///
    /// The command gets the terminal from the start when both its input and its output are terminals. Otherwise the
    /// command may be part of a pipeline whose other end (`... | less`) needs the keyboard, so it gets the terminal on
    /// request.
    pub(crate) fn open() -> Self {
        let device = File::options().read(true).write(true).open("/dev/tty").map(OwnedFd::from);
        let device = device.or_else(|_| match io::stdin() {
            stdin if stdin.is_terminal() => stdin.as_fd().try_clone_to_owned(),
            _ => Err(io::ErrorKind::NotFound.into()),
        });
        Self {
            device: device.ok(),
            wanted: io::stdin().is_terminal() && io::stdout().is_terminal(),
            given: false,
        }
    }

    /// Returns a value without a terminal.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { device: None, wanted: false, given: false }
    }

    pub(crate) fn exists(&self) -> bool {
        self.device.is_some()
    }

    /// Returns true if the wrapper has given the terminal to the command's group.
    pub(crate) fn is_given(&self) -> bool {
        self.given
    }

    /// Hands the terminal to this group, if the group is to have it and the wrapper has it.
    pub(crate) fn give(&mut self, group: Pid) {
        let ours = getpgrp();
        if self.wanted && ours.as_raw() > 0 && self.foreground() == Some(ours) && self.set_foreground(group) {
            self.given = true;
        }
    }

    /// Handles the stop of a group that wants the terminal. Returns true if the group has it now.
    pub(crate) fn give_on_request(&mut self, group: Pid) -> bool {
        self.wanted = true;
        self.give(group);
        self.foreground() == Some(group)
    }

    /// Takes the terminal back if it was given.
    pub(crate) fn take_back(&mut self) {
        if std::mem::take(&mut self.given) {
            self.set_foreground(getpgrp());
        }
    }

    fn foreground(&self) -> Option<Pid> {
        self.device.as_ref().and_then(|device| tcgetpgrp(device).ok())
    }

    fn set_foreground(&self, group: Pid) -> bool {
        let Some(device) = &self.device else { return false };
        without_stopping(|| tcsetpgrp(device, group).is_ok())
    }
}

/// Returns true if a shell above could continue the wrapper after a stop. Such a shell starts the wrapper in a group of
/// its own.
pub(crate) fn under_job_control() -> bool {
    getsid(None) != Ok(getpgrp())
}

/// Uses the terminal in a way that would stop a background process (SIGTTOU).
pub(crate) fn without_stopping<T>(work: impl FnOnce() -> T) -> T {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTTOU);
    let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let done = work();
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
    done
}
