//! What can name a lock, semaphore or latch.
//!
//! Invariant: a name that cannot be used is kept with its reason, and reported by the first operation.
//! Called by: the client's constructors.

use std::sync::Arc;

use leasehold_proto::{Name, NameError};

use crate::error::BadName;

/// A name, or what is wrong with it.
pub(crate) type Named = Result<Name, BadName>;

/// The name, or what is wrong with it and its text.
pub(crate) fn named(name: impl IntoName) -> Named {
    let text: Arc<str> = name.as_text().into();
    name.into_name().map_err(|error| BadName::new(error, &text))
}

/// What can name a lock: text, or a [`Name`] that was made otherwise.
pub trait IntoName {
    /// The name, or why it cannot be used.
    ///
    /// # Errors
    /// [`NameError`] says which rule the text breaks.
    fn into_name(self) -> Result<Name, NameError>;

    /// The text, for the errors of a name that cannot be used.
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
