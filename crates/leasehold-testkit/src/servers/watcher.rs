//! Ends a server when the test process is gone, even when that was killed.
//!
//! # How it works
//! A shell reads from a pipe whose only writing end this process holds. The kernel closes it when the process ends,
//! however it ends; the shell then kills the server and removes its folder. It stands in a process group of its own, so
//! that a signal to the group of the tests does not end it first. (A parent-death signal would need unsafe code, and
//! would fire when the thread ends that started the server, which is any test's.)
//!
//! Invariant: a watcher is stopped before its server is waited for, so it never kills a process id that was reused.
//! Called by: [`RedisServer`](super::RedisServer), one for each run of a server.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = r#"read -r _; kill -9 "$1" 2>/dev/null; rm -rf -- "$2""#;

/// The shell that waits for the end of this process.
#[derive(Debug)]
pub(crate) struct Watcher(Child);

impl Watcher {
    /// Watches over the server with this process id, which keeps its files in `folder`.
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
        // Killed while its pipe is still open: it must not act. Failing means that it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
