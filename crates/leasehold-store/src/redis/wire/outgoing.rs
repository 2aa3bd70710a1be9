//! A connection's output buffer: the bytes that its stream has not taken yet.
//!
//! Invariant: the stream gets all bytes once and in order. The driver is told once, when an empty buffer gets bytes.

use std::fmt;

use super::ids::ConnId;
use super::io::Output;
use super::server::Step;

/// The capacity above which an empty buffer is given back, so that one busy moment does not keep its memory for good.
const KEPT_MAX: usize = 64 << 10;

/// The unwritten bytes of one connection.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
    /// The number of bytes that the stream has taken since its opening.
    total: u64,
    is_announced: bool,
}

impl fmt::Debug for Outgoing {
    /// Writes the number of bytes, which may be a login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("unwritten", &self.unwritten().len()).finish_non_exhaustive()
    }
}

impl Outgoing {
    /// Returns the buffer, to which the caller appends whole commands.
    pub(super) const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn unwritten(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    /// Returns the place in the stream behind the last byte of the buffer.
    pub(super) fn end(&self) -> u64 {
        self.total + self.unwritten().len() as u64
    }

    /// Returns the number of bytes that the stream has taken.
    pub(super) const fn written(&self) -> u64 {
        self.total
    }

    /// Tells the driver that the connection has bytes, unless it knows.
    pub(super) fn announce(&mut self, step: &mut Step<'_>, id: ConnId) {
        if self.is_news() {
            step.output(Output::Write(id));
        }
    }

    const fn is_news(&mut self) -> bool {
        let is_news = !self.is_empty() && !self.is_announced;
        self.is_announced |= is_news;
        is_news
    }

    /// Removes the bytes that the stream has taken.
    pub(super) fn wrote(&mut self, count: usize) {
        debug_assert!(self.written + count <= self.bytes.len(), "the stream takes only bytes that are there");
        let before = self.written;
        self.written = (self.written + count).min(self.bytes.len());
        self.total += (self.written - before) as u64;
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_MAX);
            self.written = 0;
            self.is_announced = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_announced_once_and_written_in_order() {
        let mut outgoing = Outgoing::default();
        assert!(!outgoing.is_news());
        outgoing.buffer().extend(b"abc");
        assert!(outgoing.is_news() && !outgoing.is_news());
        outgoing.wrote(2);
        outgoing.buffer().extend(b"de");
        assert!(!outgoing.is_news(), "the driver still writes");
        assert_eq!(outgoing.unwritten(), b"cde");
        assert_eq!((outgoing.written(), outgoing.end()), (2, 5));
        outgoing.wrote(3);
        assert_eq!((outgoing.written(), outgoing.end()), (5, 5));
        assert!(outgoing.is_empty() && !outgoing.is_news());
        outgoing.buffer().extend(b"f");
        assert!(outgoing.is_news());
        assert_eq!(outgoing.unwritten(), b"f");
    }

    #[test]
    fn a_large_buffer_is_given_back() {
        let mut outgoing = Outgoing::default();
        outgoing.buffer().resize(1 << 20, 0);
        outgoing.wrote(1 << 20);
        assert!(outgoing.bytes.capacity() <= KEPT_MAX);
    }
}
