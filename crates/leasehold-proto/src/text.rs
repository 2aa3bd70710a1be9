//! Texts that are written where they go, without a string of their own and without the standard formatting.

use std::fmt;

/// A value that a call takes as a key or an argument: a text, or a number in decimal digits.
pub trait Text {
    /// Adds the bytes of the value to a buffer.
    fn write(&self, buffer: &mut Vec<u8>);

    /// Returns the number of bytes, or fewer if counting them would cost as much as writing them.
    fn least_length(&self) -> usize {
        0
    }
}

impl<T: Text + ?Sized> Text for &T {
    fn write(&self, buffer: &mut Vec<u8>) {
        (**self).write(buffer);
    }

    fn least_length(&self) -> usize {
        (**self).least_length()
    }
}

impl Text for str {
    fn write(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(self.as_bytes());
    }

    fn least_length(&self) -> usize {
        self.len()
    }
}

impl Text for String {
    fn write(&self, buffer: &mut Vec<u8>) {
        self.as_str().write(buffer);
    }

    fn least_length(&self) -> usize {
        self.len()
    }
}

macro_rules! in_digits {
    ($($number:ty),*) => {$(
        impl Text for $number {
            fn write(&self, buffer: &mut Vec<u8>) {
                buffer.extend_from_slice(itoa::Buffer::new().format(*self).as_bytes());
            }
        }
    )*};
}

in_digits!(u8, u32, u64, u128, usize, i32, i64);

/// A text, as the function that writes it.
struct Written<F>(F);

impl<F: Fn(&mut Vec<u8>)> Text for Written<F> {
    fn write(&self, buffer: &mut Vec<u8>) {
        (self.0)(buffer);
    }
}

impl<F: Fn(&mut Vec<u8>)> fmt::Display for Written<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = Vec::new();
        self.write(&mut buffer);
        f.write_str(std::str::from_utf8(&buffer).expect("a text is written in texts"))
    }
}

/// Returns the text that this function writes.
pub(crate) fn text(write: impl Fn(&mut Vec<u8>)) -> impl Text + fmt::Display {
    Written(write)
}

/// Returns the texts behind each other.
pub(crate) fn joined<const N: usize>(parts: [&dyn Text; N]) -> impl Text + fmt::Display {
    text(move |buffer| parts.iter().for_each(|part| part.write(buffer)))
}

/// Returns the text of a value, or an empty text for no value.
pub(crate) fn or_empty(value: Option<impl Text>) -> impl Text {
    text(move |buffer| value.iter().for_each(|value| value.write(buffer)))
}
