//! The private server of a workload, and its counters.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::statistics::median;

/// The time in which a server starts.
const START: Duration = Duration::from_secs(10);
/// The connections of a server, enough for a connection per waiter.
const CONNECTIONS: &str = "15000";

/// The round trips of a median, and the pause before each, as long as a section of the hand-over.
const TRIPS: usize = 200;
const TRIP_PAUSE: Duration = Duration::from_millis(5);
/// The script that returns the least remaining lease of all keys, or -1. The quotes make it one word of an inline command.
const LEAST_REMAINING: &str = "\"local least = -1 for _, key in ipairs(redis.call('KEYS', '*')) do \
                         local left = redis.call('PTTL', key) \
                         if left >= 0 and (least < 0 or left < least) then least = left end end return least\"";

/// A server that dies with this value.
pub(super) struct PrivateServer {
    child: Child,
    pub(super) port: u16,
}

impl PrivateServer {
    /// Starts a server without persistence on a free port. Its log is a file of the folder.
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let log = File::create(folder.join("server.log"))?;
        let child = Command::new(program)
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .args(["--maxclients", CONNECTIONS])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the server")?;
        let mut server = Self { child, port };
        let started = Instant::now();
        while server.connect().is_err() {
            ensure!(server.child.try_wait()?.is_none(), "the server ended; see server.log in target/peers");
            ensure!(started.elapsed() < START, "the server does not answer");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Opens a connection.
    pub(super) fn connect(&self) -> Result<Connection> {
        Connection::open(self.port)
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // A server that is gone is what this wants.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that sends one command after the other.
pub(super) struct Connection {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Connection {
    fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        let mut connection = Self { replies: BufReader::new(stream.try_clone()?), stream };
        connection.call(&["PING"])?;
        Ok(connection)
    }

    /// Sends a command and returns the text of its reply.
    pub(super) fn call(&mut self, words: &[&str]) -> Result<String> {
        self.stream.write_all(format!("{}\r\n", words.join(" ")).as_bytes())?;
        let mut head = String::new();
        self.replies.read_line(&mut head)?;
        let head = head.trim_end();
        match head.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.to_owned()),
            Some(("$", length)) => {
                let mut text = vec![0; length.parse::<usize>()? + 2];
                self.replies.read_exact(&mut text)?;
                Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
            }
            _ => bail!("{} was answered with {head:?}", words.join(" ")),
        }
    }

    /// Returns the counters of this moment.
    pub(super) fn counters(&mut self) -> Result<Counters> {
        Counters::parse(&self.call(&["INFO", "everything"])?)
    }

    /// Returns the number of keys.
    pub(super) fn keys(&mut self) -> Result<u32> {
        Ok(self.call(&["DBSIZE"])?.parse()?)
    }

    /// Returns the least remaining lease of all keys that have one, in milliseconds.
    pub(super) fn least_remaining_ms(&mut self) -> Result<Option<u32>> {
        let least: i64 = self.call(&["EVAL", LEAST_REMAINING, "0"])?.parse()?;
        Ok(u32::try_from(least).ok())
    }

    /// Returns the median of bare round trips after a pause, in microseconds.
    pub(super) fn trip_us(&mut self) -> Result<f64> {
        let mut times = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            thread::sleep(TRIP_PAUSE);
            let begin = Instant::now();
            self.call(&["PING"])?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        median(&times).context("there were round trips")
    }

    /// Makes this connection a monitor of all commands, and returns the stream of its lines.
    pub(super) fn monitor(mut self) -> Result<BufReader<TcpStream>> {
        self.call(&["MONITOR"])?;
        Ok(self.replies)
    }
}

/// Counters of the server since its start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// The calls of each command, also those of scripts.
    pub(super) calls: BTreeMap<String, f64>,
    /// Microseconds of processor time.
    pub(super) cpu_us: f64,
}

impl Counters {
    /// Parses the text of `INFO`.
    fn parse(info: &str) -> Result<Self> {
        let mut counters = Self::default();
        for line in info.lines() {
            let Some((name, value)) = line.trim().split_once(':') else { continue };
            if let Some(command) = name.strip_prefix("cmdstat_") {
                let calls = value.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
                let calls: Option<f64> = calls.and_then(|calls| calls.parse().ok());
                // A subcommand, such as `client|setinfo`, counts for its command.
                let command = command.split('|').next().unwrap_or(command);
                *counters.calls.entry(command.to_owned()).or_insert(0.0) +=
                    calls.context("cmdstat has calls")?;
            } else if ["used_cpu_user", "used_cpu_sys"].contains(&name) {
                counters.cpu_us += value.parse::<f64>()? * 1e6;
            }
        }
        Ok(counters)
    }

    /// Returns the difference to an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let calls = self.calls.iter().map(|(command, calls)| {
            let before = earlier.calls.get(command).copied().unwrap_or_default();
            (command.clone(), calls - before)
        });
        Self { calls: calls.collect(), cpu_us: self.cpu_us - earlier.cpu_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:0.5\r\nused_cpu_sys_main_thread:9\r\n# Commandstats\r\n\
                        cmdstat_set:calls=3,usec=9,usec_per_call=3.00\r\ncmdstat_client|setinfo:calls=2,usec=1\r\n\
                        cmdstat_client|id:calls=1,usec=1\r\n";

    #[test]
    fn counters_are_parsed_from_info() {
        let counters = Counters::parse(INFO).unwrap();
        assert!((counters.cpu_us - 2e6).abs() < 1.0);
        assert_eq!(counters.calls.get("set"), Some(&3.0));
        assert_eq!(counters.calls.get("client"), Some(&3.0));
    }

    #[test]
    fn a_difference_counts_commands_that_were_new() {
        let earlier = Counters::parse("cmdstat_set:calls=1,usec=1\n").unwrap();
        let calls = Counters::parse(INFO).unwrap().since(&earlier).calls;
        assert_eq!((calls["set"], calls["client"]), (2.0, 3.0));
    }
}
