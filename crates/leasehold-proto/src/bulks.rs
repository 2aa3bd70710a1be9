//! Byte strings behind each other in one buffer, in the form in which they go to the server: bulk strings of RESP.
//!
//! Invariant: the buffer is a sequence of whole bulk strings, `$<length>\r\n<bytes>\r\n` each.

use std::ops::Range;

use crate::text::Text;

/// The end of a line in RESP.
const LINE_END: &[u8] = b"\r\n";

/// The byte strings.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bulks(Vec<u8>);

impl Bulks {
    /// Makes room for further bytes, heads and ends of lines included.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.0.reserve(bytes);
    }

    /// Adds a byte string.
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.join(std::iter::once(value));
    }

    /// Adds a byte string of these parts.
    pub(crate) fn join(&mut self, parts: impl Iterator<Item: AsRef<[u8]>> + Clone) {
        let length: usize = parts.clone().map(|part| part.as_ref().len()).sum();
        self.0.push(b'$');
        self.0.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        self.0.extend_from_slice(LINE_END);
        for part in parts {
            self.0.extend_from_slice(part.as_ref());
        }
        self.0.extend_from_slice(LINE_END);
    }

    /// Adds the text of a value, without a string of its own.
    pub(crate) fn print(&mut self, value: impl Text) {
        let begin = self.0.len();
        // Most lengths have one or two digits, so most texts stay in place when their length is known.
        self.0.extend_from_slice(b"$0\r\n");
        let text = self.0.len();
        value.write(&mut self.0);
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(self.0.len() - text).as_bytes();
        self.0[begin + 1] = digits[0];
        for (place, digit) in digits.iter().enumerate().skip(1) {
            self.0.insert(begin + 1 + place, *digit);
        }
        self.0.extend_from_slice(LINE_END);
    }

    /// Returns the byte strings.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges().map(|(_, value)| &self.0[value])
    }

    /// Returns the byte strings with their heads and ends of lines.
    pub(crate) fn encoded(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges().map(|(begin, value)| &self.0[begin..value.end + LINE_END.len()])
    }

    /// Returns the bytes of the first `count` bulk strings and the bytes of the others.
    pub(crate) fn split(&self, count: usize) -> (&[u8], &[u8]) {
        let end = self.ranges().nth(count).map_or(self.0.len(), |(begin, _)| begin);
        self.0.split_at(end)
    }

    /// Replaces the byte string at this place, which exists.
    pub(crate) fn replace(&mut self, place: usize, value: &[u8]) {
        let found = self.ranges().nth(place);
        let (begin, old) = found.expect("the byte string is there");
        if self.0[old.clone()] != *value {
            let mut new = Self::default();
            new.push(value);
            self.0.splice(begin..old.end + LINE_END.len(), new.0);
        }
    }

    /// Returns the beginning of each bulk string and the range of its value.
    fn ranges(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let mut begin = 0;
        std::iter::from_fn(move || {
            let digits = self.0[begin..].iter().skip(1).take_while(|byte| byte.is_ascii_digit());
            let (count, length) = digits
                .fold((0, 0), |(count, length), digit| (count + 1, length * 10 + usize::from(digit - b'0')));
            let value = begin + 1 + count + LINE_END.len();
            let found = (begin, value..value + length);
            (count > 0).then(|| {
                begin = value + length + LINE_END.len();
                found
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_of_any_length_has_its_length_before_it() {
        for length in [0, 1, 9, 10, 99, 100, 1_000, 70_000] {
            let text = "x".repeat(length);
            let mut bulks = Bulks::default();
            bulks.print(&text);
            bulks.print(7);
            assert_eq!(bulks.0, format!("${length}\r\n{text}\r\n$1\r\n7\r\n").as_bytes(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn byte_strings_come_back_as_they_were(
            mut values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 1..8),
            place: prop::sample::Index,
            other in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            let mut bulks = Bulks::default();
            values.iter().for_each(|value| bulks.push(value));
            prop_assert!(bulks.iter().eq(values.iter().map(Vec::as_slice)));
            prop_assert_eq!(bulks.encoded().flatten().copied().collect::<Vec<_>>(), &*bulks.0);
            let place = place.index(values.len());
            bulks.replace(place, &other);
            values[place] = other;
            prop_assert!(bulks.iter().eq(values.iter().map(Vec::as_slice)));
        }
    }
}
