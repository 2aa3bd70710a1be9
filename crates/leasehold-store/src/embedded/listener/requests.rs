//! The requests of one connection.
//!
//! Invariant: bytes that are no request give an error once, and then the end.

use combine::parser::combinator::AnySendSyncPartialState;
use combine::stream::PointerOffset;
use combine::stream::decoder::Decoder;
use redis::{ErrorKind, Value};
use tokio::io::AsyncRead;

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
    decoder: Decoder<AnySendSyncPartialState, PointerOffset<[u8]>>,
    input: R,
}

impl<R: AsyncRead + Unpin> Requests<R> {
    pub(super) fn new(input: R) -> Self {
        Self { decoder: Decoder::default(), input }
    }

    /// Reads the next request, and returns it with the reader.
    pub(super) async fn next(mut self) -> (Self, Request) {
        let request = match redis::parse_redis_value_async(&mut self.decoder, &mut self.input).await {
            Ok(value) => read(value),
            Err(error) if error.kind() == ErrorKind::Parse => {
                Request::Broken("ERR Protocol error: invalid request".to_owned())
            }
            Err(_) => Request::Ended,
        };
        (self, request)
    }
}

fn read(value: Value) -> Request {
    match value {
        Value::Nil => Request::Command(Vec::new()),
        Value::Array(words) => {
            let words = words.into_iter().map(|word| match word {
                Value::BulkString(bytes) => Ok(bytes),
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
const fn mark(value: &Value) -> char {
    match value {
        Value::Int(_) => ':',
        Value::Array(_) => '*',
        Value::SimpleString(_) | Value::Okay => '+',
        Value::ServerError(_) => '-',
        _ => '$',
    }
}
