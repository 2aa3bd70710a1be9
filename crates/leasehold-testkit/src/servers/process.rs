//! One run of a server process, from start to kill.
//!
//! Invariant: a [`Process`] has answered under its own process id. Its drop kills it and waits for its end, even if it
//! is frozen.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use std::{env, io};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::binary::Binary;
use super::watcher::Watcher;
use super::wire::Wire;
use crate::wait::holds_within;

/// The time limit for a server's first answer, far more than it needs, for machines under load.
const START_WITHIN: Duration = Duration::from_secs(30);
/// The time limit for one probe while the server starts.
const PROBE_WITHIN: Duration = Duration::from_secs(2);
const LOG: &str = "server.log";
const FILE: &str = "server.conf";

/// The settings that all runs of a server share. Removes the folder when dropped.
#[derive(Debug)]
pub(crate) struct Settings {
    arguments: Vec<String>,
    form: Form,
    folder: PathBuf,
}

/// The way in which the settings reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Arguments of the command, which a restart repeats.
    Arguments,
    /// A file that the server rewrites when its role changes, so a restart continues in the last role.
    File,
    /// The same, for a sentinel.
    SentinelFile,
}

/// The reason why a server did not start.
#[derive(Debug)]
pub(crate) enum StartError {
    /// Another process took the port first, but another port may work.
    PortTaken,
    /// Any other failure, with the server's log.
    Failed(String),
}

impl Settings {
    pub(crate) fn new(arguments: &[&str], form: Form) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = env::temp_dir().join(format!("leasehold-{}-{number}", std::process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => return Self { arguments, form, folder },
                // An earlier process with the same id left the folder behind.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot create {}: {error}", folder.display()),
            }
        }
    }

    /// Returns the value of `--requirepass`.
    pub(crate) fn password(&self) -> Option<&str> {
        self.value("--requirepass")
    }

    /// Returns the value of `--tls-port`.
    pub(crate) fn tls_port(&self) -> Option<u16> {
        self.value("--tls-port")?.parse().ok()
    }

    fn value(&self, name: &str) -> Option<&str> {
        let name = self.arguments.iter().position(|argument| argument == name)?;
        self.arguments.get(name + 1).map(String::as_str)
    }

    fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// Writes the settings file of a new server, if it has one. The server has no data yet.
    pub(crate) fn write_file(&self, port: u16) {
        if self.form == Form::Arguments {
            return;
        }
        let mut text = String::new();
        for word in self.all_arguments(port, Binary::find()) {
            match word.strip_prefix("--") {
                Some(name) => text.push_str(&format!("\n{name}")),
                None => text.push_str(&format!(" \"{word}\"")),
            }
        }
        text.push('\n');
        fs::write(self.folder.join(FILE), text).expect("the server's folder takes a settings file");
    }

    /// Removes the data of a stopped server. Its settings and its identity in a cluster stay.
    pub(crate) fn remove_data(&self) {
        let entries = fs::read_dir(&self.folder).expect("the folder of a server exists");
        for path in entries.flatten().map(|entry| entry.path()) {
            let removed = match path.extension() {
                Some(extension) if extension == "conf" => Ok(()),
                _ if path.is_dir() => fs::remove_dir_all(&path),
                _ => fs::remove_file(&path),
            };
            removed.unwrap_or_else(|error| panic!("cannot remove {}: {error}", path.display()));
        }
    }

    fn command(&self, port: u16, binary: &Binary) -> Command {
        let mut command = Command::new(binary.path());
        match self.form {
            Form::Arguments => command.args(self.all_arguments(port, binary)),
            Form::File => command.arg(FILE),
            Form::SentinelFile => command.args([FILE, "--sentinel"]),
        };
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn all_arguments(&self, port: u16, binary: &Binary) -> Vec<String> {
        let folder = self.folder.to_str().expect("the folder for temporary files has a name in UTF-8");
        let port = port.to_string();
        let mut all = vec![
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--daemonize",
            "no",
            "--logfile",
            LOG,
            "--dir",
            folder,
        ];
        if self.form != Form::SentinelFile {
            all.extend(["--save", "", "--appendonly", "no"]);
            if binary.guards_debug() {
                all.extend(["--enable-debug-command", "local"]);
            }
        }
        let mut all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        all.extend(self.arguments.iter().cloned());
        all
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // A leftover folder is untidy, but no reason to fail a test.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A server process that has answered.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watcher: Option<Watcher>,
    frozen: AtomicBool,
}

impl Process {
    pub(crate) fn start(settings: &Settings, port: u16) -> Result<Self, StartError> {
        let binary = Binary::find();
        let output = fs::File::create(settings.log()).expect("the server's folder takes a log");
        let errors = output.try_clone().expect("a file handle can be doubled");
        let child = settings
            .command(port, binary)
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", binary.path().display()));
        let watcher = Watcher::start(child.id(), &settings.folder);
        let mut process = Self { child, watcher: Some(watcher), frozen: AtomicBool::new(false) };
        process.wait_until_ready(settings, port)?;
        Ok(process)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns when the process is stopped. The signal itself is asynchronous.
    pub(crate) fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
        self.signal(Signal::STOP);
        let states = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.os_pid()), states).expect("a child can be waited for");
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
        self.frozen.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.os_pid(), signal).expect("a child that was not waited for can be signalled");
    }

    fn os_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until this process answers, because another server may have taken the port.
    fn wait_until_ready(&mut self, settings: &Settings, port: u16) -> Result<(), StartError> {
        let expected = format!("process_id:{}", self.pid());
        let mut exited = false;
        let ready = holds_within(START_WITHIN, || {
            exited = matches!(self.child.try_wait(), Ok(Some(_)));
            exited || replies_with(port, settings.password(), &expected)
        });
        if ready && !exited {
            return Ok(());
        }
        let log = fs::read_to_string(settings.log()).unwrap_or_default();
        if exited && is_port_taken(&log) {
            return Err(StartError::PortTaken);
        }
        let story = if exited { "ended at once" } else { "did not answer in time" };
        let program = Binary::find().path().display();
        Err(StartError::Failed(format!(
            "{program} with {:?} on port {port} {story}; its log:\n{log}",
            settings.arguments
        )))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watcher goes first, because after the wait for the server, its process id can belong to another process.
        self.watcher = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn replies_with(port: u16, password: Option<&str>, expected: &str) -> bool {
    Wire::open(port, password, PROBE_WITHIN)
        .and_then(|mut wire| {
            wire.send_command(&["PING"])?;
            wire.send_command(&["INFO", "server"])
        })
        .is_ok_and(|info| info.lines().any(|line| line.trim() == expected))
}

fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use") || log.contains("Failed listening on port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_read_from_the_arguments() {
        assert_eq!(Settings::new(&["--requirepass", "secret"], Form::Arguments).password(), Some("secret"));
        assert_eq!(Settings::new(&["--maxmemory", "2mb"], Form::Arguments).password(), None);
    }

    #[test]
    fn the_folder_is_deleted_with_the_settings() {
        let settings = Settings::new(&[], Form::Arguments);
        let folder = settings.folder.clone();
        assert!(folder.is_dir());
        drop(settings);
        assert!(!folder.exists());
    }
}
