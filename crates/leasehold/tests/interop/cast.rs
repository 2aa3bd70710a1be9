//! Another process of ours, to be killed: this program again, for the same test, with a part to play.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const SERVER: &str = "LEASEHOLD_INTEROP_SERVER";
const NAME: &str = "LEASEHOLD_INTEROP_NAME";
/// What it says when it has done its part.
const READY: &str = "it is held";

/// The server's URL and the name to take, when this process is the other one.
pub(crate) fn part() -> Option<(String, String)> {
    Some((std::env::var(SERVER).ok()?, std::env::var(NAME).ok()?))
}

/// Says to the process that plays the test that the name is taken.
#[allow(clippy::print_stdout, reason = "the pipe to the parent")]
pub(crate) fn it_is_held() {
    println!("{READY}");
}

/// The other process; killed at the end of its test, however that ends.
pub(crate) struct Cast(Child);

impl Cast {
    /// Starts it with the test of this full name, which plays a [`part`], and waits until it has taken the name.
    pub(crate) fn start(test: &str, url: &str, name: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(SERVER, url).env(NAME, name);
        let mut cast = Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(cast.0.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(READY)), "the other process says {READY:?} before it ends");
        cast
    }

    /// Kills it (SIGKILL) and waits for its end.
    pub(crate) fn kill(&mut self) {
        // Failing means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        self.kill();
    }
}
