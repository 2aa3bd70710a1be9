//! Bounds on the bytes of a server, checked before the parser sees them.
//!
//! Invariant: a byte that reaches the parser belongs to a RESP2 reply within the bounds. On a command connection that
//! reply answers a command that was written.
//!
//! # How it works
//! The parser of the Redis client trusts each length that a server announces, and gathers bytes until it has them. A
//! [`Framing`] follows lengths and line ends and keeps none of the content, so it refuses a reply at the header that
//! announces too much. A second framing counts the written commands. The client would take a reply without a command
//! for the answer to the next command, and every later answer would go to the wrong caller.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::Socket;

/// The largest reply or message, in bytes. A lock's replies have less than a hundred.
const REPLY_MAX: usize = 1 << 20;
/// The size of an announced array item before its first byte has come, because the parser reserves memory for the item.
const ITEM: usize = 64;
/// The longest line of text, in bytes: errors and simple strings.
const LINE_MAX: usize = 16 << 10;
/// The longest line with a number: the digits of an `i64` and its sign.
const NUMBER_MAX: usize = 20;
/// The deepest nesting of arrays. The deepest reply to a command of this client is that of HELLO, with four levels.
const DEPTH_MAX: usize = 8;

/// A violation of the protocol that no Redis commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Breach {
    #[error("a web server answers on this port")]
    Http,
    #[error("the server speaks TLS, which is not supported yet")]
    Tls,
    #[error("the reply does not follow the Redis protocol")]
    Protocol,
    #[error("the reply exceeds {REPLY_MAX} bytes, a line of {LINE_MAX} bytes or a depth of {DEPTH_MAX}")]
    TooLarge,
    #[error("the server sent a reply without a command")]
    Unasked,
}

/// The first breach on a stream, for readers that see only the end of the stream.
pub(super) type FirstBreach = Arc<OnceLock<Breach>>;

/// A stream to a server that ends with an error when the server exceeds the bounds.
pub(super) struct Bounded {
    stream: Socket,
    incoming: Framing,
    outgoing: Framing,
    /// True if each reply must have its command. Messages have no command.
    answers_only: bool,
    breach: FirstBreach,
}

impl Bounded {
    pub(super) fn over(stream: Socket) -> Self {
        Self {
            stream,
            incoming: Framing::default(),
            outgoing: Framing::default(),
            answers_only: false,
            breach: FirstBreach::default(),
        }
    }

    pub(super) fn breach(&self) -> FirstBreach {
        Arc::clone(&self.breach)
    }

    /// Accepts only replies to commands from now on. Refuses a stream that has received more or fewer replies than it
    /// has sent commands, because its next reply would go to the wrong caller.
    pub(super) fn answers_only(mut self) -> Result<Self, Breach> {
        if self.outgoing.complete != self.incoming.complete || !self.incoming.is_between() {
            return Err(Breach::Unasked);
        }
        self.answers_only = true;
        Ok(self)
    }

    fn check(&mut self, arrived: &[u8]) -> Result<(), Breach> {
        self.incoming.follow(arrived)?;
        let replies = self.incoming.complete + u64::from(!self.incoming.is_between());
        if self.answers_only && replies > self.outgoing.complete {
            return Err(Breach::Unasked);
        }
        Ok(())
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(self.stream.as_mut().poll_read(cx, buf))?;
        let Err(breach) = self.check(&buf.filled()[before..]) else {
            return Poll::Ready(Ok(()));
        };
        buf.set_filled(before);
        let first = *self.breach.get_or_init(|| breach);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, first)))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(self.stream.as_mut().poll_write(cx, bytes))?;
        // The framing of commands equals that of replies. Our commands obey the bounds of a server, not the bounds of a
        // reply.
        let _ = self.outgoing.follow_unbounded(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }
}

/// The position in a stream of RESP2 values.
#[derive(Default)]
struct Framing {
    place: Place,
    /// The number of items that each open array still lacks, of which the first `depth` count.
    open: [usize; DEPTH_MAX],
    depth: usize,
    /// The size that the current value has announced so far.
    size: usize,
    /// The number of complete values.
    complete: u64,
}

/// The next byte's place in a value.
#[derive(Clone, Copy, Default)]
enum Place {
    /// The byte that determines the kind of the following value.
    #[default]
    Kind,
    Line(Line),
    /// A bulk string or its line end, with this number of bytes left.
    Bulk(usize),
}

/// A line that has begun.
#[derive(Clone, Copy)]
struct Line {
    kind: u8,
    length: usize,
    /// True if the last byte was a carriage return.
    ending: bool,
    negative: bool,
    number: usize,
}

