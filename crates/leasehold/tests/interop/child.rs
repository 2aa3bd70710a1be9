//! A second Rust process, to be killed. It is this program again, for the same test, with a part to play.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const SERVER: &str = "LEASEHOLD_INTEROP_SERVER";
const NAME: &str = "LEASEHOLD_INTEROP_NAME";
/// The line that the process prints when it has played its part.
const READY: &str = "it is held";

/// The server's URL and the name to acquire, when this process plays a part.
pub(crate) fn part() -> Option<(String, String)> {
    Some((std::env::var(SERVER).ok()?, std::env::var(NAME).ok()?))
}

/// Reports to the parent process that this process has the name.
#[allow(clippy::print_stdout, reason = "the pipe to the parent")]
pub(crate) fn report_held() {
    println!("{READY}");
}

/// The second process, killed at the end of its test, even if the test fails.
pub(crate) struct ChildProcess(Child);

impl ChildProcess {
    /// Starts the process with the test of this full name, which plays a [`part`], and waits until it has acquired the
    /// name.
    pub(crate) fn start(test: &str, url: &str, name: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(SERVER, url).env(NAME, name);
        let mut child = Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(child.0.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(READY)), "the other process says {READY:?} before it ends");
        child
    }

    /// Kills the process (SIGKILL) and waits for its end.
    pub(crate) fn kill(&mut self) {
        // An error means that the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
