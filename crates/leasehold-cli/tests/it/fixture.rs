//! The fixture of these tests, which runs the program and observes it from outside.

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

/// The lock of all tests. Each test has a server of its own.
pub(crate) const NAME: &str = "the:lock";
/// A time that no working step exceeds.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Returns the program, without the variables of the tester that it would use.
pub(crate) fn leasehold() -> Command {
    without_our_variables(Command::new(env!("CARGO_BIN_EXE_leasehold")))
}

/// Returns a shell that starts the program, in the same environment.
pub(crate) fn shell() -> Command {
    without_our_variables(Command::new("sh"))
}

/// Removes every variable with the prefix that the program takes for keys of its configuration.
pub(crate) fn without_our_variables(mut command: Command) -> Command {
    let own = env::vars_os().map(|(name, _)| name);
    for name in own.filter(|name| name.to_string_lossy().starts_with("LEASEHOLD_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Returns `leasehold run OPTIONS the:lock -- COMMAND` against this server.
pub(crate) fn run(server: &RedisServer, options: &[&str], command: &[&str]) -> Command {
    let mut program = leasehold();
    program.env("LEASEHOLD_URL", server.url());
    program.arg("run").args(options).arg(NAME).arg("--").args(command);
    program
}

/// Returns `leasehold run OPTIONS the:lock -- sh -c SCRIPT` against this server.
pub(crate) fn run_script(server: &RedisServer, options: &[&str], script: &str) -> Command {
    run(server, options, &["sh", "-c", script])
}

/// The exit status and the output of a program.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// Returns the exit code, or -1 for a death by signal, by which the wrapper itself never ends in order.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }
}

/// A running program. Dropping it kills the program and its command.
pub(crate) struct Running {
    process: Child,
    folder: TempDir,
}

impl Running {
    /// Starts the program, with its output in files.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name| File::create(folder.path().join(name)).unwrap();
        let process = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
        Self { process, folder }
    }

    /// Starts the program with a stderr that no process reads. The caller keeps the returned end of the pipe.
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

    /// Returns the stdout of the program until now.
    pub(crate) fn out(&self) -> String {
        fs::read_to_string(self.folder.path().join("out")).unwrap()
    }

    /// Returns the stderr of the program until now.
    pub(crate) fn err(&self) -> String {
        fs::read_to_string(self.folder.path().join("err")).unwrap()
    }

    /// Waits until the program, or its command, has written this text.
    #[track_caller]
    pub(crate) fn wait_for_output(&self, text: &str) {
        eventually(LIMIT, &format!("{text:?}"), || self.out().contains(text) || self.err().contains(text));
    }

    /// Waits for the end of the program.
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

/// Returns the command that runs a verb against a server.
pub(crate) fn verb(server: &RedisServer, words: &[&str]) -> Command {
    let mut program = leasehold();
    program.env("LEASEHOLD_URL", server.url()).args(words);
    program
}

/// Runs a verb against a server.
pub(crate) fn told(server: &RedisServer, words: &[&str]) -> Outcome {
    outcome(&mut verb(server, words))
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn outcome(command: &mut Command) -> Outcome {
    Running::start(command).outcome()
}

/// A folder for the files through which scripts and tests communicate.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the path as scripts need it.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub(crate) fn touch(&self, name: &str) {
        File::create(self.path(name)).unwrap();
    }

    /// Returns a line of shell that waits until the file exists.
    pub(crate) fn wait_for(&self, name: &str) -> String {
        format!("while [ ! -e {} ]; do sleep 0.01; done", self.at(name))
    }
}

/// Returns true if the lock's key is on the server.
pub(crate) fn is_locked(server: &RedisServer) -> bool {
    server.cli(&["EXISTS", NAME]) == "1"
}

/// Waits until a renewal has made the remaining time of the lock grow.
#[track_caller]
pub(crate) fn wait_for_renewal(server: &RedisServer) {
    let mut before = i64::MAX;
    eventually(LIMIT, "a renewal", || {
        let left = server.cli(&["PTTL", NAME]).parse().unwrap();
        assert!(left > 0, "the lock is held all the time");
        std::mem::replace(&mut before, left) < left
    });
}

/// Deletes the lock of its present holder.
pub(crate) fn delete(server: &RedisServer) {
    assert_eq!(server.cli(&["DEL", NAME]), "1");
}

/// Takes the lock for a holder that never releases it.
pub(crate) fn occupy(server: &RedisServer) {
    assert_eq!(server.cli(&["HSET", NAME, "somebody:1", "1"]), "1");
    assert_eq!(server.cli(&["PEXPIRE", NAME, "3600000"]), "1");
}

/// Returns true if the process exists.
pub(crate) fn is_alive(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

/// Returns the number behind `label=` in the text.
#[track_caller]
pub(crate) fn number(text: &str, label: &str) -> i32 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{label}=")));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("no {label}= in {text:?}"))
}

/// Returns the URL of a port that was free a moment ago, so no server listens there.
pub(crate) fn has_no_subscribers() -> String {
    let mut server = RedisServer::start();
    server.kill();
    server.url()
}

/// Returns the children of a process.
pub(crate) fn children(pid: Pid) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    fs::read_to_string(path).unwrap_or_default().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Returns the wrapper's child that is not the command.
pub(crate) fn watcher_of(running: &Running, command: i32) -> Pid {
    let children = children(running.pid());
    Pid::from_raw(children.into_iter().find(|&pid| pid != command).unwrap())
}

/// Returns the letter that the kernel gives to the state of a process.
pub(crate) fn state(pid: i32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}
