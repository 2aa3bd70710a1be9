//! The reply of a script.

#![warn(clippy::exhaustive_enums)]

/// The reply of a script.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reply {
    /// A null bulk or null array.
    Nil,
    /// An integer, such as a remaining time in milliseconds.
    Int(i64),
    /// A bulk or simple string, as bytes.
    Text(Vec<u8>),
    /// An array, such as the fields and values of a hash.
    Array(Vec<Reply>),
}
