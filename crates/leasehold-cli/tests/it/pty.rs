//! A pseudo-terminal with a keyboard that the test presses.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};

use leasehold_testkit::wait::eventually;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};

use crate::fixture::{LIMIT, without_our_variables};

/// The keyboard's codes for the signals of a terminal.
pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_Z: &str = "\x1a";

/// A session on a terminal of its own.
pub(crate) struct Session {
    keyboard: PtyMaster,
    screen: String,
    process: Child,
}

impl Session {
    /// Runs a shell, interactive or with a script, as the leader of a session on a new terminal.
    pub(crate) fn start(shell: &[&str], environment: &[(&str, &str)]) -> Self {
        // Child processes do not inherit the descriptor, so the terminal hangs up when this session is dropped.
        let keyboard = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
        grantpt(&keyboard).and_then(|()| unlockpt(&keyboard)).unwrap();
        let path = ptsname_r(&keyboard).unwrap();
        let without_adopting = OFlag::O_NOCTTY.bits();
        let side =
            || File::options().read(true).write(true).custom_flags(without_adopting).open(&path).unwrap();
        let mut setsid = without_our_variables(Command::new("setsid"));
        setsid.args(["--ctty", "--wait"]).args(shell).envs(environment.iter().copied());
        setsid.env("PS1", "$ ").env_remove("ENV");
        let process = setsid.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        Self { keyboard, screen: String::new(), process }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the text is on the screen, and returns everything up to it. Later waits begin behind it.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        let what = format!("{text:?} on the screen");
        let mut found = None;
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(LIMIT, &what, || {
                self.read();
                found = self.screen.find(text);
                found.is_some()
            });
        }));
        let end = match (looked, found) {
            (Ok(()), Some(at)) => at + text.len(),
            _ => panic!("{what} in vain; there is {:?}", self.screen),
        };
        self.screen.drain(..end).collect()
    }

    /// Returns what has been written since the last look.
    pub(crate) fn written(&mut self) -> String {
        self.read();
        std::mem::take(&mut self.screen)
    }

    /// Reads the available output, without waiting for more.
    fn read(&mut self) {
        let mut ready = [PollFd::new(self.keyboard.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, PollTimeout::ZERO).unwrap() > 0 {
            let mut bytes = [0; 4096];
            // The end of the other side is an error here. The expected text is then missing on the screen.
            let count = self.keyboard.read(&mut bytes).unwrap_or(0);
            self.screen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The end of the keyboard's side hangs the terminal up, which ends the session.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
