//! A connection's decoder: it turns bytes, however they are split, into values.
//!
//! Invariant: this is the client's only file that names the crate that reads RESP. That crate gets whole values within
//! the bounds of `framing`, so its own limits are never reached, and it reads each byte once.

use bytes::{Bytes, BytesMut};
use resp_rs::resp3::{Frame, parse_frame};

use super::framing::Framing;
use super::value::Value;
use crate::redis::breach::{Breach, MAP_MAX};

/// The capacity above which an empty buffer is given back, so that one long reply does not keep its memory for good.
const KEPT_MAX: usize = 64 << 10;

/// The decoder of one connection.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    framing: Framing,
    /// The bytes of the value that is not complete yet. The memory of complete values is used again when they are gone.
    buffer: BytesMut,
}

impl Decoder {
    /// Accepts values of RESP3, or refuses them, from now on.
    pub(super) const fn accept_resp3(&mut self, resp3: bool) {
        self.framing.accept_resp3(resp3);
    }

    /// Accepts the map of any cluster from now on, which is larger than all other replies.
    pub(super) const fn accept_maps(&mut self) {
        self.framing.accept_up_to(MAP_MAX);
    }

    /// Returns true if a reply has begun, and no push.
    pub(super) fn is_within_reply(&self) -> bool {
        !self.framing.is_between() && self.buffer.first() != Some(&b'>')
    }

    /// Takes bytes up to the end of a value off the beginning of `bytes`, and returns that value, or `None` when the
    /// value goes on behind the bytes.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Value>, Breach> {
        let end = self.framing.follow(bytes)?;
        let (taken, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        *bytes = rest;
        self.buffer.extend_from_slice(taken);
        if end.is_none() {
            return Ok(None);
        }
        let whole = self.buffer.split().freeze();
        if self.buffer.capacity() > KEPT_MAX {
            self.buffer = BytesMut::new();
        }
        let length = whole.len();
        match parse_frame(whole) {
            Ok((frame, rest)) if rest.is_empty() => Ok(Some(read(frame))),
            // The decoder and the framing disagree about this value, and so about every value behind it.
            Ok(_) | Err(_) => {
                debug_assert!(length > 0, "a value has bytes");
                Err(Breach::Protocol)
            }
        }
    }
}

fn read(frame: Frame) -> Value {
    match frame {
        Frame::SimpleString(text) | Frame::BulkString(Some(text)) => Value::Text(text),
        Frame::VerbatimString { payload } => Value::Text(without_format(&payload)),
        Frame::Integer(number) => Value::Int(number),
        Frame::Error(text) | Frame::BlobError(text) => Value::Error(text),
        Frame::BulkString(None) | Frame::Array(None) | Frame::Null => Value::Nil,
        Frame::Array(Some(items)) | Frame::Set(items) => Value::Array(values(items)),
        Frame::Map(pairs) => {
            Value::Array(pairs.into_iter().flat_map(|(key, value)| [read(key), read(value)]).collect())
        }
        Frame::Push(items) => Value::Push(values(items)),
        _ => Value::Other,
    }
}

fn values(items: Vec<Frame>) -> Vec<Value> {
    items.into_iter().map(read).collect()
}

/// Removes the three letters and the colon that name the format of a verbatim string.
fn without_format(payload: &Bytes) -> Bytes {
    payload.slice(payload.len().min(4)..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a stream of RESP3 in pieces of this size.
    fn decode(bytes: &[u8], size: usize) -> Result<Vec<Value>, Breach> {
        let mut decoder = Decoder::default();
        decoder.accept_resp3(true);
        let mut values = Vec::new();
        for mut piece in bytes.chunks(size) {
            while let Some(value) = decoder.next(&mut piece)? {
                values.push(value);
            }
        }
        Ok(values)
    }

    fn text(text: &'static str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn both_protocols_give_the_same_values_wherever_the_stream_is_cut() {
        let resp2 =
            b"$-1\r\n*-1\r\n:-7\r\n+OK\r\n$2\r\nab\r\n-ERR no\r\n*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*0\r\n\
                      $8\r\na:1\r\nb:2\r\n";
        let resp3 =
            b"_\r\n_\r\n:-7\r\n+OK\r\n$2\r\nab\r\n!6\r\nERR no\r\n%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n~0\r\n\
                      =12\r\ntxt:a:1\r\nb:2\r\n";
        let map = Value::Array(vec![text("a"), Value::Int(1), text("b"), Value::Array(Vec::new())]);
        let error = Value::Error("ERR no".into());
        let expected = vec![
            Value::Nil,
            Value::Nil,
            Value::Int(-7),
            text("OK"),
            text("ab"),
            error,
            map,
            text("a:1\r\nb:2"),
        ];
        for bytes in [&resp2[..], resp3] {
            for size in 1..=bytes.len() {
                assert_eq!(decode(bytes, size).as_ref(), Ok(&expected), "by {size}");
            }
        }
    }

    #[test]
    fn pushes_and_values_that_no_command_returns_are_told_apart() {
        let values = decode(b">2\r\n+message\r\n:1\r\n,1.5\r\n#t\r\n(12345\r\n", 3).unwrap();
        let push = Value::Push(vec![text("message"), Value::Int(1)]);
        assert_eq!(values, [push, Value::Other, Value::Other, Value::Other]);
    }

    #[test]
    fn lines_that_only_the_framing_accepts_end_the_stream() {
        for bytes in
            [&b":\r\n"[..], b"$\r\n\r\n", b"*\r\n", b":-\r\n", b":9223372036854775808\r\n", b"=2\r\nab\r\n"]
        {
            assert_eq!(
                decode(bytes, bytes.len()),
                Err(Breach::Protocol),
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn a_large_value_leaves_no_memory_behind() {
        let mut decoder = Decoder::default();
        let mut bytes: &[u8] = &[&b"$1000000\r\n"[..], &[b'x'; 1_000_000], b"\r\n"].concat();
        assert!(matches!(decoder.next(&mut bytes), Ok(Some(Value::Text(text))) if text.len() == 1_000_000));
        assert!(decoder.buffer.capacity() <= KEPT_MAX);
    }

    proptest! {
        #[test]
        fn any_bytes_give_the_same_values_in_any_pieces(
            bytes in prop::collection::vec(prop::sample::select(&b"+-:$*%>_#,(=!~|;.\r\n0123xtf"[..]), 0..80),
        ) {
            let whole = decode(&bytes, bytes.len().max(1));
            for size in 1..4 {
                prop_assert_eq!(&decode(&bytes, size), &whole);
            }
        }
    }
}
