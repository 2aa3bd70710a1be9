//! A server's values, the same for RESP2 and RESP3, and their meaning as script replies.

use bytes::Bytes;
use leasehold_proto::{Applied, Reply, StoreErrorKind};

use crate::redis::error::Failure;

/// A value of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Nil,
    Int(i64),
    /// A simple, bulk or verbatim string.
    Text(Bytes),
    /// The text of an error.
    Error(Bytes),
    /// An array, a set, or the keys and values of a map.
    Array(Vec<Value>),
    /// A value that no command requested. Only RESP3 tells it from a reply.
    Push(Vec<Value>),
    /// A value that no command of this client returns.
    Other,
}

impl Value {
    /// Returns true if the value is a string of these bytes.
    pub(super) fn is_text(&self, expected: &str) -> bool {
        matches!(self, Self::Text(text) if text == expected.as_bytes())
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    pub(super) const fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the value of a key, if the value is a map, or a list of keys and values.
    pub(super) fn member(&self, key: &str) -> Option<&Self> {
        let Self::Array(parts) = self else { return None };
        parts.chunks_exact(2).find(|pair| pair[0].is_text(key)).map(|pair| &pair[1])
    }

    /// Returns the text of a key, if the value is a map, or a list of keys and values.
    pub(super) fn field(&self, key: &str) -> Option<&str> {
        self.member(key)?.text()
    }

    /// Converts the reply of a script.
    pub(super) fn into_reply(self) -> Result<Reply, Failure> {
        match self {
            Self::Nil => Ok(Reply::Nil),
            Self::Int(number) => Ok(Reply::Int(number)),
            Self::Text(text) => Ok(Reply::Text(text.into())),
            Self::Array(values) => {
                Ok(Reply::Array(values.into_iter().map(Self::into_reply).collect::<Result<_, _>>()?))
            }
            Self::Error(text) => Err(server_error(&text)),
            Self::Push(_) | Self::Other => Err(malformed()),
        }
    }
}

/// Returns the failure that an error's text means.
pub(super) fn server_error(text: &[u8]) -> Failure {
    Failure::server_error(&String::from_utf8_lossy(text))
}

/// Returns the failure for a reply that the command cannot give. The failure does not keep the reply's text.
pub(super) const fn malformed() -> Failure {
    Failure::new(StoreErrorKind::Malformed, Applied::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn a_scripts_reply_keeps_its_shape() {
        let nested = Value::Array(vec![Value::Int(1), text("two"), Value::Array(vec![Value::Nil])]);
        let items = vec![Reply::Int(1), Reply::Text(b"two".to_vec()), Reply::Array(vec![Reply::Nil])];
        assert_eq!(nested.into_reply().unwrap(), Reply::Array(items));
    }

    #[test]
    fn errors_and_impossible_values_are_failures_at_any_depth() {
        let error = Value::Error("WRONGTYPE Operation against a key".into());
        for (value, kind) in [
            (error.clone(), StoreErrorKind::WrongType),
            (Value::Array(vec![Value::Int(1), error]), StoreErrorKind::WrongType),
            (Value::Error((&b"LOADING \xff"[..]).into()), StoreErrorKind::Loading),
            (Value::Other, StoreErrorKind::Malformed),
            (Value::Array(vec![Value::Push(Vec::new())]), StoreErrorKind::Malformed),
        ] {
            assert_eq!(value.into_reply().unwrap_err().kind, kind);
        }
    }
}
