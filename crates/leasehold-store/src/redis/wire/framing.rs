//! Finds where each value of a RESP2 or RESP3 stream ends, and refuses values that exceed the bounds.
//!
//! Invariant: bytes that this file lets pass belong to a value within the bounds, however the stream is cut.
//!
//! # How it works
//! A framing follows lengths and line ends, and keeps no content. It refuses a value at the header that announces too
//! much, before a decoder reserves memory for it. The decoder sees whole values only, so it never reads the same bytes
//! twice.

use crate::redis::breach::{Breach, DEPTH_MAX, ITEM, LINE_MAX, NUMBER_MAX, REPLY_MAX};

/// The position in a stream of values.
#[derive(Debug)]
pub(super) struct Framing {
    place: Place,
    /// The number of items that each open aggregate still lacks, of which the first `depth` count.
    open: [usize; DEPTH_MAX],
    depth: usize,
    /// The size that the current value has announced so far.
    size: usize,
    /// The size that a value may have.
    size_max: usize,
    /// True if the stream may contain values of RESP3.
    resp3: bool,
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            place: Place::default(),
            open: [0; DEPTH_MAX],
            depth: 0,
            size: 0,
            size_max: REPLY_MAX,
            resp3: false,
        }
    }
}

/// The next byte's place in a value.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// The byte that determines the kind of the following value.
    #[default]
    Kind,
    Line(Line),
    /// A bulk string with this number of bytes left, without its end of line.
    Bulk(usize),
    /// The carriage return and the line feed that end a bulk string.
    Return,
    Feed,
}

/// A line that has begun.
#[derive(Clone, Copy, Debug)]
struct Line {
    kind: u8,
    length: usize,
    /// True if the last byte was a carriage return.
    ending: bool,
    negative: bool,
    number: usize,
}

impl Framing {
    /// Accepts values of RESP3, or refuses them, from now on.
    pub(super) const fn accept_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }

    /// Accepts values up to this size from now on.
    pub(super) const fn accept_up_to(&mut self, size_max: usize) {
        self.size_max = size_max;
    }

    /// Returns true if the last value is complete and the next value has not begun.
    pub(super) const fn is_between(&self) -> bool {
        self.depth == 0 && matches!(self.place, Place::Kind)
    }

    /// Follows the bytes up to the end of a value. Returns the number of bytes up to that end, or `None` if the value
    /// goes on behind these bytes.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Result<Option<usize>, Breach> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let ended = match &mut self.place {
                Place::Kind => {
                    self.begin(byte).ok_or_else(|| Breach::of_foreign(&bytes[at..]))?;
                    self.grow(1)?;
                    at += 1;
                    false
                }
                Place::Line(line) => {
                    let line_ended = line.take(byte)?;
                    let line = *line;
                    self.grow(1)?;
                    at += 1;
                    line_ended && self.end_line(line)?
                }
                Place::Bulk(left) => {
                    let taken = (bytes.len() - at).min(*left);
                    *left -= taken;
                    at += taken;
                    if *left == 0 {
                        self.place = Place::Return;
                    }
                    false
                }
                Place::Return if byte == b'\r' => {
                    self.place = Place::Feed;
                    at += 1;
                    false
                }
                Place::Feed if byte == b'\n' => {
                    at += 1;
                    self.end_value()
                }
                Place::Return | Place::Feed => return Err(Breach::Protocol),
            };
            if ended {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn begin(&mut self, kind: u8) -> Option<()> {
        let known = match kind {
            b'+' | b'-' | b':' | b'$' | b'*' => true,
            b'_' | b'#' | b',' | b'(' | b'=' | b'!' | b'~' | b'%' => self.resp3,
            // A push is a value of its own, and no part of another.
            b'>' => self.resp3 && self.depth == 0,
            _ => false,
        };
        self.place = Place::Line(Line { kind, length: 0, ending: false, negative: false, number: 0 });
        known.then_some(())
    }

    fn grow(&mut self, by: usize) -> Result<(), Breach> {
        self.size = self.size.saturating_add(by);
        if self.size > self.size_max { Err(Breach::TooLarge) } else { Ok(()) }
    }

    /// Ends a line. Returns true if a whole value ends with it.
    fn end_line(&mut self, line: Line) -> Result<bool, Breach> {
        match (line.kind, line.announced()?) {
            (b'$' | b'=' | b'!', Some(length)) => {
                self.grow(length)?;
                self.place = if length == 0 { Place::Return } else { Place::Bulk(length) };
                Ok(false)
            }
            (_, Some(items @ 1..)) => {
                let items = if line.kind == b'%' { items.saturating_mul(2) } else { items };
                self.grow(items.saturating_mul(ITEM))?;
                *self.open.get_mut(self.depth).ok_or(Breach::TooLarge)? = items;
                self.depth += 1;
                self.place = Place::Kind;
                Ok(false)
            }
            _ => Ok(self.end_value()),
        }
    }

    /// Ends a value, and each aggregate that ends with it. Returns true if no aggregate is open then.
    fn end_value(&mut self) -> bool {
        self.place = Place::Kind;
        while let Some(innermost) = self.depth.checked_sub(1) {
            self.open[innermost] -= 1;
            if self.open[innermost] > 0 {
                return false;
            }
            self.depth = innermost;
        }
        self.size = 0;
        true
    }
}

