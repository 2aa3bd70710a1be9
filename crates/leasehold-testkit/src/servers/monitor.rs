//! Records the commands that a server receives, line by line.
//!
//! # How it works
//! A thread reads the lines of MONITOR. These lines travel behind the replies, so a reader first sends a marker through
//! a second connection and waits for its line. By then all earlier lines have arrived.
//!
//! Invariant: a reading contains every command that was answered before it, and none of the kit's own commands.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::server::RedisServer;
use super::wire::{ANSWER_WITHIN, Wire};
use crate::wait::eventually;

/// The beginning of the text that the kit echoes as a marker.
const MARKER: &str = "leasehold-testkit-marker-";

/// Collects all commands that a server executes, from its start until it is dropped.
///
/// The server leaves some out: AUTH and administration such as CONFIG and DEBUG.
#[derive(Debug)]
pub struct Monitor {
    seen: Arc<Mutex<Vec<String>>>,
    marks: Mutex<(Wire, u64)>,
    socket: TcpStream,
    reader: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Starts to collect.
    ///
    /// # Panics
    /// Panics if the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn start(server: &RedisServer) -> Self {
        let (mut monitor, socket, marks) = Self::connect(server).expect("the server accepts a monitor");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let reader = thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                while let Ok(line) = monitor.read_line() {
                    seen.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                }
            }
        });
        Self { seen, marks: Mutex::new((marks, 0)), socket, reader: Some(reader) }
    }

    fn connect(server: &RedisServer) -> io::Result<(Wire, TcpStream, Wire)> {
        let open = || Wire::open(server.port(), server.password(), ANSWER_WITHIN);
        let (mut monitor, marks) = (open()?, open()?);
        monitor.send_command(&["MONITOR"])?;
        let socket = monitor.socket()?;
        // The thread now waits for the tests' commands, without a limit.
        socket.set_read_timeout(None)?;
        Ok((monitor, socket, marks))
    }

    /// Returns all lines so far, as the server writes them: `1700000000.123456 [0 127.0.0.1:50000] "set" "key"
    /// "value"`.
    ///
    /// Commands that scripts call are among them, marked `[0 lua]`.
    ///
    /// # Panics
    /// Panics if the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn lines(&self) -> Vec<String> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.1 += 1;
        let marker = format!("{MARKER}{}", marks.1);
        marks.0.send_command(&["ECHO", &marker]).expect("the server answers while it is monitored");
        let end = format!("\"{marker}\"");
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        eventually(ANSWER_WITHIN, "the monitor to catch up", || {
            seen().iter().rev().any(|line| line.ends_with(&end))
        });
        seen().iter().filter(|line| !line.contains(MARKER)).cloned().collect()
    }

    /// Returns the commands of clients so far, word by word, without the commands that scripts called: `["evalsha",
    /// ...]`.
    ///
    /// Words are as the client wrote them, so compare names without regard to case.
    ///
    /// # Panics
    /// Panics if the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn commands(&self) -> Vec<Vec<String>> {
        self.lines().iter().filter_map(|line| parse_command(line)).collect()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // The shutdown ends the blocked read. An error means that the server is gone, which ended the read too.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Returns the words of a line, or `None` if a script made the call.
fn parse_command(line: &str) -> Option<Vec<String>> {
    let (_, rest) = line.split_once(" [")?;
    let (origin, mut rest) = rest.split_once("] ")?;
    if origin.ends_with(" lua") {
        return None;
    }
    let mut words = Vec::new();
    while let Some(quoted) = rest.trim_start().strip_prefix('"') {
        let (word, after) = unquote(quoted);
        words.push(word);
        rest = after;
    }
    Some(words)
}

/// Reads up to the closing quote and undoes the escapes. Returns the word and the rest of the line.
fn unquote(quoted: &str) -> (String, &str) {
    let mut word = Vec::new();
    let mut letters = quoted.bytes().enumerate();
    while let Some((at, letter)) = letters.next() {
        match letter {
            b'"' => return (String::from_utf8_lossy(&word).into_owned(), &quoted[at + 1..]),
            b'\\' => match letters.next().map(|(_, escape)| escape) {
                Some(b'n') => word.push(b'\n'),
                Some(b'r') => word.push(b'\r'),
                Some(b't') => word.push(b'\t'),
                Some(b'a') => word.push(0x07),
                Some(b'b') => word.push(0x08),
                Some(b'x') => {
                    let digits = quoted.get(at + 2..at + 4).unwrap_or_default();
                    word.push(u8::from_str_radix(digits, 16).unwrap_or(b'?'));
                    letters.nth(1);
                }
                Some(other) => word.push(other),
                None => {}
            },
            other => word.push(other),
        }
    }
    (String::from_utf8_lossy(&word).into_owned(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_with_their_escapes() {
        let line = r#"1.5 [0 127.0.0.1:1] "set" "a \"b\"" "\x01\xc3\xa4\n" """#;
        assert_eq!(parse_command(line).unwrap(), ["set", "a \"b\"", "\u{1}ä\n", ""]);
    }

    #[test]
    fn calls_from_scripts_are_not_commands() {
        assert_eq!(parse_command(r#"1.5 [0 lua] "set" "a" "b""#), None);
    }
}
