//! Ends a server once its test process is gone, even if the test process was killed.
//!
//! # How it works
//! A shell reads from a pipe whose only writing end this process holds. The kernel closes the pipe whenever the process
//! ends. The shell then kills the server and removes its folder. The shell has a process group of its own, so a signal
//! to the group of the tests does not end it first. (A parent-death signal would need unsafe code, and would fire at the
//! end of the thread that started the server, which can be the thread of any test.)
//!
//! Invariant: a watcher is stopped before the wait for its server, so it never kills a reused process id.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = r#"read -r _; kill -9 "$1" 2>/dev/null; rm -rf -- "$2""#;

/// The shell that waits for the end of this process.
#[derive(Debug)]
pub(crate) struct Watcher(Child);

impl Watcher {
    /// Watches the server with this process id, which keeps its files in `folder`.
    pub(crate) fn start(server: u32, folder: &Path) -> Self {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "leasehold-watcher"])
            .arg(server.to_string())
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh can be started");
        Self(shell)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The kill comes while the pipe is still open, so the shell does not act. An error means that it has already
        // ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
