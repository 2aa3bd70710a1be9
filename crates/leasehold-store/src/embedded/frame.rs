//! A reply in Redis's protocol (RESP2).
//!
//! Invariant: [`Frame::encode`] writes one whole reply, whatever its content, because a status or an error never
//! contains a line ending.

/// One reply.
///
/// Strings are bytes. A status and an error are text. Bytes that are not text, which only a script or a nonsensical
/// command can put there, are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// A status such as `OK`.
    Simple(String),
    /// An error, beginning with its code.
    Error(String),
    /// An integer.
    Int(i64),
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// The missing string, `$-1`.
    Nil,
    /// The missing array, `*-1`.
    NilArray,
    /// Replies in a row.
    Array(Vec<Frame>),
}

impl Frame {
    /// Returns the status `OK`.
    #[must_use]
    pub fn ok() -> Self {
        Self::Simple("OK".to_owned())
    }

    /// Returns a string of bytes.
    pub fn bulk(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bulk(bytes.into())
    }

    /// Returns true if the reply is an error.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Returns the reply as bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_into(&mut bytes);
        bytes
    }

    /// Returns the reply as bytes of RESP3, in which both missing values are one. A reply of a data command keeps the
    /// form that it has in RESP2.
    #[must_use]
    pub fn encode_resp3(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_resp3_into(&mut bytes);
        bytes
    }

    fn encode_resp3_into(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nil | Self::NilArray => out.extend_from_slice(b"_\r\n"),
            Self::Array(items) => {
                line(out, b'*', items.len().to_string().as_bytes());
                items.iter().for_each(|item| item.encode_resp3_into(out));
            }
            other => other.encode_into(out),
        }
    }

    /// Appends the reply as bytes on the wire.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        match self {
            Self::Simple(text) => line(out, b'+', one_line(text).as_bytes()),
            Self::Error(text) => line(out, b'-', one_line(text).as_bytes()),
            Self::Int(number) => line(out, b':', number.to_string().as_bytes()),
            Self::Bulk(bytes) => {
                line(out, b'$', bytes.len().to_string().as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Nil => out.extend_from_slice(b"$-1\r\n"),
            Self::NilArray => out.extend_from_slice(b"*-1\r\n"),
            Self::Array(items) => {
                line(out, b'*', items.len().to_string().as_bytes());
                for item in items {
                    item.encode_into(out);
                }
            }
        }
    }
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Returns a text as a status or an error carries it, with spaces for line endings.
pub(super) fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_kind_has_its_encoding() {
        let frame = Frame::Array(vec![
            Frame::ok(),
            Frame::Error("ERR no\r\nline".to_owned()),
            Frame::Int(-7),
            Frame::bulk("a\r\nb"),
            Frame::Nil,
            Frame::NilArray,
            Frame::Array(Vec::new()),
        ]);
        let expected = "*7\r\n+OK\r\n-ERR no  line\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*-1\r\n*0\r\n";
        assert_eq!(String::from_utf8(frame.encode()).unwrap(), expected);
    }
}
