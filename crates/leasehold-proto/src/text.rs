//! Texts that are written where they go, without a string of their own.

use std::fmt;

/// A text, as the function that writes it.
struct Text<F>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Text<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

/// Returns the text that this function writes.
pub(crate) fn text(write: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result) -> impl fmt::Display {
    Text(write)
}

/// Returns the text of a value, or an empty text for no value.
pub(crate) fn or_empty(value: Option<impl fmt::Display>) -> impl fmt::Display {
    text(move |f| value.as_ref().map_or(Ok(()), |value| value.fmt(f)))
}