impl Line {
    const fn is_text(self) -> bool {
        matches!(self.kind, b'+' | b'-' | b',' | b'(')
    }

    /// Takes the next byte and returns true if it ends the line.
    fn take(&mut self, byte: u8) -> Result<bool, Breach> {
        if self.ending {
            // The decoder ends a line at the first end of a line, and refuses a part of one.
            return if byte == b'\n' { Ok(true) } else { Err(Breach::Protocol) };
        }
        self.length += 1;
        match byte {
            b'\r' => self.ending = true,
            b'\n' => return Err(Breach::Protocol),
            _ if self.is_text() => {
                return if self.length > LINE_MAX { Err(Breach::TooLarge) } else { Ok(false) };
            }
            b't' | b'f' if self.kind == b'#' && self.length == 1 => {}
            _ if matches!(self.kind, b'#' | b'_') => return Err(Breach::Protocol),
            b'-' if self.length == 1 => self.negative = true,
            b'0'..=b'9' if self.length <= NUMBER_MAX => {
                self.number = self.number.saturating_mul(10).saturating_add((byte - b'0').into());
            }
            _ => return Err(Breach::Protocol),
        }
        Ok(false)
    }

    /// Returns the length that the line announces, or `None` for a null and a line without a length.
    fn announced(self) -> Result<Option<usize>, Breach> {
        let may_be_null = matches!(self.kind, b'$' | b'*');
        match self.kind {
            b'$' | b'*' | b'=' | b'!' | b'~' | b'%' | b'>' => match (self.negative, self.number) {
                (false, length) => Ok(Some(length)),
                (true, 1) if may_be_null => Ok(None),
                (true, _) => Err(Breach::Protocol),
            },
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use proptest::prelude::*;

    use super::*;

    /// Follows the bytes in chunks of this size. Returns the number of values, and whether a next value has begun.
    fn follow(bytes: &[u8], chunk: usize) -> Result<(u64, bool), Breach> {
        let mut framing = Framing::default();
        framing.accept_resp3(true);
        let mut complete = 0;
        for mut part in bytes.chunks(chunk) {
            while let Some(end) = framing.follow(part)? {
                complete += 1;
                part = &part[end..];
            }
        }
        Ok((complete, !framing.is_between()))
    }

    #[track_caller]
    fn assert_follows(bytes: &[u8], expected: Result<(u64, bool), Breach>) {
        for chunk in [1, 2, 7, bytes.len()] {
            assert_eq!(follow(bytes, chunk), expected, "{:?} by {chunk}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn values_are_counted_wherever_the_stream_is_cut() {
        for (bytes, complete) in [
            (&b"+OK\r\n"[..], 1),
            (b":-9223372036854775808\r\n", 1),
            (b"$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n", 4),
            (b"$7\r\n\r\n$1\r\n*\r\n", 1),
            (b"*2\r\n*1\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n:7\r\n", 2),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", 1),
            (b"_\r\n#t\r\n#f\r\n,1.5\r\n(123\r\n=8\r\ntxt:some\r\n!5\r\nERR x\r\n", 7),
            (b"%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n:2\r\n>2\r\n+message\r\n_\r\n", 2),
        ] {
            assert_follows(bytes, Ok((complete, false)));
            let mut cut = bytes.to_vec();
            cut.pop();
            assert_follows(&cut, Ok((complete - 1, true)));
        }
    }

    #[test]
    fn a_header_that_announces_too_much_is_refused_before_its_content() {
        for bytes in [
            &b"$4611686018427387904\r\n"[..],
            b"$1048577\r\n",
            b"=1048577\r\n",
            b"!1048577\r\n",
            b"*16385\r\n",
            b"~16385\r\n",
            b">16385\r\n",
            b"%8193\r\n",
            b"%9223372036854775807\r\n",
            b"*9223372036854775807\r\n",
            b"*2\r\n$1048500\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
            b"%1\r\n+a\r\n%1\r\n+a\r\n%1\r\n+a\r\n%1\r\n+a\r\n%1\r\n+a\r\n%1\r\n+a\r\n%1\r\n+a\r\n%1\r\n+a\r\n%1\r\n",
        ] {
            assert_follows(bytes, Err(Breach::TooLarge));
            let (_, begun) = follow(&bytes[..bytes.len() - 1], 1).unwrap();
            assert!(begun, "not before the header is complete");
        }
        let many: Vec<u8> = b"*16000\r\n".iter().copied().chain(b":1\r\n".repeat(16_000)).collect();
        assert_follows(&many, Err(Breach::TooLarge));
        let line: Vec<u8> = iter::once(b'-').chain(iter::repeat_n(b'x', LINE_MAX + 1)).collect();
        assert_follows(&line, Err(Breach::TooLarge));
        assert_follows(&line[..LINE_MAX], Ok((0, true)));
    }

    #[test]
    fn invalid_values_are_rejected_and_named() {
        for (bytes, breach) in [
            (&b"HTTP/1.1 400 Bad Request\r\n"[..], Breach::Http),
            (b"\x15\x03\x03\x00\x02\x02\x46", Breach::Tls),
            (b"220 mail.example ESMTP\r\n", Breach::Protocol),
            (b"|1\r\n", Breach::Protocol),
            (b";4\r\n", Breach::Protocol),
            (b".\r\n", Breach::Protocol),
            (b"*?\r\n", Breach::Protocol),
            (b"*1\r\n>1\r\n", Breach::Protocol),
            (b"$-2\r\n", Breach::Protocol),
            (b"*-7\r\n", Breach::Protocol),
            (b"%-1\r\n", Breach::Protocol),
            (b"$ 1\r\n", Breach::Protocol),
            (b"$1\r\nab\r\n", Breach::Protocol),
            (b":hunter2\r\n", Breach::Protocol),
            (b":1\rx\n", Breach::Protocol),
            (b"+a\rb\r\n", Breach::Protocol),
            (b"+a\nb\r\n", Breach::Protocol),
            (b"#x\r\n", Breach::Protocol),
            (b"_0\r\n", Breach::Protocol),
            (b":99999999999999999999999\r\n", Breach::Protocol),
            (b"\n", Breach::Protocol),
        ] {
            assert_eq!(follow(bytes, bytes.len()), Err(breach), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_resp2_stream_has_no_values_of_resp3() {
        for kind in b"_#,(=!~%>" {
            assert_eq!(Framing::default().follow(&[*kind]), Err(Breach::Protocol), "{}", char::from(*kind));
        }
    }

    proptest! {
        #[test]
        fn chunk_boundaries_make_no_difference(bytes in prop::collection::vec(prop::sample::select(&b"+-:$*%>_\r\n0123x"[..]), 0..60)) {
            let whole = follow(&bytes, bytes.len().max(1));
            for chunk in 1..4 {
                prop_assert_eq!(follow(&bytes, chunk), whole);
            }
        }
    }
}
