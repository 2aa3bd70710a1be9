//! The requests of one connection.
//!
//! Invariant: bytes that are no request give an error once, and then the end.

use bytes::Bytes;
use resp_rs::resp2::{Frame, Parser};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The size of a read.
const READ: usize = 4096;

/// An input of a peer.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    /// A command. If it is empty, there is nothing to do.
    Command(Vec<Vec<u8>>),
    /// Bytes that are no request. The text gives the reason.
    Broken(String),
    /// The end of the stream.
    Ended,
}

/// A reader of requests, one after the other.
pub(super) struct Requests<R> {
    parser: Parser,
    input: R,
}

impl<R: AsyncRead + Unpin> Requests<R> {
    pub(super) fn new(input: R) -> Self {
        Self { parser: Parser::new(), input }
    }

    /// Reads the next request, and returns it with the reader.
    pub(super) async fn next(mut self) -> (Self, Request) {
        let mut arrived = [0; READ];
        let request = loop {
            if let Some(request) = next_request(&mut self.parser) {
                break request;
            }
            match self.input.read(&mut arrived).await {
                Ok(count @ 1..) => self.parser.feed(Bytes::copy_from_slice(&arrived[..count])),
                Ok(0) | Err(_) => break Request::Ended,
            }
        };
        (self, request)
    }
}

/// Returns the next request of the bytes that were fed, or `None` if they are no whole request.
pub(super) fn next_request(parser: &mut Parser) -> Option<Request> {
    match parser.next_frame() {
        Ok(frame) => frame.map(read),
        Err(_) => Some(Request::Broken("ERR Protocol error: invalid request".to_owned())),
    }
}

fn read(frame: Frame) -> Request {
    match frame {
        Frame::BulkString(None) | Frame::Array(None) => Request::Command(Vec::new()),
        Frame::Array(Some(words)) => {
            let words = words.into_iter().map(|word| match word {
                Frame::BulkString(Some(bytes)) => Ok(bytes.into()),
                other => Err(mark(&other)),
            });
            match words.collect() {
                Ok(words) => Request::Command(words),
                Err(mark) => Request::Broken(format!("ERR Protocol error: expected '$', got '{mark}'")),
            }
        }
        // Redis would take these bytes for a command in a line of plain text.
        _ => Request::Broken("ERR Protocol error: expected an array of bulk strings".to_owned()),
    }
}

/// Returns the first byte of an encoded value.
const fn mark(frame: &Frame) -> char {
    match frame {
        Frame::Integer(_) => ':',
        Frame::Array(_) => '*',
        Frame::SimpleString(_) => '+',
        Frame::Error(_) => '-',
        _ => '$',
    }
}
