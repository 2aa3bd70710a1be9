//! A minimal HTTP/1.1 client: one request per connection.
//!
//! Invariant: a missing answer is an error after a minute.

use std::io::{Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The answer of the service.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    /// Returns true if the JSON body has this field with this value.
    pub(crate) fn has_field(&self, field: &str, value: &str) -> bool {
        self.body.contains(&format!("\"{field}\":{value}"))
    }
}

/// Sends a request and reads the answer to its end.
pub(crate) fn ask(at: SocketAddr, method: &str, path: &str, body: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| std::io::Error::other(format!("not an answer: {answer:?}")))
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}
