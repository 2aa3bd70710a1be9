//! Processes of this program: a test starts its own program again, for the same test.
//!
//! Invariant: a variable of the environment names the part that a child plays. A child is killed at the end of its test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The name of the variable that names the part.
const PART: &str = "LEASEHOLD_TEST_PART";

/// Returns the command that starts this program again, for one test, in a part.
pub(crate) fn again(test: &str, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Returns true in a child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(PART).is_some()
}

/// Returns true in a process that runs this test alone. In the other process it starts that process and checks that the
/// test passes there.
pub(crate) fn runs_alone(test: &str) -> bool {
    if !is_child() {
        assert_passes(&mut ChildProcess::start(again(test, "alone")));
    }
    is_child()
}

/// Waits for the end of a child's only test, and checks that it passed.
pub(crate) fn assert_passes(child: &mut ChildProcess) {
    let output = child.wait_for("test result:");
    assert!(output.contains("1 passed"), "{output}");
}

/// A child process, killed at the end of its test, even if the test fails.
pub(crate) struct ChildProcess(pub(crate) Child);

impl ChildProcess {
    /// Starts a child.
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Waits until the child prints this word. Output of the test harness may precede it on the line.
    pub(crate) fn wait_for(&mut self, word: &str) -> String {
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        lines.map(Result::unwrap).find(|line| line.contains(word)).expect("the child says it before it ends")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
