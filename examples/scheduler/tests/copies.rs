//! Real copies of the scheduler: one is killed, one is stopped past its lease, and all are rolled.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SOON: Duration = Duration::from_secs(30);
/// The lease of a copy, in seconds.
const LEASE: &str = "2";

/// A copy, which writes its lines to a file. It ends with its value.
struct Copy {
    process: Child,
    name: String,
    lines: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Copy {
    fn start(server: &RedisServer, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lines = folder.path().join("out");
        let mut command = Command::new(env!("CARGO_BIN_EXE_scheduler"));
        command.args([name, LEASE]).env("LEASEHOLD_URL", server.url());
        let process = command.stdin(Stdio::null()).stdout(File::create(&lines).unwrap()).spawn().unwrap();
        let copy = Self { process, name: name.to_owned(), lines, _folder: folder };
        copy.until("is ready");
        copy
    }

    fn out(&self) -> String {
        fs::read_to_string(&self.lines).unwrap()
    }

    #[track_caller]
    fn until(&self, text: &str) {
        eventually(SOON, &format!("{}: {text}", self.name), || self.out().contains(text));
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().cast_signed()), signal).unwrap();
    }

    /// Ends it as a rolling deploy does, and returns its lines.
    fn roll(mut self) -> String {
        self.signal(Signal::SIGTERM);
        eventually(SOON, "the end of the copy", || self.process.try_wait().unwrap().is_some());
        self.out()
    }

    fn terms(&self) -> Vec<u64> {
        let begun = format!("{} begins term ", self.name);
        self.out().lines().filter_map(|line| line.strip_prefix(&begun)?.parse().ok()).collect()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_copy_that_is_killed_is_followed() {
    let server = RedisServer::start();
    let first = Copy::start(&server, "one");
    first.until("worked");
    let second = Copy::start(&server, "two");
    first.signal(Signal::SIGKILL);
    second.until("worked");
    assert!(second.terms()[0] > first.terms()[0]);
}

#[test]
fn a_copy_that_was_stopped_past_its_lease_is_refused_and_waits_again() {
    let server = RedisServer::start();
    let first = Copy::start(&server, "one");
    first.until("worked");
    let second = Copy::start(&server, "two");
    first.signal(Signal::SIGSTOP);
    second.until("worked");
    let before = first.out().matches("worked").count();
    first.signal(Signal::SIGCONT);
    // It campaigns again, and leads again when the second copy ends.
    second.roll();
    eventually(SOON, "a second term", || first.terms().len() == 2);
    let old = format!("one worked in term {}", first.terms()[0]);
    assert_eq!(
        first.out().matches(&old).count(),
        before,
        "the old term wrote nothing after the second copy led"
    );
}

#[test]
fn copies_that_are_rolled_follow_each_other_without_overlap() {
    let server = RedisServer::start();
    let mut copies: Vec<Copy> =
        (0..3).map(|number| Copy::start(&server, &format!("copy-{number}"))).collect();
    let mut terms = Vec::new();
    for number in 3..9 {
        let leads = |copy: &Copy| !copy.terms().is_empty();
        eventually(SOON, "a leader", || copies.iter().any(leads));
        let leader = copies.iter().position(leads).unwrap();
        let copy = copies.remove(leader);
        terms.extend(copy.terms());
        let out = copy.roll();
        assert!(out.contains("the election was stopped here") && out.ends_with("is done\n"), "{out}");
        copies.push(Copy::start(&server, &format!("copy-{number}")));
    }
    assert!(terms.is_sorted() && terms.len() == 6, "{terms:?}");
}
