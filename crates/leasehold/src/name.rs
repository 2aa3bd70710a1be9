//! The values that can name a lock, semaphore or latch.

// Invariant: an unusable name is kept with its reason, and the first operation reports it.

use std::sync::Arc;

use leasehold_proto::NameError;
pub use leasehold_proto::{NAME_BYTES_MAX, Name, RAW_NAME_BYTES_MAX};

use crate::error::BadName;

/// A name, or the reason why it cannot be used.
pub(crate) type Named = Result<Name, BadName>;

/// Converts a name, or keeps the reason together with the text.
pub(crate) fn named(name: impl IntoName) -> Named {
    let text: Arc<str> = name.as_text().into();
    name.into_name().map_err(|error| BadName::new(error, &text))
}

/// A value that can name a lock: text, or an existing [`Name`].
pub trait IntoName {
    /// Converts the value to a name.
    ///
    /// # Errors
    /// [`NameError`] names the rule that the text breaks.
    fn into_name(self) -> Result<Name, NameError>;

    /// Returns the text, for the errors of a name that cannot be used.
    fn as_text(&self) -> &str;
}

impl IntoName for Name {
    fn into_name(self) -> Result<Name, NameError> {
        Ok(self)
    }

    fn as_text(&self) -> &str {
        self.as_str()
    }
}

impl IntoName for &str {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(self)
    }

    fn as_text(&self) -> &str {
        self
    }
}

impl IntoName for String {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(&self)
    }

    fn as_text(&self) -> &str {
        self
    }
}

impl IntoName for &String {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(self)
    }

    fn as_text(&self) -> &str {
        self
    }
}