impl Framing {
    /// Returns true if the last value is complete and the next value has not begun.
    fn is_between(&self) -> bool {
        self.depth == 0 && matches!(self.place, Place::Kind)
    }

    /// Follows a server's bytes.
    fn follow(&mut self, bytes: &[u8]) -> Result<(), Breach> {
        self.advance(bytes, REPLY_MAX)
    }

    /// Follows our own bytes.
    fn follow_unbounded(&mut self, bytes: &[u8]) -> Result<(), Breach> {
        self.advance(bytes, usize::MAX)
    }

    fn advance(&mut self, mut bytes: &[u8], size_max: usize) -> Result<(), Breach> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match &mut self.place {
                Place::Kind => {
                    self.place = Place::Line(Line::begin(byte).ok_or_else(|| foreign_server(bytes))?);
                    self.grow(1, size_max)?;
                    bytes = rest;
                }
                Place::Line(line) => {
                    let ended = line.take(byte)?;
                    let line = *line;
                    self.grow(1, size_max)?;
                    if ended {
                        self.end_line(line, size_max)?;
                    }
                    bytes = rest;
                }
                Place::Bulk(left) => {
                    let taken = bytes.len().min(*left);
                    *left -= taken;
                    if *left == 0 {
                        self.end_value();
                    }
                    bytes = &bytes[taken..];
                }
            }
        }
        Ok(())
    }

    fn grow(&mut self, by: usize, size_max: usize) -> Result<(), Breach> {
        self.size = self.size.saturating_add(by);
        if self.size > size_max { Err(Breach::TooLarge) } else { Ok(()) }
    }

    fn end_line(&mut self, line: Line, size_max: usize) -> Result<(), Breach> {
        match (line.kind, line.announced()?) {
            (b'$', Some(length)) => {
                self.grow(length, size_max)?;
                self.place = Place::Bulk(length.saturating_add(2));
            }
            (b'*', Some(items @ 1..)) => {
                self.grow(items.saturating_mul(ITEM), size_max)?;
                *self.open.get_mut(self.depth).ok_or(Breach::TooLarge)? = items;
                self.depth += 1;
                self.place = Place::Kind;
            }
            _ => self.end_value(),
        }
        Ok(())
    }

    fn end_value(&mut self) {
        self.place = Place::Kind;
        while let Some(innermost) = self.depth.checked_sub(1) {
            self.open[innermost] -= 1;
            if self.open[innermost] > 0 {
                return;
            }
            self.depth = innermost;
        }
        self.size = 0;
        self.complete += 1;
    }
}

impl Line {
    fn begin(kind: u8) -> Option<Self> {
        let known = matches!(kind, b'+' | b'-' | b':' | b'$' | b'*');
        known.then_some(Self { kind, length: 0, ending: false, negative: false, number: 0 })
    }

    fn is_text(self) -> bool {
        matches!(self.kind, b'+' | b'-')
    }

    /// Takes the next byte and returns true if it ends the line.
    fn take(&mut self, byte: u8) -> Result<bool, Breach> {
        if self.ending && byte == b'\n' {
            return Ok(true);
        }
        if self.ending && !self.is_text() {
            return Err(Breach::Protocol);
        }
        self.ending = byte == b'\r';
        self.length += 1;
        match byte {
            _ if self.is_text() => {
                return if self.length > LINE_MAX { Err(Breach::TooLarge) } else { Ok(false) };
            }
            b'\r' => {}
            b'-' if self.length == 1 => self.negative = true,
            b'0'..=b'9' if self.length <= NUMBER_MAX => {
                self.number = self.number.saturating_mul(10).saturating_add(usize::from(byte - b'0'));
            }
            _ => return Err(Breach::Protocol),
        }
        Ok(false)
    }

    /// Returns the length that the line announces, or `None` for a null, which announces no length.
    fn announced(self) -> Result<Option<usize>, Breach> {
        match (self.kind, self.negative, self.number) {
            (b'$' | b'*', false, length) => Ok(Some(length)),
            (b'$' | b'*', true, length) if length != 1 => Err(Breach::Protocol),
            _ => Ok(None),
        }
    }
}

/// Identifies a server by bytes that it sent in place of a value.
fn foreign_server(bytes: &[u8]) -> Breach {
    match bytes {
        [b'H', b'T', b'T', b'P', ..] => Breach::Http,
        // An alert or a handshake of TLS 1.0 to 1.3.
        [0x15 | 0x16, 3, ..] => Breach::Tls,
        _ => Breach::Protocol,
    }
}

#[cfg(test)]
mod tests;
