//! Running the program and looking at it from outside.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The lock of all tests; each has a server of its own.
pub(crate) const NAME: &str = "the:lock";
/// Longer than anything takes that works.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The program, with nothing of the tester's own environment that it would react to.
pub(crate) fn leasehold() -> Command {
    without_our_variables(Command::new(env!("CARGO_BIN_EXE_leasehold")))
}

/// A shell that starts the program, in the same environment.
pub(crate) fn shell() -> Command {
    without_our_variables(Command::new("sh"))
}

/// The program takes every variable of this prefix for a key of its configuration.
pub(crate) fn without_our_variables(mut command: Command) -> Command {
    let own = env::vars_os().map(|(name, _)| name);
    for name in own.filter(|name| name.to_string_lossy().starts_with("LEASEHOLD_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// `leasehold run OPTIONS the:lock -- COMMAND` against this server.
pub(crate) fn run(server: &RedisServer, options: &[&str], command: &[&str]) -> Command {
    let mut program = leasehold();
    program.env("LEASEHOLD_URL", server.url());
    program.arg("run").args(options).arg(NAME).arg("--").args(command);
    program
}

/// `leasehold run OPTIONS the:lock -- sh -c SCRIPT` against this server.
pub(crate) fn run_script(server: &RedisServer, options: &[&str], script: &str) -> Command {
    run(server, options, &["sh", "-c", script])
}

/// How a program ended and what it said.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// The exit code; -1 for a death by signal, which the wrapper itself must never die of in order.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }
}

/// A program that runs; killed when dropped, and what it supervises with it.
pub(crate) struct Running {
    process: Child,
    folder: TempDir,
}

impl Running {
    /// Starts it, its output going to files.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name| File::create(folder.path().join(name)).unwrap();
        let process = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
        Self { process, folder }
    }

    /// Starts it with a stderr that nothing reads; the pipe's other end is returned to be kept.
    pub(crate) fn start_with_unread_stderr(command: &mut Command) -> (Self, ChildStderr) {
        let folder = tempfile::tempdir().unwrap();
        let file = |name| File::create(folder.path().join(name)).unwrap();
        file("err");
        let mut process = command.stdout(file("out")).stderr(Stdio::piped()).spawn().unwrap();
        let unread = process.stderr.take().unwrap();
        (Self { process, folder }, unread)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// What it has written to stdout until now.
    pub(crate) fn out(&self) -> String {
        fs::read_to_string(self.folder.path().join("out")).unwrap()
    }

    /// What it has written to stderr until now.
    pub(crate) fn err(&self) -> String {
        fs::read_to_string(self.folder.path().join("err")).unwrap()
    }

    /// Waits until it, or its command, has written this.
    #[track_caller]
    pub(crate) fn until_it_says(&self, text: &str) {
        eventually(LIMIT, &format!("{text:?}"), || self.out().contains(text) || self.err().contains(text));
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn outcome(mut self) -> Outcome {
        let mut status = None;
        eventually(LIMIT, "the end of the program", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        Outcome { status: status.unwrap(), out: self.out(), err: self.err() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs it to its end.
#[track_caller]
pub(crate) fn outcome(command: &mut Command) -> Outcome {
    Running::start(command).outcome()
}

/// A folder for files by which scripts and tests talk to each other.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path as scripts need it.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub(crate) fn touch(&self, name: &str) {
        File::create(self.path(name)).unwrap();
    }

    /// A line of shell that waits until the file is there.
    pub(crate) fn wait_for(&self, name: &str) -> String {
        format!("while [ ! -e {} ]; do sleep 0.01; done", self.at(name))
    }
}

/// Whether the lock's key is on the server.
pub(crate) fn is_locked(server: &RedisServer) -> bool {
    server.cli(&["EXISTS", NAME]) == "1"
}

/// Waits until the lock was renewed: until it has longer to live than a moment before.
#[track_caller]
pub(crate) fn until_it_is_renewed(server: &RedisServer) {
    let mut before = i64::MAX;
    eventually(LIMIT, "a renewal", || {
        let left = server.cli(&["PTTL", NAME]).parse().unwrap();
        assert!(left > 0, "the lock is held all the time");
        std::mem::replace(&mut before, left) < left
    });
}

/// Takes the lock away from whoever has it.
pub(crate) fn delete(server: &RedisServer) {
    assert_eq!(server.cli(&["DEL", NAME]), "1");
}

/// Takes the lock for somebody who never gives it back.
pub(crate) fn occupy(server: &RedisServer) {
    assert_eq!(server.cli(&["HSET", NAME, "somebody:1", "1"]), "1");
    assert_eq!(server.cli(&["PEXPIRE", NAME, "3600000"]), "1");
}

/// Whether the process is there.
pub(crate) fn is_alive(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

/// The number behind `label=` in the text.
#[track_caller]
pub(crate) fn number(text: &str, label: &str) -> i32 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{label}=")));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("no {label}= in {text:?}"))
}

/// A server program that is not there: the port was free a moment ago.
pub(crate) fn nobody_listens() -> String {
    let mut server = RedisServer::start();
    server.kill();
    server.url()
}

/// The children of a process.
pub(crate) fn children(pid: Pid) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    fs::read_to_string(path).unwrap_or_default().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The wrapper's child that is not the command.
pub(crate) fn watcher_of(running: &Running, command: i32) -> Pid {
    let children = children(running.pid());
    Pid::from_raw(children.into_iter().find(|&pid| pid != command).unwrap())
}

/// The letter that the kernel gives to the state of a process.
pub(crate) fn state(pid: i32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}
