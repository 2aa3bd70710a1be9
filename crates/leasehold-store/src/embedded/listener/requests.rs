//! What comes in over a connection.
//!
//! Invariant: bytes that are no request give an error once, and then the end.
//! Called by: [`serve`](super::serve).

use combine::parser::combinator::AnySendSyncPartialState;
use combine::stream::PointerOffset;
use combine::stream::decoder::Decoder;
use redis::{ErrorKind, Value};
use tokio::io::AsyncRead;

/// What a peer sent.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    /// A command; none in it means that there is nothing to do.
    Command(Vec<Vec<u8>>),
    /// Something that is no request; the text says why.
    Broken(String),
    /// Nothing more.
    Ended,
}

/// Reads requests one after the other.
pub(super) struct Requests<R> {
    decoder: Decoder<AnySendSyncPartialState, PointerOffset<[u8]>>,
    input: R,
}

impl<R: AsyncRead + Unpin> Requests<R> {
    pub(super) fn new(input: R) -> Self {
        Self { decoder: Decoder::default(), input }
    }

    /// The next request, and the rest.
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
        // Redis would take these for a command in a line of plain text.
        _ => Request::Broken("ERR Protocol error: expected an array of bulk strings".to_owned()),
    }
}

/// The byte that a value begins with.
const fn mark(value: &Value) -> char {
    match value {
        Value::Int(_) => ':',
        Value::Array(_) => '*',
        Value::SimpleString(_) | Value::Okay => '+',
        Value::ServerError(_) => '-',
        _ => '$',
    }
}
