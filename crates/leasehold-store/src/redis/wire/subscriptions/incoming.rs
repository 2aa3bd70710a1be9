//! Sorts what arrives on a subscription connection: answers, messages, and ends of subscriptions.

use bytes::Bytes;

use crate::redis::error::Failure;
use crate::redis::wire::value::{Value, malformed, server_error};

/// A value from the server.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The answer to the oldest pending command.
    Answer(Result<(), Failure>),
    /// The answer to a login that was taken.
    LoggedIn,
    /// The end of a subscription, on request of the oldest command, or because the node does not serve the channel any
    /// more.
    Left { channel: Bytes },
    /// A message.
    Message { channel: Bytes, payload: Bytes },
}

impl Incoming {
    /// Reads a value. RESP2 sends answers and messages as arrays, and RESP3 as pushes.
    pub(super) fn read(value: Value) -> Result<Self, Failure> {
        let mut parts = match value {
            Value::Array(parts) | Value::Push(parts) => parts.into_iter(),
            Value::Error(text) => return Ok(Self::Answer(Err(server_error(&text)))),
            value if value.is_text("PONG") => return Ok(Self::Answer(Ok(()))),
            value if value.is_text("OK") => return Ok(Self::LoggedIn),
            _ => return Err(malformed()),
        };
        let Some(Value::Text(kind)) = parts.next() else { return Err(malformed()) };
        match (&*kind, parts.next(), parts.next()) {
            (b"subscribe" | b"ssubscribe" | b"pong", ..) => Ok(Self::Answer(Ok(()))),
            (b"unsubscribe" | b"sunsubscribe", Some(Value::Text(channel)), _) => Ok(Self::Left { channel }),
            (b"message" | b"smessage", Some(Value::Text(channel)), Some(Value::Text(payload))) => {
                Ok(Self::Message { channel, payload })
            }
            _ => Err(malformed()),
        }
    }
}
