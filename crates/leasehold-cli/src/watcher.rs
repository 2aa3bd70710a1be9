//! A small process that ends the command when the wrapper cannot.
//!
//! The wrapper holds the only write end of a pipe, and the watcher waits at its read end. However the wrapper dies,
//! even by SIGKILL, the kernel closes the pipe, and the watcher kills the command's whole group. A wrapper that is
//! stopped or frozen neither dies nor renews. The watcher therefore knows the end of the hold, and acts at that time
//! unless the wrapper has sent a later end. A wrapper that ends normally kills its watcher first.
//!
//! Invariant: end of file means that the wrapper died, perhaps with the command still running. The watcher reads all
//! orders of the wrapper before it acts, so a watcher that was stopped itself acts on no stale orders.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::clock::{Alarm, boot};
use crate::exit;
use crate::orders::{Message, Orders, Watched};

/// The hidden verb, which only `run` uses.
pub(crate) const VERB: &str = "__watch";

/// The wrapper's side of the watcher. Dropping it makes the watcher end the command, unless it was dismissed.
#[derive(Debug)]
pub(crate) struct Watcher {
    process: Child,
    group: i32,
}

impl Watcher {
    /// Starts the watcher, which has no group yet.
    pub(crate) fn start(program: &mut Command) -> io::Result<Self> {
        // The watcher needs no variable of the environment, which may contain a password.
        program.env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = program.spawn()?;
        // A watcher that does not read must not block the wrapper.
        let pipe = process.stdin.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        rustix::io::ioctl_fionbio(pipe, true)?;
        Ok(Self { process, group: 0 })
    }

    /// Sends the group that the watcher guards, without orders.
    pub(crate) fn guard(&mut self, group: Pid) -> io::Result<()> {
        self.group = group.as_raw();
        self.send(Orders::default())
    }

    /// Replaces the watcher's orders.
    pub(crate) fn send(&mut self, orders: Orders) -> io::Result<()> {
        let pipe = self.process.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // The line is one write of fewer bytes than the pipe takes at once, so the watcher never has half a line for
        // long.
        pipe.write_all(format!("{}\n", Message { group: self.group, orders }).as_bytes())?;
        // A stopped watcher would never act.
        let _ = kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGCONT);
        Ok(())
    }

    /// Returns true if the watcher runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Ends the watcher. The command has ended, and the processes that it left running may stay.
    ///
    /// The SIGKILL comes before the close of the pipe, so the watcher can neither delay it nor end the command.
    pub(crate) fn dismiss(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the watcher's side, which waits for orders, their times and the end of the wrapper.
pub(crate) fn watch() -> ExitCode {
    // A SIGTERM to all processes of a service must not disarm the watcher before its wrapper has ended.
    let _ = SigSet::all().thread_block();
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"leasehold-watch");
    let mut watched = Watched::default();
    let (mut pipe, mut alarm, mut line) = (io::stdin().lock(), Alarm::new(), Vec::new());
    loop {
        match readable(&pipe, &mut alarm, watched.next()) {
            Ok(false) => watched.execute_due(),
            Ok(true) => {
                let mut bytes = [0; 4096];
                match pipe.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(count) => receive(&mut watched, &mut line, &bytes[..count]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return ExitCode::from(exit::SYSTEM),
                }
            }
            Err(_) => return ExitCode::from(exit::SYSTEM),
        }
    }
    watched.end();
    ExitCode::SUCCESS
}

/// Waits until there are bytes to read, or until the time has come without any.
fn readable(pipe: &impl AsFd, alarm: &mut Alarm, moment: Option<Duration>) -> nix::Result<bool> {
    let left = moment.map(|moment| moment.saturating_sub(boot()));
    // The wait is rounded up, so that the time has come when it is over.
    let wait = left.map_or(PollTimeout::NONE, |left| {
        let millis = left.as_nanos().div_ceil(1_000_000);
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
    });
    let ring = alarm.set(moment);
    let mut sources = vec![PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    sources.extend(ring.map(|ring| PollFd::new(ring, PollFlags::POLLIN)));
    match poll(&mut sources, wait) {
        Err(nix::errno::Errno::EINTR) => Ok(false),
        Err(error) => Err(error),
        Ok(_) => Ok(sources[0].any().unwrap_or(true)),
    }
}

/// Handles the whole lines. The last one may be incomplete.
fn receive(watched: &mut Watched, line: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\n' => {
                if let Some(message) = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()) {
                    watched.receive(message);
                }
                line.clear();
            }
            byte => line.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_lines_are_reassembled() {
        let later = boot() + Duration::from_secs(3600);
        let message = Message { group: 0, orders: Orders { kill: Some(later), ..Orders::default() } };
        let text = format!("0 - - -\n{message}\n");
        for size in [1, 7, text.len()] {
            let (mut watched, mut line) = (Watched::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                receive(&mut watched, &mut line, piece);
            }
            assert_eq!(watched.next(), Some(later), "in pieces of {size}");
        }
    }
}
