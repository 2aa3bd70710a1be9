//! The reply of a server, for tests that ask one directly.

/// A reply that is no error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The absence of a value.
    Nil,
    /// A number.
    Integer(i64),
    /// A status or a string. Bytes that are no UTF-8 are replaced.
    Text(String),
    /// Replies in order. A map is a list of names and values in turn.
    Array(Vec<Reply>),
}

impl Reply {
    /// Returns the text, or an empty one for every other reply.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// Returns the number, also from a text that is a number.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the replies of a list, or none for every other reply.
    #[must_use]
    pub fn list(&self) -> &[Self] {
        match self {
            Self::Array(replies) => replies,
            _ => &[],
        }
    }

    /// Returns the value behind `name` in a list of names and values, or an empty text.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.list()
            .chunks(2)
            .find(|pair| pair.len() == 2 && pair[0].text() == name)
            .map_or("", |pair| pair[1].text())
    }
}
