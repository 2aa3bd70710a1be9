//! The real server: one connection for commands, and one connection that listens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::differential::dump::{self, State};

/// The channels of the listening connection, by name and sharded. A pattern covers all the others.
pub(crate) const CHANNEL: &str = "c:1";
pub(crate) const SHARD: &str = "s:1";
pub(crate) const PATTERN: &str = "c:*";

/// A reply, and the milliseconds between which the server made it.
pub(crate) struct Answer {
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    pub(crate) reply: Vec<u8>,
}

pub(crate) struct Real {
    asking: BufReader<TcpStream>,
    listening: BufReader<TcpStream>,
}

fn open(port: u16) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    BufReader::with_capacity(1 << 16, stream)
}

impl Real {
    pub(crate) fn connect(port: u16) -> Self {
        let mut real = Self { asking: open(port), listening: open(port) };
        for words in [["SUBSCRIBE", CHANNEL], ["SSUBSCRIBE", SHARD], ["PSUBSCRIBE", PATTERN]] {
            send(&mut real.listening, &[words.map(|word| word.as_bytes().to_vec()).to_vec()]);
            read_reply(&mut real.listening);
        }
        real
    }

    pub(crate) fn now_ms(&mut self) -> u64 {
        send(&mut self.asking, &[vec![b"TIME".to_vec()]]);
        time(&read_reply(&mut self.asking))
    }

    /// Returns the time of the server's start, by its own clock, to the second.
    pub(crate) fn started_ms(&mut self) -> u64 {
        send(&mut self.asking, &[vec![b"INFO".to_vec(), b"server".to_vec()]]);
        let told = read_reply(&mut self.asking);
        let told = std::str::from_utf8(&told).unwrap();
        let number = |name| -> u64 {
            told.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse().unwrap()
        };
        (number("server_time_usec:") / 1_000_000 - number("uptime_in_seconds:")) * 1000
    }

    /// Sends all commands in one write, with a TIME before and after each.
    pub(crate) fn execute_timed(&mut self, batch: &[Vec<Vec<u8>>]) -> Vec<Answer> {
        let tick = || vec![b"TIME".to_vec()];
        let mut all = vec![tick()];
        for command in batch {
            all.extend([command.clone(), tick()]);
        }
        send(&mut self.asking, &all);
        let mut from_ms = time(&read_reply(&mut self.asking));
        let mut answers = Vec::new();
        for _ in batch {
            let reply = read_reply(&mut self.asking);
            let to_ms = time(&read_reply(&mut self.asking));
            answers.push(Answer { from_ms, to_ms, reply });
            from_ms = to_ms;
        }
        answers
    }

    /// Returns all data of the server.
    pub(crate) fn dump(&mut self) -> State {
        let answers = self.execute_timed(&[dump::command()]);
        dump::read(&answers[0])
    }

    /// Returns the messages since the last call, as bytes.
    pub(crate) fn heard(&mut self) -> Vec<Vec<u8>> {
        send(&mut self.listening, &[vec![b"PING".to_vec()]]);
        let mut heard = Vec::new();
        loop {
            let frame = read_reply(&mut self.listening);
            if frame.starts_with(b"*2\r\n$4\r\npong") {
                return heard;
            }
            heard.push(frame);
        }
    }
}

fn send(stream: &mut BufReader<TcpStream>, commands: &[Vec<Vec<u8>>]) {
    let mut bytes = Vec::new();
    for command in commands {
        bytes.extend(format!("*{}\r\n", command.len()).into_bytes());
        for word in command {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    stream.get_mut().write_all(&bytes).unwrap();
}

/// Reads the bytes of one whole reply.
fn read_reply(stream: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut bytes = Vec::new();
    read_into(stream, &mut bytes);
    bytes
}

fn read_into(stream: &mut BufReader<TcpStream>, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    assert!(stream.read_until(b'\n', bytes).unwrap() > 0, "the server closed the connection");
    let kind = bytes[start];
    if !matches!(kind, b'$' | b'*') {
        return;
    }
    let line = std::str::from_utf8(&bytes[start + 1..]).unwrap();
    let length: i64 = line.trim().parse().unwrap();
    if kind == b'$' && length >= 0 {
        let end = bytes.len();
        bytes.resize(end + length as usize + 2, 0);
        stream.read_exact(&mut bytes[end..]).unwrap();
    }
    if kind == b'*' {
        (0..length.max(0)).for_each(|_| read_into(stream, bytes));
    }
}

fn time(reply: &[u8]) -> u64 {
    let text = std::str::from_utf8(reply).unwrap();
    let lines: Vec<u64> = text.split("\r\n").filter_map(|line| line.parse().ok()).collect();
    lines[0] * 1000 + lines[1] / 1000
}
