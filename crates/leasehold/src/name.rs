//! What can name a lock, semaphore or latch.
//!
//! Invariant: a name that cannot be used is kept with its reason, and reported by the first operation.
//! Called by: the client's constructors.

use leasehold_proto::{Name, NameError};

/// What can name a lock: text, or a [`Name`] that was made otherwise.
pub trait IntoName {
    /// The name, or why it cannot be used.
    ///
    /// # Errors
    /// [`NameError`] says which rule the text breaks.
    fn into_name(self) -> Result<Name, NameError>;
}

impl IntoName for Name {
    fn into_name(self) -> Result<Name, NameError> {
        Ok(self)
    }
}

impl IntoName for &str {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(self)
    }
}

impl IntoName for String {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(&self)
    }
}

impl IntoName for &String {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(self)
    }
}
