//! A minimal client of the Redis protocol, with one request at a time. The kit must not depend on the client under
//! test.
//!
//! Invariant: one request has one reply. A failed connection is not used again.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::reply::Reply;

/// The time limit for one answer of a running server.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A blocking connection to a server on the loopback interface.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
}

impl Wire {
    /// Connects, and logs in with the password if there is one. No call on the connection takes longer than `timeout`.
    pub(crate) fn open(port: u16, password: Option<&str>, timeout: Duration) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut wire = Self { stream: BufReader::new(stream) };
        if let Some(password) = password {
            wire.send_command(&["AUTH", password])?;
        }
        Ok(wire)
    }

    /// Sends a command and returns its reply as text, or an error for an error reply.
    pub(crate) fn send_command(&mut self, command: &[&str]) -> io::Result<String> {
        match self.request(command)? {
            Reply::Text(text) => Ok(text),
            Reply::Integer(number) => Ok(number.to_string()),
            other => Err(io::Error::other(format!("not a simple reply: {other:?}"))),
        }
    }

    /// Sends a command and returns its reply, or an error for an error reply.
    pub(crate) fn request(&mut self, command: &[&str]) -> io::Result<Reply> {
        self.stream.get_mut().write_all(&encode(command))?;
        self.read_reply()
    }

    /// Sends commands in one write, and returns an error if one of their replies is one.
    pub(crate) fn request_all(&mut self, commands: &[Vec<&str>]) -> io::Result<()> {
        let requests: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
        self.stream.get_mut().write_all(&requests)?;
        commands.iter().try_for_each(|_| self.read_reply().map(drop))
    }

    /// Returns the next line, without its ending, or an error at the end of the stream.
    pub(crate) fn read_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Returns a second handle of the socket, to end a blocked read from another thread.
    pub(crate) fn socket(&self) -> io::Result<TcpStream> {
        self.stream.get_ref().try_clone()
    }

    fn read_reply(&mut self) -> io::Result<Reply> {
        let line = self.read_line()?;
        let rest = line.get(1..).unwrap_or_default();
        let number = || rest.parse::<i64>().map_err(|_| io::Error::other(format!("not a number: {line}")));
        match line.as_bytes().first() {
            Some(b'+') => Ok(Reply::Text(rest.to_owned())),
            Some(b':') => Ok(Reply::Integer(number()?)),
            Some(b'-') => Err(io::Error::other(rest.to_owned())),
            Some(b'$') => {
                let Ok(length) = usize::try_from(number()?) else { return Ok(Reply::Nil) };
                let mut text = vec![0; length + 2];
                self.stream.read_exact(&mut text)?;
                text.truncate(length);
                Ok(Reply::Text(String::from_utf8_lossy(&text).into_owned()))
            }
            Some(b'*') => {
                let Ok(length) = usize::try_from(number()?) else { return Ok(Reply::Nil) };
                (0..length).map(|_| self.read_reply()).collect::<io::Result<_>>().map(Reply::Array)
            }
            _ => Err(io::Error::other(format!("not a reply: {line}"))),
        }
    }
}

fn encode(command: &[&str]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    request
}
