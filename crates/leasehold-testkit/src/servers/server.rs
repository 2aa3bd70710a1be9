//! A private server process, and what tests do with it.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::binary::Binary;
use super::encryption::Encryption;
use super::port::free_port;
use super::process::{Form, Process, Settings, StartError};
use super::reply::Reply;
use super::wire::{ANSWER_WITHIN, Wire};

/// The number of ports to try before giving up.
const PORTS_TRIED: u32 = 20;

/// A private server process on the loopback interface, killed when dropped.
///
/// The server is `LEASEHOLD_REDIS_SERVER` if set (a wrapper script must `exec` the server), else `redis-server`, else
/// `valkey-server` on `PATH`. It keeps no data on disk unless its arguments say so.
#[derive(Debug)]
pub struct RedisServer {
    settings: Settings,
    port: u16,
    process: Option<Process>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// Panics if there is no server program (the message says how to get one), or it does not start (with its log).
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with further arguments, as in `with(&["--maxmemory", "2mb"])`.
    ///
    /// The kit understands `--requirepass` and then logs in by itself. Do not pass `--port`, `--bind` or `--dir`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn with(arguments: &[&str]) -> Self {
        Self::in_form(arguments, Form::Arguments, None)
    }

    /// Starts a server that also speaks TLS, with further arguments.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn encrypted(arguments: &[&str], encryption: &Encryption) -> Self {
        Self::in_form(arguments, Form::Arguments, Some(encryption))
    }

    /// Starts a server, perhaps one whose settings are in a file that the server rewrites: a node of a fleet.
    #[track_caller]
    pub(crate) fn in_form(arguments: &[&str], form: Form, encryption: Option<&Encryption>) -> Self {
        for _ in 0..PORTS_TRIED {
            let tls = encryption.map(|encryption| encryption.arguments(free_port())).unwrap_or_default();
            let all: Vec<&str> = arguments.iter().copied().chain(tls.iter().map(String::as_str)).collect();
            if let Some(server) = Self::try_start(&all, form) {
                return server;
            }
        }
        panic!("{PORTS_TRIED} ports in a row were taken by others before the server could bind them");
    }

    /// Starts a server, or returns `None` if another process took one of its ports first.
    #[track_caller]
    fn try_start(arguments: &[&str], form: Form) -> Option<Self> {
        let settings = Settings::new(arguments, form);
        let port = free_port();
        settings.write_file(port);
        match Process::start(&settings, port) {
            Ok(process) => Some(Self { settings, port, process: Some(process) }),
            Err(StartError::PortTaken) => None,
            Err(StartError::Failed(story)) => panic!("{story}"),
        }
    }

    /// Returns the address without a password: `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the address with the password of `--requirepass`, if any. The password is inserted unescaped, so keep it
    /// plain.
    #[must_use]
    pub fn url_with_password(&self) -> String {
        match self.password() {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port),
            None => self.url(),
        }
    }

    /// Returns the port on 127.0.0.1, which a restart keeps.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port under which clients and the other nodes of a fleet know the server: the TLS port if it has one.
    #[must_use]
    pub fn announced_port(&self) -> u16 {
        self.settings.tls_port().unwrap_or(self.port)
    }

    /// Returns the value of `--requirepass`.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.settings.password()
    }

    /// Returns the process id, which a restart changes.
    ///
    /// # Panics
    /// Panics if the server was killed.
    #[must_use]
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.running().pid()
    }

    /// Freezes the process (SIGSTOP). Connections stay open and get no answer. Returns when the process is stopped.
    ///
    /// # Panics
    /// Panics if the server was killed.
    #[track_caller]
    pub fn freeze(&self) {
        self.running().freeze();
    }

    /// Thaws a frozen process (SIGCONT).
    ///
    /// # Panics
    /// Panics if the server was killed.
    #[track_caller]
    pub fn thaw(&self) {
        self.running().thaw();
    }

    /// Kills the process (SIGKILL, also when frozen) and waits for its end. Has no effect on a killed server.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Returns true if the server runs and is not frozen.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.process.as_ref().is_some_and(|process| !process.is_frozen())
    }

    /// Kills the server if it runs, and starts it again as [`restart`](Self::restart) does, but without its data: the
    /// files in its folder are removed, except for its settings and its identity in a cluster.
    ///
    /// # Panics
    /// As [`restart`](Self::restart).
    #[track_caller]
    pub fn restart_empty(&mut self) {
        self.kill();
        self.settings.remove_data();
        self.restart();
    }

    /// Kills the server if it runs, and starts it again on the same port with the same arguments.
    ///
    /// The server loses its data unless its arguments keep them in its folder (`--appendonly yes`), which stays the
    /// same.
    ///
    /// # Panics
    /// Panics if it does not start again, with its log.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        let mut outcome = Err(StartError::PortTaken);
        crate::wait::holds_within(ANSWER_WITHIN, || {
            outcome = Process::start(&self.settings, self.port);
            !matches!(outcome, Err(StartError::PortTaken))
        });
        match outcome {
            Ok(process) => self.process = Some(process),
            Err(StartError::PortTaken) => panic!("port {} was taken while the server was down", self.port),
            Err(StartError::Failed(story)) => panic!("{story}"),
        }
    }

    /// Runs the command line client, as in `cli(&["GET", "key"])`, and returns its output, trimmed.
    ///
    /// An error reply is returned as text like any other. A frozen server makes it hang.
    ///
    /// # Panics
    /// Panics if there is no command line client, or it cannot reach the server.
    #[must_use]
    #[track_caller]
    pub fn cli(&self, arguments: &[&str]) -> String {
        let output = Binary::find()
            .cli_candidates()
            .iter()
            .find_map(|cli| {
                let mut command = Command::new(cli);
                command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]).args(arguments);
                command.envs(self.password().map(|password| ("REDISCLI_AUTH", password)));
                command.stdin(Stdio::null()).output().ok()
            })
            .expect("redis-cli or valkey-cli is installed with the server (Debian: the package redis-tools)");
        let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "redis-cli {arguments:?} failed: {printed} {complaint}");
        printed
    }

    /// Sends a command and returns its reply, as in `command(&["GET", "key"])`.
    ///
    /// The kit connects for this command alone, and logs in as the default user.
    ///
    /// # Errors
    /// An error reply, or the failure of the connection. A frozen server fails after 20 seconds.
    pub fn command(&self, command: &[&str]) -> io::Result<Reply> {
        self.connect()?.request(command)
    }

    /// Opens a connection of the kit, logged in as the default user.
    pub(crate) fn connect(&self) -> io::Result<Wire> {
        Wire::open(self.port, self.password(), ANSWER_WITHIN)
    }

    /// Returns the calls of each command since the start or [`reset_stats`](Self::reset_stats).
    ///
    /// The names are the names of `INFO commandstats`, such as `evalsha` or `client|setinfo`. Calls by scripts count
    /// too, and so do the kit's own commands (`info`, `config|resetstat`, `auth`).
    ///
    /// # Panics
    /// Panics if the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn commandstats(&self) -> BTreeMap<String, u64> {
        parse_commandstats(&self.send_command(&["INFO", "commandstats"]))
    }

    /// Sets all statistics of the server to zero.
    ///
    /// # Panics
    /// Panics if the server does not answer.
    #[track_caller]
    pub fn reset_stats(&self) {
        self.send_command(&["CONFIG", "RESETSTAT"]);
    }

    #[track_caller]
    fn running(&self) -> &Process {
        self.process.as_ref().expect("the server runs: it was killed and not restarted")
    }

    #[track_caller]
    fn send_command(&self, command: &[&str]) -> String {
        self.connect()
            .and_then(|mut wire| wire.send_command(command))
            .unwrap_or_else(|error| panic!("the server does not answer {command:?}: {error}"))
    }
}

/// Sends a command to the server on a port of the loopback interface and returns its reply, for a process that has no
/// [`RedisServer`].
///
/// # Errors
/// An error reply, whose text is that of the server, or the failure of the connection. No step takes longer than `within`.
pub fn ask(port: u16, command: &[&str], within: Duration) -> io::Result<Reply> {
    Wire::open(port, None, within)?.request(command)
}

/// Parses lines like `cmdstat_evalsha:calls=2,usec=10,...`.
fn parse_commandstats(info: &str) -> BTreeMap<String, u64> {
    info.lines()
        .filter_map(|line| {
            let (name, numbers) = line.trim().strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = numbers.split(',').find_map(|number| number.strip_prefix("calls="))?;
            Some((name.to_owned(), calls.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_statistics_are_read_per_command() {
        let info =
            "# Commandstats\r\ncmdstat_set:calls=2,usec=9\r\ncmdstat_client|setinfo:calls=1,usec=3\r\n";
        let expected = [("client|setinfo".to_owned(), 1), ("set".to_owned(), 2)];
        assert_eq!(parse_commandstats(info), BTreeMap::from(expected));
    }
}
