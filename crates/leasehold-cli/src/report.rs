//! One-line messages to the operator, on stderr, each beginning with `leasehold: `.
//!
//! Invariant: no message has a password of a URL or a control character in it, and writing never stops the wrapper, not
//! even when the terminal belongs to the command.

use std::cell::Cell;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::clock::{Instant, now};
use crate::terminal;

/// The writer of messages, which knows whether the operator asked for verbose messages (`-v`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    verbose: bool,
}

impl Report {
    pub(crate) fn new(verbose: bool) -> Self {
        Self { verbose }
    }

    /// Writes a message that every operator must see.
    pub(crate) fn warn(self, message: fmt::Arguments<'_>) {
        let text = cleaned(&message.to_string().replace('\n', " "));
        write_to_stderr(&format!("leasehold: {text}\n"));
    }

    /// Writes a message for operators who asked for verbose messages.
    pub(crate) fn verbose(self, message: fmt::Arguments<'_>) {
        if self.verbose {
            self.warn(message);
        }
    }
}

/// A line on the terminal that says how far slow work is. It appears after two seconds.
#[derive(Debug)]
pub(crate) struct Progress {
    is_wanted: bool,
    what: &'static str,
    begin: Instant,
    last: Cell<Option<Instant>>,
}

impl Progress {
    /// The time after which work is slow, and the pause between two messages.
    const SLOW: [Duration; 2] = [Duration::from_secs(2), Duration::from_millis(200)];

    pub(crate) fn new(is_wanted: bool, what: &'static str) -> Self {
        let is_wanted = is_wanted && io::stderr().is_terminal();
        Self { is_wanted, what, begin: now(), last: Cell::new(None) }
    }

    pub(crate) fn say(&self, done: u64, all: u64) {
        let time = now();
        let is_due = self.last.get().is_none_or(|last| time - last >= Self::SLOW[1]);
        if self.is_wanted && is_due && time - self.begin >= Self::SLOW[0] {
            self.last.set(Some(time));
            let percent = (done.saturating_mul(100)).checked_div(all).unwrap_or(100);
            write_to_stderr(&format!("\r{}: {percent} %", self.what));
        }
    }

    /// Removes the line.
    pub(crate) fn end(&mut self) {
        if self.last.take().is_some() {
            write_to_stderr("\r\u{1b}[K");
        }
    }
}

/// Writes in one piece. A closed stderr is no reason to fail, because the command matters more than the messages about
/// it.
pub(crate) fn write_to_stderr(text: &str) {
    terminal::without_stopping(|| {
        let _ = io::stderr().write_all(text.as_bytes());
    });
}

/// Writes the outcome of a verb. A reader that closes its end early is no error.
pub(crate) fn write_to_stdout(text: &str) {
    let _ = try_write_to_stdout(text);
}

/// Writes as [`write_to_stdout`] does. Returns false if there is no reader any more.
pub(crate) fn try_write_to_stdout(text: &str) -> bool {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok()
}

/// Returns the text without URL passwords, and with control characters other than line ends escaped.
///
/// A second safeguard. Values with secrets have no `Display`, and the library masks its own errors.
pub(crate) fn cleaned(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in masked(text).chars() {
        match character {
            '\n' => clean.push(character),
            control if control.is_control() => clean.extend(control.escape_default()),
            plain => clean.push(plain),
        }
    }
    clean
}

/// Puts `***` in place of the text between `://` and the last `@` of the same word.
fn masked(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let word = after.find(char::is_whitespace).unwrap_or(after.len());
        match after[..word].rfind('@') {
            Some(at) => {
                clean.push_str("***");
                rest = &after[at..];
            }
            None => rest = after,
        }
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_masked() {
        for (text, clean) in [
            ("redis://:secret@host:1", "redis://***@host:1"),
            ("a 'redis://me:s@cret@host' b rediss://:x@y", "a 'redis://***@host' b rediss://***@y"),
            ("redis://host:1/0 me@example.org", "redis://host:1/0 me@example.org"),
            ("://", "://"),
        ] {
            assert_eq!(cleaned(text), clean);
        }
    }

    #[test]
    fn control_characters_are_escaped_and_line_ends_kept() {
        assert_eq!(cleaned("a\u{1b}[2J\nb\u{9b}"), "a\\u{1b}[2J\nb\\u{9b}");
    }
}
