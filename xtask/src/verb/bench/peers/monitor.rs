//! The commands that a contender sends itself. The server's counters mix them with those that scripts call.
//!
//! # How it works
//! A monitor reads the commands of the warm-up, in which it tells both apart. The counters of a round are then multiplied
//! with the share of each command that was sent. A monitor would slow down the rounds.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};

use anyhow::Result;

use super::private_server::{Connection, Counters};

/// The commands of the verb itself.
const OWN: [&str; 5] = ["info", "monitor", "dbsize", "flushall", "ping"];
/// The commands that no script calls.
const ALWAYS_SENT: [&str; 7] =
    ["eval", "evalsha", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "blpop"];

/// The number of times that each command was sent, and that a script called it.
#[derive(Debug, Default)]
pub(super) struct Sent(BTreeMap<String, (f64, f64)>);

impl Sent {
    /// Adds a line of the monitor: `+1700000000.123456 [0 lua] "set" "name"`.
    fn add(&mut self, line: &str) {
        let Some((origin, rest)) = line.split_once("] \"") else { return };
        let command = rest.split('"').next().unwrap_or(rest).to_lowercase();
        if OWN.contains(&command.as_str()) {
            return;
        }
        let (sent, called) = self.0.entry(command).or_default();
        *if origin.ends_with(" lua") { called } else { sent } += 1.0;
    }

    /// Adds the commands of another monitor.
    pub(super) fn extend(&mut self, other: Self) {
        for (command, (sent, called)) in other.0 {
            let sum = self.0.entry(command).or_default();
            *sum = (sum.0 + sent, sum.1 + called);
        }
    }

    /// Returns the number of commands that were sent, of all that the server counted.
    pub(super) fn commands(&self, counters: &Counters) -> f64 {
        let counted = counters.calls.iter().filter(|(command, _)| !OWN.contains(&command.as_str()));
        counted.map(|(command, calls)| calls * self.share(command)).sum()
    }

    fn share(&self, command: &str) -> f64 {
        match self.0.get(command) {
            Some((sent, called)) => sent / (sent + called),
            None => f64::from(u8::from(ALWAYS_SENT.contains(&command))),
        }
    }
}

/// A monitor that reads until it is stopped.
pub(super) struct Monitor {
    stream: TcpStream,
    reader: JoinHandle<Sent>,
}

impl Monitor {
    pub(super) fn start(connection: Connection) -> Result<Self> {
        let lines = connection.monitor()?;
        let stream = lines.get_ref().try_clone()?;
        Ok(Self { stream, reader: thread::spawn(move || read(lines)) })
    }

    /// Stops reading.
    pub(super) fn stop(self) -> Sent {
        // The reader then sees the end of its stream.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.reader.join().unwrap_or_default()
    }
}

fn read(mut lines: BufReader<TcpStream>) -> Sent {
    let mut sent = Sent::default();
    let mut line = Vec::new();
    // Names and values may be bytes that are no text.
    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        sent.add(&String::from_utf8_lossy(&line));
        line.clear();
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_scripts_are_not_counted() {
        let mut sent = Sent::default();
        sent.add("+1.0 [0 127.0.0.1:1] \"EVALSHA\" \"abc\" \"1\" \"name\"");
        sent.add("+1.0 [0 lua] \"get\" \"name\"");
        sent.add("+1.0 [0 lua] \"del\" \"name\"");
        sent.add("+1.0 [0 127.0.0.1:1] \"SET\" \"name\" \"a\\\"] \\\"b\"");
        sent.add("+1.0 [0 127.0.0.1:2] \"info\"");
        let calls = [("evalsha", 10.0), ("get", 10.0), ("del", 7.0), ("set", 20.0), ("info", 2.0)];
        let calls = calls.map(|(command, calls)| (command.to_owned(), calls));
        let counters = Counters { calls: calls.into(), cpu_us: 0.0 };
        assert!((sent.commands(&counters) - 30.0).abs() < 1e-9);
    }

    #[test]
    fn a_command_that_is_both_sent_and_called_counts_by_its_share() {
        let mut sent = Sent::default();
        sent.add("+1.0 [0 127.0.0.1:1] \"set\" \"a\"");
        let mut other = Sent::default();
        other.add("+1.0 [0 lua] \"set\" \"a\"");
        sent.extend(other);
        let calls = [("set".to_owned(), 8.0), ("subscribe".to_owned(), 1.0)];
        let counters = Counters { calls: calls.into(), cpu_us: 0.0 };
        assert!((sent.commands(&counters) - 5.0).abs() < 1e-9);
    }
}
