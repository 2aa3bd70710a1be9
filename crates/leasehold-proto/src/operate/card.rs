//! The card of a client: which process it belongs to.
//!
//! Invariant: a card has no control character and at most [`CARD_MAX`] bytes.

use super::line::{cleaned, fields};
use crate::owner::ClientId;

/// The longest text of a card, in bytes. A reader ignores a longer one.
const CARD_MAX: usize = 4096;
/// The most labels of a card. They are in each card that an operator reads. Chosen, not measured.
const LABELS_MAX: usize = 4;

/// The process behind a client, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Card {
    /// The client's id, with which each of its wire owners begins.
    pub client: ClientId,
    /// The name of the client.
    pub name: String,
    /// The name of its machine.
    pub host: String,
    /// The number of its process.
    pub pid: u32,
    /// The program that it runs.
    pub program: String,
    /// The library and its version.
    pub library: String,
    /// What the program says about itself, such as its version: names and values.
    pub labels: Vec<(String, String)>,
}

/// Labels that no card can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// More than four labels.
    #[error("a client has at most {LABELS_MAX} labels")]
    TooManyLabels,
    /// A label whose name is empty or has an equals sign.
    #[error("the name of a label is not empty and has no `=`")]
    LabelName,
}

impl Card {
    /// Makes the card of a client. Control characters in its texts become spaces, and texts of more than 512 bytes are
    /// cut.
    #[must_use]
    pub fn new(
        client: ClientId,
        name: &str,
        (host, pid): (&str, u32),
        (program, library): (&str, &str),
    ) -> Self {
        let [name, host, program, library] = [name, host, program, library].map(cleaned);
        Self { client, name, host, pid, program, library, labels: Vec::new() }
    }

    /// Sets the labels, at most four, which have passed [`check_labels`].
    #[must_use]
    pub fn labelled(mut self, labels: &[(String, String)]) -> Self {
        let labels = labels.iter().take(LABELS_MAX);
        self.labels = labels.map(|(name, value)| (cleaned(name), cleaned(value))).collect();
        self
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
    }

    /// Returns the text of the card.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { client, name, host, pid, program, library, labels } = self;
        let mut text = format!("{client}\t{name}\t{host}\t{pid}\t{program}\t{library}");
        for (name, value) in labels {
            text.push_str(&format!("\t{name}={value}"));
        }
        text
    }

    /// Reads the text of a card. More fields than this version knows are labels, or ignored.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= CARD_MAX)?;
        let fields = fields(text)?;
        let [client, name, host, pid, program, library, labels @ ..] = fields.as_slice() else { return None };
        let mut card = Self::new(client.parse().ok()?, name, (host, pid.parse().ok()?), (program, library));
        let labels = labels.iter().filter_map(|label| label.split_once('=')).take(LABELS_MAX);
        card.labels = labels.map(|(name, value)| (cleaned(name), cleaned(value))).collect();
        Some(card)
    }
}

/// Checks the labels of a card.
///
/// # Errors
/// Fails for more than four labels, and for a name that is empty or has an equals sign.
pub fn check_labels(labels: &[(String, String)]) -> Result<(), CardError> {
    if labels.iter().any(|(name, _)| name.is_empty() || name.contains('=')) {
        return Err(CardError::LabelName);
    }
    if labels.len() > LABELS_MAX { Err(CardError::TooManyLabels) } else { Ok(()) }
}

/// A registered card.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// The card.
    pub card: Card,
    /// The time until the registration ends, in milliseconds of the server.
    pub left_ms: u64,
}

impl Registered {
    pub(super) const fn new(card: Card, left_ms: u64) -> Self {
        Self { card, left_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        let client = ClientId::from_random([7; 16]);
        Card::new(client, "orders", ("host-1", 4711), ("orders-api", "leasehold 0.1.0"))
    }

    #[test]
    fn a_card_is_read_as_it_was_written() {
        let labels = [("version".to_owned(), "1.2=3".to_owned()), ("zone".to_owned(), String::new())];
        let card = card().labelled(&labels);
        assert_eq!(card.label("version"), Some("1.2=3"));
        assert_eq!(Card::read(card.text().as_bytes()), Some(card));
    }

    #[test]
    fn a_hostile_card_is_cleaned_or_refused() {
        let client = ClientId::from_random([7; 16]);
        let hostile = Card::new(client, "a\tb\u{1b}[2J", ("h\n", 1), ("p", "l"));
        assert_eq!((hostile.name.as_str(), hostile.host.as_str()), ("a b [2J", "h "));
        for text in [&b""[..], b"x\ty", b"\xff\t", "\t".repeat(9).as_bytes(), "x".repeat(5000).as_bytes()] {
            assert_eq!(Card::read(text), None);
        }
        let text = card().text();
        assert_eq!(Card::read(text.replace("orders", "\u{1b}").as_bytes()), None);
        assert!(Card::read(format!("{text}\tfield of a later version").as_bytes()).is_some());
    }

    #[test]
    fn labels_are_few_and_have_names() {
        let label = |name: &str| (name.to_owned(), "value".to_owned());
        assert_eq!(check_labels(&[label("")]), Err(CardError::LabelName));
        assert_eq!(check_labels(&[label("a=b")]), Err(CardError::LabelName));
        let many: Vec<_> = (0..5).map(|number| label(&number.to_string())).collect();
        assert_eq!(check_labels(&many), Err(CardError::TooManyLabels));
        assert_eq!(check_labels(&many[..4]), Ok(()));
    }
}
